"""What the tools say: values with a schema for programs, and the same in words for models that read words only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from hoptree.core.values import Passage
from hoptree.engine.result import Result, TreeNode
from hoptree.integrations.summary_text import Quoted, answer_text, join_text, quote, readable_ids
from hoptree.mcp.parts import Checked, Planned, Searched
from hoptree.models.model import Model


@dataclass(frozen=True, slots=True)
class Step:
    """A sub-question with its answer, where that comes from, and the ids of the passages it rests on."""

    id: int
    question: str
    answer: str
    source: str
    why: str = ""
    hypothesis: str = ""
    verdict: str = ""
    evidence: list[str] = field(default_factory=list)
    children: list[Step] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Spent:
    """What a call cost; tokens count whether or not a reply was remembered, `cost` is what was paid."""

    llm_calls: int
    prompt_tokens: int
    completion_tokens: int
    retrievals: int
    cost: float
    seconds: float


# The SDK takes slots for defaults, so the values that tools return have none.
@dataclass(frozen=True)
class Answered:
    """An answer, empty where none was found, with the tree of sub-questions and the evidence behind it.

    `stopped_by` is the limit that ended it early, if one did.
    """

    answer: str
    abstained: bool
    why: str
    tree: list[Step]
    evidence: list[Quoted]
    warnings: list[str]
    stopped_by: str
    method: str
    model: str
    usage: Spent


@dataclass(frozen=True)
class Found:
    """Passages, best first."""

    passages: list[Quoted]
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class SubQuestion:
    """A sub-question; `#queryN` in it stands for the answer of number N, which it waits for."""

    id: int
    question: str
    parent: int | None
    needs: list[int]


@dataclass(frozen=True)
class Plans:
    """The sub-questions of a question, each before those below it."""

    sub_questions: list[SubQuestion]
    warnings: list[str]
    usage: Spent


@dataclass(frozen=True)
class Checks:
    """What the evidence says of a claim; unknown is never taken for supported.

    `correction` is what would be right, where the evidence tells; `facts` are those of the graph that were cited,
    `looked_at` is how many passages there were.
    """

    verdict: Literal["supported", "refuted", "unknown"]
    reason: str
    correction: str
    evidence: list[Quoted]
    facts: list[str]
    looked_at: int
    warnings: list[str]
    usage: Spent


def tell_answer(result: Result, model: Model) -> tuple[Answered, str]:
    """An answer, as values and in words."""
    evidence, left_out = quote(result.evidence, model)
    warnings = _each(*result.warnings, *left_out)
    value = Answered(
        result.answer,
        result.abstained,
        result.why,
        [_step(node, result.evidence) for node in result.tree],
        evidence,
        warnings,
        result.stopped_by,
        result.method,
        _last_part(result.model),
        _spent(result),
    )
    return value, answer_text(result, evidence, warnings)


def tell_found(searched: Searched, model: Model) -> tuple[Found, str]:
    """What a search found, as values and in words."""
    quoted, left_out = quote(searched.passages, model)
    value = Found(quoted, _each(*searched.result.warnings, *left_out))
    count = len(quoted)
    lines = [f"{count} passage{'' if count == 1 else 's'} found, best first." if quoted else "Nothing was found."]
    return value, join_text(lines, quoted, value.warnings)


def tell_plan(planned: Planned) -> tuple[Plans, str]:
    """A plan, as values and in words."""
    nodes = planned.plan.nodes if planned.plan else ()
    parts = [SubQuestion(one.id, one.question, one.parent, list(one.refs)) for one in nodes]
    value = Plans(parts, list(planned.result.warnings), _spent(planned.result))
    lines = [f"{'  ' * (one.depth - 1)}{one.id}. {one.question}" for one in nodes]
    return value, join_text(lines, (), value.warnings)


def tell_check(checked: Checked, model: Model) -> tuple[Checks, str]:
    """A verdict, as values and in words."""
    verdict = checked.verdict
    evidence, left_out = quote(verdict.cited.passages, model)
    facts = [fact.text for fact in verdict.cited.facts]
    value = Checks(
        verdict.label,
        verdict.reason,
        verdict.correction,
        evidence,
        facts,
        len(checked.passages),
        _each(*checked.result.warnings, *left_out),
        _spent(checked.result),
    )
    lines = [f"Verdict: {verdict.label}"]
    if verdict.reason:
        lines.append(f"Why: {verdict.reason}")
    if verdict.correction:
        lines.append(f"It should be: {verdict.correction}")
    lines += [f"Fact: {fact}" for fact in facts]
    if verdict.label == "unknown":
        count = len(checked.passages)
        looked = "1 passage was looked at; it does" if count == 1 else f"{count} passages were looked at; they do"
        lines.append(f"{looked} not settle it.")
    return value, join_text(lines, evidence, value.warnings)


def _step(node: TreeNode, passages: Sequence[Passage]) -> Step:
    return Step(
        node.id,
        node.resolved or node.question,
        node.answer,
        node.source,
        node.why,
        node.hypothesis,
        node.verdict,
        readable_ids(node.evidence, passages),
        [_step(child, passages) for child in node.children],
    )


def _spent(result: Result) -> Spent:
    usage = result.usage
    return Spent(
        usage.llm_calls, usage.prompt_tokens, usage.completion_tokens, usage.retrievals, usage.cost, usage.seconds
    )


def _last_part(spec: str) -> str:
    """The name of a model; what stands before it may be a path."""
    return spec.partition("?")[0].rstrip("/").rpartition("/")[2]


def _each(*warnings: str) -> list[str]:
    return list(dict.fromkeys(warnings))
