"""Evidence for a hypothesis from text and graph, shown and cited."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Passage
from hoptree.engine.context import Context
from hoptree.engine.prompts import show_texts
from hoptree.graph.facts import Fact
from hoptree.methods.steps.compare import chooses
from hoptree.text.grounding import covers, has_names, holding, parts_of
from hoptree.text.parse import question_key, read_yes_no
from hoptree.text.quantities import date_spans

NOTHING = "(none)"
# T1 and F1 as they are shown, and what models call them: t1, Text 1, Fact 1.
_KIND = r"(?:(T|texts?|passages?|documents?)|F|facts?|triples?)"
_TAG = lazy_re(rf"\W*{_KIND}\s?#?(\d{{1,3}})\b", re.IGNORECASE)
_ALSO = r"\W*(?:(?:and|or)\b\W*)?"
_NUMBERED_TAG = lazy_re(rf"{_ALSO}(?:({_KIND})\s?#?)?(\d{{1,3}})\b", re.IGNORECASE)
_TAGS_ONLY = lazy_re(rf"(?:{_ALSO}(?:{_KIND}\s?#?)?\d{{1,3}}\b)+\W*", re.IGNORECASE)
_NO_REFERENCE = lazy_re(r"\W*(?:no\b.*|none|null|n/a|unknown)?\W*", re.IGNORECASE | re.DOTALL)
_MAX_REFERENCES = 50
_MAX_REFERENCE_CHARS = 500  # A passage quoted in full after its id is cut
_MAX_FABRICATED_CHARS = 200
_MAX_NESTING = 8


@dataclass(frozen=True, slots=True)
class Cited:
    """The passages and facts that references name, and invented ones."""

    passages: tuple[Passage, ...] = ()
    facts: tuple[Fact, ...] = ()
    fabricated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EvidenceBox:
    """Passages and facts, called T1, T2 … and F1, F2 … in a prompt."""

    passages: tuple[Passage, ...] = ()
    facts: tuple[Fact, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.passages or self.facts)

    def over(self, older: EvidenceBox) -> EvidenceBox:
        """Join this and older evidence, the newest first."""
        passages: dict[str, Passage] = {}
        for passage in (*self.passages, *older.passages):
            passages.setdefault(passage.id, passage)
        return EvidenceBox(tuple(passages.values()), tuple(dict.fromkeys((*self.facts, *older.facts))))

    def shown(self, ctx: Context) -> tuple[str, str]:
        """Return texts and facts as lines of a prompt, without injected orders."""

        def lines(kind: str, passages: Sequence[Passage]) -> str:
            shown = show_texts(ctx, passages, titles=True)
            return "\n".join(f"[{kind}{number}] {text}" for number, text in enumerate(shown, 1)) or NOTHING

        facts = [Passage(f"F{number}", "", fact.text) for number, fact in enumerate(self.facts, 1)]
        return lines("T", self.passages), lines("F", facts)

    def supporting(self, answer: str, question: str = "") -> tuple[str, ...]:
        """Return the passages and facts that hold an answer and a name of the question.

        A date may be written in another way there, or more exactly, and a name and a date may stand apart in it. Yes
        and no stand nowhere, and what the question names itself stands wherever it is mentioned: for these, one passage
        or fact must have all names and dates of the question, two at least, of which one may be the answer. What is to
        be chosen stands there whatever is right: nothing holds that. A question without names is about a page whose
        title is in its words, or a fact that has an end there.
        """
        if question and chooses(question):
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
        """Return the pages and facts whose names stand in a question."""
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
        """Yield what tags name; a bare number takes the kind before it."""
        texts = bool(self.passages)
        for tag in _NUMBERED_TAG.finditer(tags):
            texts = bool(tag[2]) if tag[1] else texts
            yield from self._tagged(int(tag[3]), texts=texts)

    def _tagged(self, number: int, *, texts: bool) -> list[Passage | Fact]:
        kind: Sequence[Passage | Fact] = self.passages if texts else self.facts
        return [kind[number - 1]] if 0 < number <= len(kind) else []


def _has_all_names(source: Passage, answer: str, question: str) -> bool:
    """Return whether a passage has all names of a question beside the answer."""
    others = [part for part in parts_of(question.partition(" ")[2]) if not _has_words(part, answer)]
    dates = [part for part in others if date_spans(part)]
    enough = len(others) >= (1 if parts_of(answer) else 2)
    return enough and covers(question, [source]) and all(holding(date, "", [source]) for date in dates)


def _has_words(text: str, words: str) -> bool:
    return f" {question_key(words)} " in f" {question_key(text)} "


def read_references(value: Any, nesting: int = 0, *, listed: bool = False) -> list[str]:
    """Return the references in a model's "ref"; three texts that are an item of a list are one triple."""
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
