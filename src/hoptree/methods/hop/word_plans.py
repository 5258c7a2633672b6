"""What a question's words tell of its form: comparisons have a branch for each thing, lists are intersected."""

from __future__ import annotations

import re
from typing import Literal

from hoptree.core.lazy import lazy_re
from hoptree.engine.context import Context
from hoptree.methods.steps.decompose import record_plan
from hoptree.text.comparison_plans import plan_comparison
from hoptree.text.comparison_questions import detect_comparison, expected_answer_type
from hoptree.text.question_tree import Node, Plan

_PLACEHOLDER = "{}"


def plan_by_words(ctx: Context, question: str) -> Plan | None:
    """Return a branch for each thing that a question compares; None where it compares nothing."""
    chains = plan_comparison(question)
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


Operator = Literal["lookup", "compare", "both", "intersect", "count", "yes_no"]

_HOW_MANY = lazy_re(
    r"^\W*(?:how many(?!\s+(?:more|fewer|less|(?:\w+\s+)?(?:years|months|weeks|days|hours|minutes|decades))\b)|"
    r"what (?:is|was) the number of)\b",
    re.IGNORECASE,
)
"""Things that can be listed: a difference or a length of time is told or computed."""
_ASKS_WHICH = r"(?:^|[.:;]\s)\W*(?:(?:in|on|at|for|from|of|by|with|to)\s+)?(?:which|who|whom|what|list|name)\b"
_FULFILS_BOTH = lazy_re(
    rf"\bboth\b|\bin common\b|\bsome of the same\b|{_ASKS_WHICH}.*?(?-i:\balso\b(?!\s+(?:known|called))|"
    r"\bas well\b|"
    r"\band\s+(?:later|again|still|one|in|had|has|have|was|were|is|are|[a-z]+ed|won|sang|wrote|made|led)\b)",
    re.IGNORECASE | re.DOTALL,
)
"""Signs that one thing fulfils two conditions: "both", "in common", "and also", "and later", "and studied"."""
_NO_VERB = r"(?!(?:is|was|were|are|did|does|do|has|had|have|of)\b)"
_ASKS_FOR_SEVERAL = lazy_re(
    rf"{_ASKS_WHICH}\s+(?:of\s+(?:the|these|those)\b|(?:{_NO_VERB}[\w'’.&-]+\s+){{0,4}}?"
    rf"(?-i:{_NO_VERB}[a-z]+[^\Wsu]s|people|men|women|children)\s+"
    r"(?-i:of|from|in|by|with|who|whom|that|which|where|did|have|were|are|[a-z]+ed|[a-z]+ing|made|had)\b)",
    re.IGNORECASE,
)
"""Which of several things are asked for, by a condition at the least: two names are of two then."""


def operator_of(question: str) -> Operator:
    """Return the operator of a question: one fact is looked up unless its words say that facts are put together.

    A comparison is one only where the things compared can be identified; what is said to fulfil several conditions is
    intersected.
    """
    if comparison := detect_comparison(question):
        return "both" if comparison.kind == "both" else "compare"
    if _HOW_MANY.match(question):
        return "count"
    if expected_answer_type(question) == "yes or no":
        return "yes_no"
    # Two names alone may be of one thing.
    several = _FULFILS_BOTH.search(question) or _ASKS_FOR_SEVERAL.search(question)
    if not several:
        return "lookup"
    from hoptree.methods.steps.conditions import may_list  # loads the steps of lists, which few questions need

    return "intersect" if may_list(question) else "lookup"
