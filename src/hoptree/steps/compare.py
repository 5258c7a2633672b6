"""Comparing what the branches of a tree found, in code, where the question asks for a comparison."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hoptree.comparing import conclude, detect
from hoptree.runtime.context import Context
from hoptree.tree import Node, Plan
from hoptree.values import Answer

__all__ = ["compare_branches"]


def compare_branches(
    ctx: Context, question: str, plan: Plan, asked: Mapping[int, str], answers: Mapping[int, Answer]
) -> Answer | None:
    """The answer by dates, numbers, names or yes and no, read from what was found for each of the things compared.

    None where the question compares nothing, or what was found does not decide it.
    """
    comparison = detect(question)
    if comparison is None:
        return None
    ends = {operand: _end_of(operand, plan, asked) for operand in comparison.operands}
    apart = len({end.id for end in ends.values() if end}) == len(ends)  # one fact about both is nothing to compare
    facts = {operand: answers[end.id].text for operand, end in ends.items() if end and answers[end.id].known}
    found = conclude(comparison, facts) if apart else None
    ctx.decide("compared", found is not None, kind_of=comparison.kind, facts=facts, why=found.why if found else "")
    if found is None:
        return None
    support = dict.fromkeys(name for node in plan.nodes for name in answers[node.id].support)
    return Answer(found.answer, found.why, source="synthesis", support=tuple(support))


def _end_of(operand: str, plan: Plan, asked: Mapping[int, str]) -> Node | None:
    """The last node of the branch that begins with a question about the operand, and leads to one fact about it."""
    name = _folded(operand)
    branch = [node for node in plan.nodes if f" {name} " in f" {_folded(asked[node.id])} "][:1]
    while branch:
        reached = {node.id for node in branch}
        later = [node for node in plan.nodes if node.id not in reached and node.refs and reached.issuperset(node.refs)]
        if not later:
            break
        branch.append(later[0])
    return branch[-1] if branch else None


def _folded(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
