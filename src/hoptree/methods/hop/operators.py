"""Operators: how a question's words say that facts are put together, and the branches that its words alone give."""

from __future__ import annotations

import re
from typing import Literal

from hoptree.core.lazy import lazy_re
from hoptree.engine.context import Context
from hoptree.methods.steps.conditions import ASKS_WHICH, asks_for_several, may_list, split_by_words
from hoptree.methods.steps.decompose import record_plan
from hoptree.text.comparison_plans import plan_comparison
from hoptree.text.comparison_questions import detect_comparison, expected_answer_type
from hoptree.text.question_tree import Node, Plan

_PLACEHOLDER = "{}"


def plan_by_words(ctx: Context, question: str) -> Plan | None:
    """Return a branch for each thing that a question compares, or asks for in common; None where it does neither."""
    chains = plan_comparison(question)
    if not chains and operator_of(question) in LISTS:
        chains = tuple((branch,) for branch in split_by_words(question).asked)
    if not chains:
        return None
    nodes: list[Node] = []
    for first, *later in chains:
        nodes.append(Node(len(nodes) + 1, first))
        for asked in later:  # each needs the answer to the one before
            above = nodes[-1]
            text = asked.replace(_PLACEHOLDER, f"#query{above.id}")
            nodes.append(Node(above.id + 1, text, above.id, above.depth + 1, (above.id,)))
    plan = Plan(tuple(nodes))
    record_plan(ctx, plan)
    return plan


Operator = Literal["lookup", "list", "compare", "both", "intersect", "union", "difference", "count", "yes_no"]
COMBINED_LISTS: tuple[Operator, ...] = ("intersect", "union", "difference")
LISTS: tuple[Operator, ...] = ("list", *COMBINED_LISTS)
"""Operators on everything that fulfils a condition, or several."""
_MAX_CHARS = 2000
"""Of a question; what comes behind says nothing more about its form."""

_HOW_MANY = lazy_re(
    r"^\W*(?:how many(?!\s+(?:more|fewer|less|(?:\w+\s+)?(?:years|months|weeks|days|hours|minutes|decades))\b)|"
    r"what (?:is|was) the number of)\b",
    re.IGNORECASE,
)
"""Things that can be listed: a difference or a length of time is told or computed."""
_FULFILS_BOTH = lazy_re(
    rf"\bboth\b|\bin common\b|\bsome of the same\b|{ASKS_WHICH}(?:\s+of\s+(?:the|these|those)\b|.*?"
    r"(?-i:\balso\b(?!\s+(?:known|called))|\bas well\b|"
    r"\band\s+(?:later|again|still|one|in|had|has|have|was|were|is|are|[a-z]+ed|won|sang|wrote|made|led)\b))",
    re.IGNORECASE | re.DOTALL,
)
"""Signs that one thing fulfils two conditions: "both", "in common", "and also", "and later", "and studied"."""


def operator_of(question: str) -> Operator:
    """Return the operator of a question: one fact is looked up unless its words say that facts are put together.

    A comparison is one only where the things compared can be identified; what is said to fulfil several conditions is
    intersected.
    """
    question = question[:_MAX_CHARS]
    if comparison := detect_comparison(question):
        return "both" if comparison.kind == "both" else "compare"
    if _HOW_MANY.match(question):
        return "count"
    if expected_answer_type(question) == "yes or no":
        return "yes_no"
    several = asks_for_several(question)
    if several and (joined := split_by_words(question)).how != "intersect":
        return joined.how
    # Two names alone may be of one thing.
    if (several or _FULFILS_BOTH.search(question)) and may_list(question):
        return "intersect"
    return "list" if several and may_list(question, names=1) else "lookup"
