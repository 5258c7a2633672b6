"""What has to be done with the facts of a question, told by its own words and not by whoever plans it."""

from __future__ import annotations

import re
from typing import Literal

from hoptree.comparing import asked_kind, detect
from hoptree.steps.hypotheses.conditions import may_list
from hoptree.steps.planning.nesting import chain_of

__all__ = ["Operator", "operator_of"]

Operator = Literal["lookup", "chain", "compare", "both", "intersect", "count", "yes_no"]

_HOW_MANY = re.compile(r"^\W*(?:how many|what (?:is|was) the number of)\b", re.IGNORECASE)


def operator_of(question: str) -> Operator:
    """The operator of a question: one fact is looked up unless its words say that facts are put together.

    A comparison is one only where what is compared can be told; things that are described inside one another are
    looked up in a chain, and what fulfils several conditions is intersected.
    """
    if comparison := detect(question):
        return "both" if comparison.kind == "both" else "compare"
    if _HOW_MANY.match(question):
        return "count"
    if asked_kind(question) == "yes or no":
        return "yes_no"
    if chain_of(question):
        return "chain"
    return "intersect" if may_list(question) else "lookup"
