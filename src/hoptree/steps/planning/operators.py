"""What has to be done with the facts of a question, told by its own words and not by whoever plans it."""

from __future__ import annotations

import re
from typing import Literal

from hoptree.comparing import asked_kind, detect
from hoptree.steps.hypotheses.conditions import may_list
from hoptree.steps.planning.nesting import chain_of

__all__ = ["Operator", "operator_of"]

Operator = Literal["lookup", "chain", "compare", "both", "intersect", "count", "yes_no"]

_HOW_MANY = re.compile(
    r"^\W*(?:how many(?!\s+(?:more|fewer|less|(?:\w+\s+)?(?:years|months|weeks|days|hours|minutes|decades))\b)|"
    r"what (?:is|was) the number of)\b",
    re.IGNORECASE,
)
"""Things that can be listed: a difference or a length of time is told or computed."""
_ASKING = r"(?:^|[.:;]\s)\W*(?:(?:in|on|at|for|from|of|by|with|to)\s+)?(?:which|who|whom|what|list|name)\b"
_TWICE = re.compile(
    rf"\bboth\b|\bin common\b|\bsome of the same\b|{_ASKING}.*?(?-i:\balso\b(?!\s+(?:known|called))|\bas well\b|"
    r"\band\s+(?:later|again|still|one|in|had|has|have|was|were|is|are|[a-z]+ed|won|sang|wrote|made|led)\b)",
    re.IGNORECASE | re.DOTALL,
)
"""Signs that one thing fulfils two conditions: "both", "in common", "and also", "and later", "and studied"."""
_NOUN = r"(?!(?:is|was|were|are|did|does|do|has|had|have|of)\b)"
_SEVERAL = re.compile(
    rf"{_ASKING}\s+(?:of\s+(?:the|these|those)\b|(?:{_NOUN}[\w'’.&-]+\s+){{0,4}}?"
    rf"(?-i:{_NOUN}[a-z]+[^\Wsu]s|people|men|women|children)\s+"
    r"(?-i:of|from|in|by|with|who|whom|that|which|where|did|have|were|are|[a-z]+ed|[a-z]+ing|made|had)\b)",
    re.IGNORECASE,
)
"""Which of several things are asked for, by a condition at the least: two names are of two then."""


def operator_of(question: str) -> Operator:
    """The operator of a question: one fact is looked up unless its words say that facts are put together.

    A comparison is one only where what is compared can be told; things that are described inside one another are
    looked up in a chain, and what is said to fulfil several conditions is intersected.
    """
    if comparison := detect(question):
        return "both" if comparison.kind == "both" else "compare"
    if _HOW_MANY.match(question):
        return "count"
    if asked_kind(question) == "yes or no":
        return "yes_no"
    if chain_of(question):
        return "chain"
    return "intersect" if may_list(question) and _fulfils_several(question) else "lookup"


def _fulfils_several(question: str) -> bool:
    """Whether words say that what is asked for fulfils several conditions: two names alone may be of one thing."""
    return bool(_TWICE.search(question) or _SEVERAL.search(question))
