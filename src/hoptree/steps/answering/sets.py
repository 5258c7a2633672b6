"""What branches of a plan have in common, and how many things one of them lists, in code."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hoptree.comparing.countries import COUNTRY_OF
from hoptree.runtime.context import Context
from hoptree.steps.hypotheses.agreement import same
from hoptree.tree import Plan
from hoptree.values import Answer

__all__ = ["count_listed", "intersect_branches"]

_BETWEEN = re.compile(r"(?:[;\n]|,(?!\s*(?:Jr|Sr|I{1,3})\b))(?:[^\S\n]*and(?=\s))?|(?<=\s)and(?=\s)")
_LISTS = re.compile(
    r"\W*(?:(?:in|on|at|for|from|of|by|with|to)\s+)?(?:(?:which|what)\s+(?:(?!(?:is|was|does|did|has)\b)[\w'’-]+\s+){0,3}?"
    r"(?:[a-z]+[^\Wsu]s|people|men|women|children)\b|(?:who|what|which)\s+(?:are|were)\b|who\s+(?!(?:is|was|has)\b)[a-z]+|"
    r"(?:list|name)\s)",
    re.IGNORECASE,
)
"""A question for several things."""
_FEW_WORDS = 3
_MOST = 40
"""Names of a list; what is longer was not meant as one."""


def intersect_branches(ctx: Context, plan: Plan, answers: Mapping[int, Answer]) -> Answer | None:
    """The names that the ends of all branches list, in the words of the first.

    None where there is one branch, a branch has no answer, or no name is in all of them: then they are no lists of the
    same kind of thing, and have to be read.
    """
    ends = [path[-1] for path in plan.paths()]
    if len(ends) < 2 or any(not answers[end.id].known for end in ends):
        return None
    first, *others = (_listed(answers[end.id].text) for end in ends)
    shared = [name for name in first if all(any(same(name, other) for other in names) for names in others)]
    ctx.decide("intersected", shared, of=[answers[end.id].text for end in ends])
    if not shared:
        return None
    support = dict.fromkeys(name for end in ends for name in answers[end.id].support)
    return Answer(", ".join(shared), source="synthesis", support=tuple(support))


def count_listed(ctx: Context, plan: Plan, answers: Mapping[int, Answer]) -> Answer | None:
    """How many things the end of the only branch lists.

    None where it asks for no list, lists fewer than two, or tells a number; "Liverpool, England" is one place.
    """
    ends = [path[-1] for path in plan.paths()]
    if len(ends) != 1 or not answers[ends[0].id].known:
        return None
    answer = answers[ends[0].id]
    names = _listed(answer.text)
    if not _LISTS.match(ends[0].question) or len(names) < 2 or any(map(str.isdigit, answer.text)):
        return None
    if not _are_names(names):
        return None
    ctx.decide("counted", len(names), of=answer.text)
    return Answer(str(len(names)), source="synthesis", support=answer.support)


def _are_names(names: Sequence[str]) -> bool:
    """Whether each is a name of its own: none tells where another one is, and none is a piece of a sentence."""
    countries = [name.casefold() in COUNTRY_OF for name in names]
    if any(countries) and not all(countries):
        return False
    proper = [not name[0].islower() for name in names]
    return all(proper) or (not any(proper) and all(len(name.split()) <= _FEW_WORDS for name in names))


def _listed(text: str) -> list[str]:
    """The names of a list, each once."""
    names = [" ".join(name.split()).strip(" .") for name in _BETWEEN.split(text)[:_MOST]]
    return list(dict.fromkeys(name for name in names if name))
