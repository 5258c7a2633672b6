"""Verify a hypothesis against evidence, and ask what else to search for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.prompts import Filled, prompt_for
from hoptree.methods.steps.answer import note_reply
from hoptree.methods.steps.evidence_box import NOTHING, Cited, EvidenceBox, read_references
from hoptree.methods.steps.logic_tree import answer_of, text_of
from hoptree.text.loose_json import JsonReading, read_json
from hoptree.text.parse import clean_answer, cut_at_next_question, looks_unanswered
from hoptree.text.question_tree import Node, Pairs

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
    """What evidence says of a hypothesis: label, reason, correction, citations."""

    label: Label = "unknown"
    reason: str = ""
    correction: str = ""
    references: tuple[str, ...] = ()
    cited: Cited = _NOTHING_CITED


@decision("verdict")
class HypothesisValidated(Decision):
    """What evidence says of a hypothesis; `asked` if a model was."""

    value: str
    attempt: int
    asked: bool
    hypothesis: str
    why: str = ""


@decision("clue")
class ClueFound(Decision):
    """What to search for next, "" where the reply holds nothing."""

    value: str


@decision("ref_fabricated")
class ReferencesFabricated(Decision):
    """References that name nothing in the evidence."""

    value: list[str]


def read_verdict(reading: JsonReading, question: str = "") -> Verdict:
    """Read the verdict: supported for true, refuted for false with enough facts; what contradicts itself is unknown."""
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
    said = (str(raw_reason), *references)
    if label == "supported" and not enough and any(looks_unanswered(t) or _NO_INFORMATION.search(t) for t in said):
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
    """Return the value, unless there are several that differ."""
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
    """Ask what the evidence says of a hypothesis; unknown without evidence, or where nothing is claimed."""
    verdict = Verdict()
    if box:
        filled = _fill_evidence(ctx, "validate" if with_reason else "validate_only", question, hypothesis, box)
        reply = await ctx.generate("validate", filled, role="verify", max_tokens=_MAX_TOKENS, node=node)
        reading = read_json(reply.text)
        note_reply(ctx, "validate", reading.error, reading.repairs)
        verdict = read_verdict(reading, question)
        if verdict.label == "supported" and not answer_of(hypothesis, question):
            verdict = replace(verdict, label="unknown")
        if verdict.label != "unknown":  # what settles nothing is no reference either
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
