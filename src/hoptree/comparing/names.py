"""Names and yes or no, read from what was found about something."""

from __future__ import annotations

import re
import unicodedata

from hoptree.comparing.countries import COUNTRY_OF

__all__ = ["countries_in", "countries_told", "read_names", "read_yes_no", "says_not"]

_BETWEEN = re.compile(r"\s*(?:[,;/|]|\s[-–—]\s|\band\b|&)\s*")
_LEAD = re.compile(r"^(?:(?:he|she|it|they|who)\s+)?(?:is|was|are|were)\s+|^(?:an?|the|of|from|in|both)\s+")
_EDGE = " .!?\"'“”‘’()[]"
_LONGEST = 6
"""Words of the longest country name looked for."""
LONGEST_LIST = 6
"""Words: a longer text is a sentence and no list of countries."""
_NOT = re.compile(r"(?:\b(?:not|never|neither|nor|no)|n['’]t)\b", re.IGNORECASE)
_YES = re.compile(r"^\W*(?:yes|true|correct|yeah|yep|indeed)\b", re.IGNORECASE)
_NO = re.compile(r"^\W*(?:no|false|incorrect|not|nope)\b(?!\s*\.?\s*\d)", re.IGNORECASE)
_UNSURE = re.compile(
    r"\b(?:unknown|unclear|not (?:known|sure|stated|mentioned|given|clear)|no (?:information|mention|evidence))\b", re.I
)


def _normal(text: str) -> str:
    text = unicodedata.normalize("NFKC", text).replace("’", "'").casefold()
    return " ".join(text.split()).strip(_EDGE)


def read_names(text: str) -> frozenset[str]:
    """The names in the text, in one spelling; countries and the words for their people become the country.

    A list is parted at commas, slashes and "and"; "American film director" is two names, the country and the rest.
    """
    whole = _normal(text)
    if _UNSURE.search(whole):
        return frozenset()
    if whole in COUNTRY_OF:
        return frozenset((COUNTRY_OF[whole],))
    names: set[str] = set()
    for part in _BETWEEN.split(whole):
        found, rest = _countries(_bare(part))
        names.update(found)
        rest = _bare(rest)
        if rest:
            names.add(rest)
    return frozenset(names)


def countries_in(text: str) -> frozenset[str]:
    """The countries named in the text, also by the word for their people."""
    found = frozenset(_countries(_normal(text))[0])
    # Beside its country, Georgia is the state.
    return found - {"georgia"} if "united states" in found else found


def countries_told(text: str) -> frozenset[str]:
    """The countries that a text tells of something, each in a part of its own; none where it leaves them open.

    A negation does, a sentence with several, and two in one part: an American Indian is of one country.
    """
    found = countries_in(text)
    parts = re.split(rf"[()\[\]]|{_BETWEEN.pattern}", _normal(text))
    mixed = any(len(countries_in(part)) > 1 for part in parts) or len(text.split()) > LONGEST_LIST
    return frozenset() if says_not(text) or (mixed and len(found) > 1) else found


def says_not(text: str) -> bool:
    """Whether there is a negation in the text."""
    return _NOT.search(text) is not None


def _bare(part: str) -> str:
    before = ""
    while part != before:
        before, part = part, _LEAD.sub("", part.strip(_EDGE + "-")).strip(_EDGE + "-")
    return part


def _countries(part: str) -> tuple[list[str], str]:
    """The countries in a phrase, longest names first, and the words that are left."""
    words = [word for word in re.split(r"(?<!bissau)[\s]+|(?<=[a-z]{4})[-–](?=[a-z]{4})", part) if word]
    found: list[str] = []
    rest: list[str] = []
    place = 0
    while place < len(words):
        for size in range(min(_LONGEST, len(words) - place), 0, -1):
            phrase = " ".join(words[place : place + size])
            name = (
                COUNTRY_OF.get(phrase)
                or COUNTRY_OF.get(phrase.replace(" ", "-"))
                or COUNTRY_OF.get(phrase.strip(_EDGE + ",;:"))
            )
            if name:
                found.append(name)
                place += size
                break
        else:
            rest.append(words[place])
            place += 1
    return found, " ".join(rest)


def read_yes_no(text: str) -> bool | None:
    """Whether the text says yes or no, by its first word; None where it says neither or both."""
    if _UNSURE.search(text):
        return None
    if _YES.match(text):
        return None if re.search(r"\byes\b.{0,12}\bno\b", text[:40], re.IGNORECASE) else True
    return False if _NO.match(text) else None
