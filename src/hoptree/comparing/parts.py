"""What has to be asked of each thing that a question compares, told by its own words: no model has to plan it."""

from __future__ import annotations

import re

from hoptree.comparing.asking import PERSON
from hoptree.comparing.questions import Comparison, detect
from hoptree.comparing.wording import ROLE, Wording, single, wording_of

__all__ = ["parts_of"]

_ROLE_OF = re.compile(rf"^(?:the\s+)?(?P<role>{ROLE})\s+of\s+(?=\S)", re.IGNORECASE)
_OF = re.compile(r"^(?:the\s+)?[a-z]+\s+(?:[a-z]+\s+)?of\s")
_RELEASED = ("film", "movie", "documentary", "album", "song", "single", "series", "show", "game")
_PUBLISHED = ("book", "novel", "magazine", "newspaper", "journal", "comic")
_FOUNDED = ("university", "college", "school", "company", "band", "club", "organization", "organisation", "brand")
_MADE = {
    **dict.fromkeys(_RELEASED, "released"),
    **dict.fromkeys(_PUBLISHED, "published"),
    **dict.fromkeys(_FOUNDED, "founded"),
}
"""What a thing's age is counted from."""
_MEASURED = re.compile(r"(?P<word>tall|high|long|deep|heavi|wid)(?:er|est)")
_SIZES = {"tall": "tall", "high": "high", "long": "long", "deep": "deep", "heavi": "heavy", "wid": "wide"}
_BIRTH, _DEATH, _LIFE = "When was {} born?", "When did {} die?", "What are the dates of birth and death of {}?"


def parts_of(question: str) -> tuple[tuple[str, ...], ...] | None:
    """For each thing compared, what to ask one after the other, with {} where the answer before it goes.

    None where the question compares nothing, or any of its words tells more than which facts it compares.
    """
    comparison = detect(question)
    if comparison is None or comparison.kind not in ("choice", "same", "relation"):
        return None
    wording = wording_of(question, comparison)
    asked = _asked(comparison, wording) if wording else None
    if wording is None or asked is None:
        return None
    roles = [bool(_ROLE_OF.match(operand)) for operand in comparison.operands]
    if (wording.role or any(roles)) and comparison.of == "date" and asked not in (_BIRTH, _DEATH):
        return None
    related = [bool(_OF.match(operand)) for operand in comparison.operands]
    if related[0] and not all(related):  # the director of A or B: that of B as well, or B themselves
        return None
    return tuple(_chain(operand, wording, asked) for operand in comparison.operands)


def _chain(operand: str, wording: Wording, asked: str) -> tuple[str, ...]:
    """The questions that lead to the fact about one thing."""
    if role := _ROLE_OF.match(operand):
        return f"Who is the {single(role['role'])} of {operand[role.end() :]}?", asked
    if wording.role:
        named = f"the {wording.thing} {operand}" if wording.thing else operand
        return f"Who is the {wording.role} of {named}?", asked
    return (asked.replace("{}", operand),)


def _asked(comparison: Comparison, wording: Wording) -> str | None:
    """The question for the fact that is compared."""
    if comparison.of == "date":
        return _date(comparison, wording)
    if comparison.of == "span":
        return wording.event if wording.event == _LIFE else None
    if comparison.of == "number":
        size = _MEASURED.fullmatch(wording.comparing)
        return f"How {_SIZES[size['word']]} is {{}}?" if size and not wording.event else None
    if comparison.kind != "same" or comparison.about != "country" or wording.event:
        return None
    if wording.by_nationality or wording.role:
        return "What is the nationality of {}?"
    return "In which country is {} located?" if wording.by_place else "Which country is {} from?"


def _date(comparison: Comparison, wording: Wording) -> str | None:
    expected = {"birth": _BIRTH, "death": _DEATH}.get(comparison.event)
    if wording.event or comparison.event != "birth":
        fits = wording.event not in (_BIRTH, _DEATH, _LIFE) if expected is None else wording.event == expected
        return wording.event if wording.event and fits else None
    if not wording.role and (made := _MADE.get(wording.thing)):
        return f"When was {{}} {made}?"
    person = wording.role or PERSON.search(wording.around) or all(map(_ROLE_OF.match, comparison.operands))
    return _BIRTH if person else None
