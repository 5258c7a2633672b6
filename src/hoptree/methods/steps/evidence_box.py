"""Evidence from text and graph, and its verdict on a hypothesis."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Passage
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.prompts import Filled, prompt_for, show_texts
from hoptree.graph.facts import Fact
from hoptree.methods.steps.answer import note_reply
from hoptree.methods.steps.logic_tree import answer_of, text_of
from hoptree.text.comparison_questions import detect_comparison
from hoptree.text.grounding import covers, has_names, holding, parts_of
from hoptree.text.loose_json import JsonReading, read_json
from hoptree.text.parse import clean_answer, cut_at_next_question, looks_unanswered, question_key, read_yes_no
from hoptree.text.quantities import date_spans
from hoptree.text.question_tree import Node, Pairs

NOTHING = "(none)"
# The tags T1 and F1 of a prompt, and as models write them: t1, Text 1, Fact 1.
_KIND = r"(?:(T|texts?|passages?|documents?)|F|facts?|triples?)"
_TAG = lazy_re(rf"\W*{_KIND}\s?#?(\d{{1,3}})\b", re.IGNORECASE)
_ALSO = r"\W*(?:(?:and|or)\b\W*)?"
_NUMBERED_TAG = lazy_re(rf"{_ALSO}(?:({_KIND})\s?#?)?(\d{{1,3}})\b", re.IGNORECASE)
_TAGS_ONLY = lazy_re(rf"(?:{_ALSO}(?:{_KIND}\s?#?)?\d{{1,3}}\b)+\W*", re.IGNORECASE)
_NO_REFERENCE = lazy_re(r"\W*(?:no\b.*|none|null|n/a|unknown)?\W*", re.IGNORECASE | re.DOTALL)
_MAX_REFERENCES = 50
_MAX_REFERENCE_CHARS = 500  # cuts off a passage that is quoted in full after its id
_MAX_FABRICATED_CHARS = 200
_MAX_NESTING = 8


@dataclass(frozen=True, slots=True)
class EvidenceBox:
    """Passages and facts, called T1, T2 … and F1, F2 … in a prompt."""

    passages: tuple[Passage, ...] = ()
    facts: tuple[Fact, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.passages or self.facts)

    def over(self, older: EvidenceBox) -> EvidenceBox:
        """Join this and older evidence, the newer first."""
        passages: dict[str, Passage] = {}
        for passage in (*self.passages, *older.passages):
            passages.setdefault(passage.id, passage)
        return EvidenceBox(tuple(passages.values()), tuple(dict.fromkeys((*self.facts, *older.facts))))

    def shown(self, ctx: Context) -> tuple[str, str]:
        """Return texts and facts as lines of a prompt, without injected instructions."""

        def lines(kind: str, passages: Sequence[Passage]) -> str:
            shown = show_texts(ctx, passages, titles=True)
            return "\n".join(f"[{kind}{number}] {text}" for number, text in enumerate(shown, 1)) or NOTHING

        facts = [Passage(f"F{number}", "", fact.text) for number, fact in enumerate(self.facts, 1)]
        return lines("T", self.passages), lines("F", facts)

    def supporting(self, answer: str, question: str = "") -> tuple[str, ...]:
        """Return the ids of evidence that holds an answer and a name of the question.

        - A date may have another form or be more exact; name and date of an answer may occur apart.
        - For yes, no, or a name of the question as answer, a passage or fact must have all names and dates of the
          question, at least two, of which one may be the answer.
        - Nothing supports a choice between things that the question names, since all of them occur anyway.
        - For a question without names, only pages count whose title it has in its words, and facts with such an end.
        """
        if question and _compares(question):
            return ()
        box = self._about(question) if question and not has_names(question) else self
        sources = [*box.passages, *(Passage(fact.text, "", fact.text) for fact in box.facts)]
        if question and (read_yes_no(answer) is not None or _has_words(question, answer)):
            sources = [source for source in sources if _has_all_names(source, answer, question)]
        in_one_piece = holding(answer, question, sources)
        parts = [holding(part, question, sources) for part in parts_of(answer)]
        in_parts = set(parts[0]).intersection(*parts[1:]) if len(parts) > 1 else set()
        return tuple(source.id for source in sources if source.id in in_one_piece or source.id in in_parts)

    def _about(self, question: str) -> EvidenceBox:
        """Return the pages and facts whose names are in a question."""
        asked = f" {question_key(question)} "

        def named(*names: str) -> bool:
            keys = (question_key(name.partition(" (")[0]) for name in names)
            return any(f" {key} " in asked for key in keys if key)

        return EvidenceBox(
            tuple(passage for passage in self.passages if named(passage.title)),
            tuple(fact for fact in self.facts if named(fact.subject.text, fact.object.text)),
        )

    def cited(self, references: Iterable[str]) -> Cited:
        """Resolve references by tag, passage id or title, or the words of a fact."""
        passages: dict[str, Passage] = {}
        facts: dict[Fact, None] = {}
        fabricated = []
        for reference in references:
            resolved = self._resolve(reference)
            passages |= {item.id: item for item in resolved if isinstance(item, Passage)}
            facts |= {item: None for item in resolved if isinstance(item, Fact)}
            if not resolved and not _NO_REFERENCE.fullmatch(reference):
                fabricated.append(reference[:_MAX_FABRICATED_CHARS])
        return Cited(tuple(passages.values()), tuple(facts), tuple(fabricated))

    def _resolve(self, reference: str) -> list[Passage | Fact]:
        name = reference.split("||", 1)[0].strip(" []()\"'`")
        by_name: list[Passage | Fact] = [passage for passage in self.passages if passage.id == name]
        by_name = by_name or [passage for passage in self.passages if passage.title.casefold() == name.casefold()]
        if by_name or not name:
            return by_name
        if _TAGS_ONLY.fullmatch(name):
            return list(self._tagged_in(name))
        key = question_key(reference)
        if facts := [fact for fact in self.facts if key in map(question_key, (" ".join(fact.triple), fact.text))]:
            return [*facts]
        tag = _TAG.match(name)
        return self._tagged(int(tag[2]), texts=bool(tag[1])) if tag else []

    def _tagged_in(self, tags: str) -> Iterator[Passage | Fact]:
        """Yield the evidence that tags name; a bare number has the kind of the tag before."""
        texts = bool(self.passages)
        for tag in _NUMBERED_TAG.finditer(tags):
            texts = bool(tag[2]) if tag[1] else texts
            yield from self._tagged(int(tag[3]), texts=texts)

    def _tagged(self, number: int, *, texts: bool) -> list[Passage | Fact]:
        kind: Sequence[Passage | Fact] = self.passages if texts else self.facts
        return [kind[number - 1]] if 0 < number <= len(kind) else []


@dataclass(frozen=True, slots=True)
class Cited(EvidenceBox):
    """The evidence that references name, and references that were invented."""

    fabricated: tuple[str, ...] = ()


def _has_all_names(source: Passage, answer: str, question: str) -> bool:
    """Return whether a passage has all names of a question apart from the answer."""
    others = [part for part in parts_of(question.partition(" ")[2]) if not _has_words(part, answer)]
    dates = [part for part in others if date_spans(part)]
    enough = len(others) >= (1 if parts_of(answer) else 2)
    return enough and covers(question, [source]) and all(holding(date, "", [source]) for date in dates)


def _has_words(text: str, words: str) -> bool:
    return f" {question_key(words)} " in f" {question_key(text)} "


def read_references(value: Any, nesting: int = 0, *, listed: bool = False) -> list[str]:
    """Return the references in a "ref"; a listed item of three texts is a triple."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return [str(value)[:_MAX_REFERENCE_CHARS]]
    if nesting > _MAX_NESTING or not isinstance(value, Mapping | Sequence):
        return []
    items = list(value.values()) if isinstance(value, Mapping) else list(value)
    if listed and len(items) == 3 and all(isinstance(item, str) for item in items):
        return [" | ".join(items)[:_MAX_REFERENCE_CHARS]]
    inside = not isinstance(value, Mapping)
    references = [reference for item in items for reference in read_references(item, nesting + 1, listed=inside)]
    return references[:_MAX_REFERENCES]


Label = Literal["supported", "refuted", "unknown"]
_MAX_TOKENS, _CLUE_TOKENS = 512, 128
_MAX_CLUE_CHARS = 300
_CLUE_KEYS = ("new_clue", "clue", "newclue", "query", "search")
_NO_REASON = ("none", "null", "<none>", "n/a")
_NO_INFORMATION = re.compile(
    r"\b(?:no|not enough|insufficient|lack of|without)\s+(?:\w+\s+)?(?:information|evidence)\b", re.I
)
_MAX_VERDICTS = 4
_NOTHING_CITED = Cited()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a hypothesis: label, reason, correction, citations."""

    label: Label = "unknown"
    reason: str = ""
    correction: str = ""
    references: tuple[str, ...] = ()
    cited: Cited = _NOTHING_CITED


@decision("verdict")
class HypothesisValidated(Decision):
    """The verdict on a hypothesis; `asked` says whether a model was asked."""

    value: str
    attempt: int
    asked: bool
    hypothesis: str
    why: str = ""


@decision("clue")
class ClueFound(Decision):
    """The next query, "" if the reply has none."""

    value: str


@decision("ref_fabricated")
class ReferencesFabricated(Decision):
    """References that name nothing in the evidence."""

    value: list[str]


def read_verdict(reading: JsonReading, question: str = "") -> Verdict:
    """Read the verdict; "unknown" if it contradicts itself or lacks facts."""
    verdicts = list(_verdicts(reading))
    if not verdicts:
        return Verdict()
    first = verdicts[0]
    is_true = _single([value for verdict in verdicts for value in verdict["istrue"]])
    sufficient = _single(first.get("factsufficient", []))
    enough = not (sufficient is False or str(sufficient).strip().casefold() == "false")
    raw_reason = _single(first.get("reason", []))
    references = tuple(
        reference
        for name in ("ref", "refs", "reference", "references")
        for value in first.get(name, [])
        for reference in read_references(value)
    )
    label: Label = "supported" if is_true is True else "refuted" if is_true is False and enough else "unknown"
    grounds = (str(raw_reason), *references)
    if label == "supported" and not enough and any(looks_unanswered(t) or _NO_INFORMATION.search(t) for t in grounds):
        label = "unknown"
    reason = text_of(raw_reason)
    correction = answer_of(_single(first.get("correctanswer", [])), question)
    return Verdict(
        label,
        reason="" if reason.casefold() in _NO_REASON else reason,
        correction=correction if label == "refuted" else "",
        references=references,
    )


def _verdicts(reading: JsonReading) -> Iterator[dict[str, list[Any]]]:
    """Yield all verdicts of a reply: one, a list, or second thoughts beside the first."""
    for _ in range(_MAX_VERDICTS):
        items = reading.value if isinstance(reading.value, list) else [reading.value]
        for item in items:
            if isinstance(item, Mapping) and "istrue" in (values := _values_by_name(item)):
                yield values
        beside = cut_at_next_question(reading.beside)
        if "{" not in beside:
            return
        reading = read_json(beside)


def _values_by_name(value: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return all values under each name, in any spelling."""
    values: dict[str, list[Any]] = {}
    for key, item in value.pairs if isinstance(value, Pairs) else value.items():
        values.setdefault("".join(filter(str.isalpha, key.casefold())), []).append(item)
    return values


def _single(values: list[Any]) -> Any:
    """Return the value, or None if there are different ones."""
    return values[0] if values and all(type(item) is type(values[0]) and item == values[0] for item in values) else None


async def validate(
    ctx: Context,
    question: str,
    hypothesis: str,
    box: EvidenceBox,
    *,
    attempt: int,
    with_reason: bool = True,
    node: Node | None = None,
) -> Verdict:
    """Ask for the verdict of the evidence on a hypothesis; unknown without evidence."""
    verdict = Verdict()
    if box:
        filled = _fill_evidence(ctx, "validate" if with_reason else "validate_only", question, hypothesis, box)
        reply = await ctx.generate("validate", filled, role="verify", max_tokens=_MAX_TOKENS, node=node)
        reading = read_json(reply.text)
        note_reply(ctx, "validate", reading.error, reading.repairs)
        verdict = read_verdict(reading, question)
        if verdict.label == "supported" and not answer_of(hypothesis, question):
            verdict = replace(verdict, label="unknown")
        if verdict.label != "unknown":
            verdict = replace(verdict, cited=box.cited(verdict.references))
        if verdict.cited.fabricated:
            ctx.emit(ReferencesFabricated(value=list(verdict.cited.fabricated)), node=node)
    validated = HypothesisValidated(
        value=verdict.label, attempt=attempt, asked=bool(box), hypothesis=hypothesis, why=verdict.reason
    )
    ctx.emit(validated, node=node)
    return verdict


async def find_conflict(
    ctx: Context, question: str, hypothesis: str, verdict: Verdict, box: EvidenceBox, *, node: Node | None = None
) -> Verdict:
    """GetConflictReason: ask for reason and correction."""
    prompt = _fill_evidence(ctx, "reason", question, hypothesis, box)
    reply = (await ctx.generate("reason", prompt, role="verify", max_tokens=_MAX_TOKENS, node=node)).text
    value = read_json(reply).value
    values = _values_by_name(value) if isinstance(value, Mapping) else {}
    reason = text_of(_single(values.get("reason", []))) or ("" if values else text_of(reply))
    note_reply(ctx, "reason", "" if reason else "no reason", [] if values else ["no object"])
    return replace(verdict, reason=reason, correction=answer_of(_single(values.get("correctanswer", [])), question))


def _fill_evidence(ctx: Context, prompt: str, question: str, hypothesis: str, box: EvidenceBox) -> Filled:
    texts, facts = box.shown(ctx)
    shown = {"hypothesis": hypothesis or NOTHING, "texts": texts, "facts": facts}
    return prompt_for(ctx.method, prompt).fill(shots=(), question=question, **shown)


async def new_clue(ctx: Context, question: str, hypothesis: str, box: EvidenceBox, *, node: Node | None = None) -> str:
    """GenerateNewClue: ask for a new query, or ""."""
    prompt = _fill_evidence(ctx, "clue", question, hypothesis, box)
    clue = read_clue((await ctx.generate("clue", prompt, role="verify", max_tokens=_CLUE_TOKENS, node=node)).text)
    note_reply(ctx, "clue", "" if clue else "no clue")
    ctx.emit(ClueFound(value=clue), node=node)
    return clue


def read_clue(text: str) -> str:
    """Return the clue in a reply: the value in its JSON, or its first line."""
    value = read_json(text).value
    if isinstance(value, list):
        value = next((item for item in value if item), "")
    if isinstance(value, Mapping):
        folded = {str(key).strip().casefold().replace(" ", "_"): item for key, item in value.items()}
        named = next((folded[name] for name in _CLUE_KEYS if folded.get(name)), None)
        value = named if named is not None else next(iter(folded.values()), "") if len(folded) == 1 else ""
    if value is not None:
        return text_of(value)[:_MAX_CLUE_CHARS]
    line = clean_answer(text)
    return "" if line[:1] in ("{", "[") else text_of(line)[:_MAX_CLUE_CHARS]


def _compares(question: str) -> bool:
    """Return whether the answer is one of the things that the question compares."""
    comparison = detect_comparison(question)
    return comparison is not None and comparison.kind in ("choice", "which")
