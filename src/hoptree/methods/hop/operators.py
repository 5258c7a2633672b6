"""Operators: how a question's words say that facts are put together, and the lists that code computes from them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Answer
from hoptree.engine.context import Context
from hoptree.engine.events import Decision
from hoptree.methods.steps.decompose import record_plan
from hoptree.methods.steps.verify import same
from hoptree.text.comparison_plans import plan_comparison
from hoptree.text.comparison_questions import detect_comparison, expected_answer_type
from hoptree.text.quantities import countries
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchesIntersected(Decision):
    """The names that all lists share."""

    kind: ClassVar[str] = "intersected"
    value: list[str]
    of: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCounted(Decision):
    """How many names a list has."""

    kind: ClassVar[str] = "counted"
    value: int
    of: str


_SEPARATOR = lazy_re(r"(?:[;\n]|,(?!\s*(?:Jr|Sr|I{1,3})\b))(?:[^\S\n]*and(?=\s))?|(?<=\s)and(?=\s)")
_ASKS_FOR_LIST = lazy_re(
    r"\W*(?:(?:in|on|at|for|from|of|by|with|to)\s+)?(?:(?:which|what)\s+(?:(?!(?:is|was|does|did|has)\b)[\w'’-]+\s+){0,3}?"
    r"(?:[a-z]+[^\Wsu]s|people|men|women|children)\b|(?:who|what|which)\s+(?:are|were)\b|who\s+(?!(?:is|was|has)\b)[a-z]+|"
    r"(?:list|name)\s)",
    re.IGNORECASE,
)
_MAX_COMMON_NOUN_WORDS = 3
_MAX_LISTED_NAMES = 40


def intersect_branches(ctx: Context, plan: Plan, answers: Mapping[int, Answer]) -> Answer | None:
    """Return the names that the ends of all branches list, in the words of the first.

    None where there is one branch, a branch has no answer, or no name is in all of them: then they are no lists of the
    same kind of thing, and have to be read.
    """
    ends = [answers[path[-1].id] for path in plan.paths()]
    if len(ends) < 2 or not all(end.known for end in ends):
        return None
    first, *others = (_split_list(end.text) for end in ends)
    shared = [name for name in first if all(any(same(name, other) for other in names) for names in others)]
    ctx.emit(BranchesIntersected(value=shared, of=[end.text for end in ends]))
    if not shared:
        return None
    support = dict.fromkeys(passage_id for end in ends for passage_id in end.support)
    return Answer(", ".join(shared), source="synthesis", support=tuple(support))


def count_listed(ctx: Context, plan: Plan, answers: Mapping[int, Answer]) -> Answer | None:
    """Count the things that the end of the only branch lists.

    None where it asks for no list, lists fewer than two, or holds a number; "Liverpool, England" is one place.
    """
    ends = [path[-1] for path in plan.paths()]
    if len(ends) != 1 or not answers[ends[0].id].known:
        return None
    answer = answers[ends[0].id]
    names = _split_list(answer.text)
    is_list = _ASKS_FOR_LIST.match(ends[0].question) and len(names) > 1 and not any(map(str.isdigit, answer.text))
    if not is_list or not _are_names(names):
        return None
    ctx.emit(ListCounted(value=len(names), of=answer.text))
    return Answer(str(len(names)), source="synthesis", support=answer.support)


def _are_names(names: Sequence[str]) -> bool:
    """Return whether each is a name of its own: none says where another one is, and none is a piece of a sentence."""
    are_countries = [name.casefold() in countries().by_name for name in names]
    if any(are_countries) and not all(are_countries):
        return False
    proper = [not name[0].islower() for name in names]
    return all(proper) or (not any(proper) and all(len(name.split()) <= _MAX_COMMON_NOUN_WORDS for name in names))


def _split_list(text: str) -> list[str]:
    """Split a list into its names, each once."""
    names = [" ".join(name.split()).strip(" .") for name in _SEPARATOR.split(text)[:_MAX_LISTED_NAMES]]
    return list(dict.fromkeys(name for name in names if name))
