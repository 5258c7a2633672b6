"""Comparing what the branches of a tree or sub-questions found, in code, where the question asks for a comparison."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from hoptree.core.values import Answer
from hoptree.engine.context import Context
from hoptree.text.comparison import conclude
from hoptree.text.comparison_plans import select_facts
from hoptree.text.comparison_questions import Comparison, detect_comparison
from hoptree.text.question_tree import Node, Plan


def compares(question: str) -> bool:
    """Whether the question asks which of two things comes first, is larger, is the same, and so on."""
    return detect_comparison(question) is not None


def chooses(question: str) -> bool:
    """Whether the answer is one of the things that the question sets side by side."""
    found = detect_comparison(question)
    return found is not None and found.kind in ("choice", "which")


def compares_again(question: str, above: Iterable[str]) -> bool:
    """Whether the question sets the same things side by side as one of those above it, in whatever words.

    To split it would come to the same parts once more. "The director of A" is A here: nothing new is compared.
    """
    found = detect_comparison(question)
    others = map(detect_comparison, above) if found else ()
    return any(_same_things(found.operands, other.operands) for other in others if found and other)


def compare_branches(
    ctx: Context, question: str, plan: Plan, asked: Mapping[int, str], answers: Mapping[int, Answer]
) -> Answer | None:
    """The answer by dates, numbers, names or yes and no, read from what was found for each of the things compared.

    None where the question compares nothing, or what was found does not decide it.
    """
    comparison = detect_comparison(question)
    if comparison is None:
        return None
    about = {node.id: _named(asked[node.id], comparison.operands) for node in plan.nodes}
    ends = {operand: _end_of(operand, plan, about) for operand in comparison.operands}
    apart = len({end.id for end in ends.values() if end}) == len(ends)  # one fact about both is nothing to compare
    found = [
        (operand, asked[end.id], answers[end.id].text) for operand, end in ends.items() if end and answers[end.id].known
    ]
    facts = select_facts(comparison, question, found) if apart else {}
    return decide_by(ctx, comparison, facts, (answers[node.id] for node in plan.nodes))


def compare_pairs(
    ctx: Context, question: str, pairs: Sequence[tuple[str, Answer]], *, node: Node | None = None
) -> Answer | None:
    """As `compare_branches`, from sub-questions side by side: those that name one of the things, and no other."""
    comparison = detect_comparison(question)
    if comparison is None:
        return None
    found = []
    for asked, answer in pairs:
        named = _named(asked, comparison.operands)
        if len(named) == 1 and answer.known:
            found.append((named[0], asked, answer.text))
    facts = select_facts(comparison, question, found)
    return decide_by(ctx, comparison, facts, (answer for _, answer in pairs), node=node)


def decide_by(
    ctx: Context,
    comparison: Comparison,
    facts: Mapping[str, str],
    answers: Iterable[Answer],
    *,
    node: Node | None = None,
) -> Answer | None:
    """The answer that facts about the things compared give, resting on what `answers` rest on."""
    found = conclude(comparison, facts)
    why = found.why if found else ""
    ctx.decide("compared", found is not None, node=node, kind_of=comparison.kind, facts=dict(facts), why=why)
    if found is None:
        return None
    support = dict.fromkeys(name for answer in answers for name in answer.support)
    return Answer(found.answer, found.why, source="synthesis", support=tuple(support))


def _end_of(operand: str, plan: Plan, about: Mapping[int, Sequence[str]]) -> Node | None:
    """The last node of the branch that begins with a question about the operand, and leads to one fact about it."""
    branch = [node for node in plan.nodes if operand in about[node.id]][:1]
    while branch:
        reached = {node.id for node in branch}
        later = [node for node in plan.nodes if node.id not in reached and node.refs and reached.issuperset(node.refs)]
        if not later:
            break
        branch.append(later[0])
    return branch[-1] if branch else None


def _same_things(some: Sequence[str], others: Sequence[str]) -> bool:
    pairs = {(one, other) for one in some for other in others if _names(one, other) or _names(other, one)}
    return {one for one, _ in pairs} == set(some) and {other for _, other in pairs} == set(others)


def _named(asked: str, operands: Sequence[str]) -> list[str]:
    """The operands that a question names, the longest first: "Alien 3" in it is no "Alien"."""
    rest, named = f" {_folded(asked)} ", []
    for operand in sorted(operands, key=len, reverse=True):
        if (name := f" {_folded(operand)} ") in rest:
            named.append(operand)
            rest = rest.replace(name, " | ")
    return named


def _names(asked: str, operand: str) -> bool:
    return f" {_folded(operand)} " in f" {_folded(asked)} "


def _folded(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
