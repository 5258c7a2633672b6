"""What a sub-question asks for, as far as its words tell: a comparison rests on facts of the kind that it compares."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import combinations

from hoptree.comparing.conclusion import tells
from hoptree.comparing.questions import Comparison

__all__ = ["PERSON", "asked_kind", "facts_for"]


def _any_of(words: str) -> re.Pattern[str]:
    """Lower-case words only, since a name may hold any of them: "The Death Kiss"."""
    return re.compile(rf"\b(?:{'|'.join(words.split())})\b")


_EVENTS = {
    "birth": _any_of("born births? birthdates? birthdays?"),
    "death": _any_of("die died dies dead deaths? killed murdered executed assassinated passed\\s+away"),
    "founding": _any_of(
        "founded founding establish(?:ed|ment)? form(?:ed|ation) incorporated construct(?:ed|ion) built"
    ),
    "release": _any_of("released? premiered? premiering aired broadcast c[ao]me\\s+out coming\\s+out debuted"),
    "origin": _any_of(
        "published publication made creat(?:ed|ion) start(?:ed)? launched began begun begin opened written introduced "
        "produced production filmed recorded composed designed completed inaugurated debut originated? invented"
    ),
    "end": _any_of("closed closing dissolved end(?:ed)? disbanded demolished destroyed abolished defunct"),
}
_AKIN = {"founding": {"origin"}, "release": {"origin"}, "origin": {"founding", "release"}}
"""What is said of the same day of a thing: a magazine is founded, or first published."""
_OF_THINGS = frozenset(("birth", "founding", "release", "origin"))
"""What tells the age of something that is no person."""
PERSON = re.compile(
    r"^who|\bwhose\b|\b(?:directors?|authors?|writers?|actors?|actress\w*|composers?|singers?|performers?|musicians?|"
    r"artists?|producers?|founders?|creators?|players?|persons?|people|someone|man|woman|men|women|father|mother|"
    r"parents?|husband|wife|spouse|son|daughter|child|kings?|queens?|presidents?|politicians?)\b",
    re.IGNORECASE,
)
_LEAD = re.compile(r"^(?:(?:and|so|then|also)\s+)?(?:(?:in|on|at|by|to|for|from|of|with|during|since|until)\s+)?", re.I)
_KINDS = tuple(
    (kind, re.compile(form, re.IGNORECASE))
    for kind, form in (
        ("date", r"when\b|(?:what|which)\s+(?:\w+\s+)?(?:year|date|day|month|decade|century)\b"),
        ("date", r"(?:what|which)\b.{0,80}\b(?-i:year|years|date|dates|birthday|birthdate|lifespan)\b"),
        ("number", r"how\s+(?!(?:do|does|did|is|are|was|were|has|have|had|can|could|come)\b)\w+"),
        ("person", r"who(?:m|se)?\b"),
        ("place", r"where\b|(?:what|which)\s+(?:countr|nation|cit|town|village|state|place|province|region|continent)"),
        ("yes or no", r"(?:is|are|was|were|do|does|did|has|have|had|will|would|can|could)\b"),
    )
)
_TWO_IN_ONE = re.compile(r"\band\s+(?:in\s+)?(?:when|where|how|what|which|who)\b", re.IGNORECASE)
_ASKED_FOR: dict[str, frozenset[str]] = {
    "date": frozenset(("date",)),
    "span": frozenset(("date", "number")),
    "number": frozenset(("number",)),
    "name": frozenset(("person", "place")),
}


def facts_for(comparison: Comparison, question: str, found: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """One fact an operand, from what was `found`: an operand, a question about it and its answer.

    A question that plainly asks for something else gives no fact: for another event than the one compared, or for a
    person where a date is needed; nor does an answer that tells of another event. Of the others the last counts whose
    answer holds a fact that can be compared. None are given where those of two operands are plainly of different
    kinds, a birth and a release.
    """
    facts: dict[str, str] = {}
    kinds: dict[str, frozenset[str]] = {}
    wanted = _wanted(comparison, question)
    for operand, asked, answer in found:
        events = _events(asked, comparison)
        if not _asks_for_it(comparison, asked) or not _akin(wanted, events):
            continue
        if comparison.of == "date" and not _akin(wanted, _events(answer, comparison)):
            continue
        if operand not in facts or tells(comparison, answer):
            facts[operand], kinds[operand] = answer, events
    return facts if all(_akin(one, two) for one, two in combinations(kinds.values(), 2)) else {}


def _wanted(comparison: Comparison, question: str) -> frozenset[str]:
    """The events that the comparison is about; none where the question does not tell."""
    named = _events(question, comparison)
    if comparison.of != "date" or not comparison.event:
        return named
    by_age = comparison.event not in named and not PERSON.search(question)
    return _OF_THINGS if by_age else frozenset((comparison.event,))


def _events(text: str, comparison: Comparison) -> frozenset[str]:
    for operand in comparison.operands:
        text = re.sub(re.escape(operand), " ", text, flags=re.IGNORECASE)
    return frozenset(event for event, words in _EVENTS.items() if words.search(text))


def _akin(some: frozenset[str], others: frozenset[str]) -> bool:
    """Whether two sets of events may mean the same one; where one tells nothing, they may."""
    wider = some.union(*(_AKIN.get(event, ()) for event in some))
    return not some or not others or bool(wider & others)


def _asks_for_it(comparison: Comparison, asked: str) -> bool:
    kind = asked_kind(asked)
    if comparison.kind in ("both", "which"):
        return kind in ("", "yes or no")
    if not kind or not comparison.of:
        return kind != "yes or no"
    return kind in _ASKED_FOR[comparison.of] - ({"person"} if comparison.about else set())


def asked_kind(asked: str) -> str:
    """What the first words of a question ask for: date, number, person, place, yes or no; "" where they do not tell.

    They do not tell either where they ask for two things.
    """
    text = _LEAD.sub("", asked.strip())
    if _TWO_IN_ONE.search(text):
        return ""
    return next((kind for kind, form in _KINDS if form.match(text)), "")
