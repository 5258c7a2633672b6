"""Operators: how a question's words say that facts are put together, and the branches that its words alone give."""

from __future__ import annotations

import re
from typing import Literal

from hoptree.core.lazy import lazy_re
from hoptree.engine.context import Context
from hoptree.methods.steps.decompose import record_plan
from hoptree.text.comparison_plans import plan_comparison
from hoptree.text.comparison_questions import detect_comparison, expected_answer_type
from hoptree.text.quantities import date_spans
from hoptree.text.question_tree import Node, Plan

_PLACEHOLDER = "{}"


def plan_by_words(ctx: Context, question: str) -> Plan | None:
    """Return a branch for each thing that a question compares, or asks for in common; None where it does neither."""
    chains = plan_comparison(question)
    if not chains and operator_of(question) in LISTS:
        chains = tuple((branch,) for branch in split_by_words(question)[1])
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
LISTS: tuple[Operator, ...] = ("list", "intersect", "union", "difference")
"""Operators on everything that fulfils a condition."""

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


_WORDS_BEFORE = r"(?:(?:in|on|at|for|from|of|by|with|to)\s+)?(?:(?:[a-z][\w-]*|@\d+@)\s+){0,4}?"
_THING = rf"{_WORDS_BEFORE}@\d+@(?:\s+in\s+@\d+@|\s+\(@\d+@\))?"
_PLACED = r"(?:in|on|at|for|from|of|by|with|to)\s+(?:(?:the|an?)\s+)?(?:[a-z][\w-]*\s+){0,2}?@\d+@"
_BARE = r"(?:(?:the|his|her)\s+[a-z-]+\s+)?@\d+@"
_AND_ALSO = r"(?:,?\s+and\s+(?:also|again|later|still)|\s+as\s+well\s+as)"
_SPLITS: tuple[tuple[Operator, re.Pattern[str]], ...] = (
    ("intersect", lazy_re(rf"\bboth\s+(?P<one>{_THING})\s+and\s+(?P<two>{_THING})")),
    ("intersect", lazy_re(rf"(?P<one>{_BARE})\s+and\s+(?P<two>{_BARE})(?:\s+both\b|(?=\s+have\s+in\s+common\b))")),
    ("intersect", lazy_re(rf"(?P<one>{_PLACED}){_AND_ALSO}\s+(?P<two>{_THING})")),
    ("union", lazy_re(rf"\beither\s+(?P<one>{_THING})\s+or\s+(?P<two>{_THING})")),
    ("difference", lazy_re(rf"(?P<one>{_PLACED}|{_BARE}),?\s+but\s+not\s+(?P<two>{_THING})")),
)
"""What joins two things that the same is asked of; names are numbered, so that no word of theirs is read."""


_BEHIND = lazy_re(r"(?:(?:\s+[a-z'’-]+)*|,?\s+respectively)\W*")
"""What may stand behind the second of two things: words that are said of both."""


def split_by_words(question: str) -> tuple[Operator, list[str]]:
    """Return a question for each of two things that the same is asked of, and how their answers are put together.

    No question where its words do not show it, or more is said of the second thing.
    """
    from hoptree.methods.steps.conditions import named_spans  # loads the steps of lists, which few questions need

    dates, masked = date_spans(question), question
    spans = [span for span in named_spans(question) if span not in dates]
    for number, (start, end) in reversed(list(enumerate(spans))):
        masked = f"{masked[:start]}@{number}@{masked[end:]}"
    for operator, pattern in _SPLITS:
        joined = pattern.search(masked)
        if joined and _BEHIND.fullmatch(masked, joined.end()):
            before, behind = masked[: joined.start()], masked[joined.end() :].replace(" have in common", " have")
            texts = (f"{before}{joined[name]}{behind}" for name in ("one", "two"))
            return operator, [
                re.sub(r"@(\d+)@", lambda match: question[slice(*spans[int(match[1])])], text) for text in texts
            ]
    return "lookup", []


_IS_PLURAL = lazy_re(
    rf"{_ASKS_WHICH}\s+(?:of\s+(?:the|these|those)\s+|(?:are|were)\s+|(?:the\s+)?(?:names\s+of\s+(?:all\s+)?(?:the\s+)?)?"
    rf"(?:{_NO_VERB}[\w'’.&-]+\s+){{0,4}}?(?-i:{_NO_VERB}[a-z]+[^\Wsu]s|people|men|women|children)\s+"
    r"(?:(?-i:of|from|in|by|with|on|at|who|whom|that|which|where|to)\s.*?\b)??"
    r"(?-i:do|did|have|were|are|can|[a-z]+ed|made|had|won|sang|wrote|led|went|played)\b)",
    re.IGNORECASE,
)


def asks_for_several(question: str) -> bool:
    """Return whether a question asks for several things: which of them, or what they, in the plural, are or did."""
    return _IS_PLURAL.search(question) is not None


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
    several = asks_for_several(question)
    # Two names alone may be of one thing.
    if not several and not _FULFILS_BOTH.search(question) and not _ASKS_FOR_SEVERAL.search(question):
        return "lookup"
    from hoptree.methods.steps.conditions import may_list  # loads the steps of lists, which few questions need

    if several and (operator := split_by_words(question)[0]) in ("union", "difference"):
        return operator
    if may_list(question):
        return "intersect"
    return "list" if several and may_list(question, names=1) else "lookup"
