"""The comparison itself: facts read for each operand in, the answer with its reason out, or an honest None."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations

from hoptree.text.comparison_questions import Comparison
from hoptree.text.comparison_words import Event, event_in
from hoptree.text.countries import COUNTRY_OF, REGIONS, SUCCESSORS
from hoptree.text.dates import Date, read_date, read_dates
from hoptree.text.numbers import Quantity, read_quantity

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


def stated_countries(text: str) -> frozenset[str]:
    """The countries that a text tells of something, each in a part of its own; none where it leaves them open.

    A negation does, a sentence with several, and two in one part: an American Indian is of one country.
    """
    found = countries_in(text)
    parts = re.split(rf"[()\[\]]|{_BETWEEN.pattern}", _normal(text))
    mixed = any(len(countries_in(part)) > 1 for part in parts) or len(text.split()) > LONGEST_LIST
    return frozenset() if has_negation(text) or (mixed and len(found) > 1) else found


def has_negation(text: str) -> bool:
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


_YEAR = 365.2425


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The answer, and in `why` the comparison it rests on, for people to check."""

    answer: str
    why: str


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a fact stands in an order: somewhere from `low` to `high`; `shown` tells it to people."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    shown: str
    dimension: str = ""

    def before(self, other: _Place) -> bool:
        return self.high < other.low


def conclude(comparison: Comparison, facts: Mapping[str, str] | Sequence[str]) -> Conclusion | None:
    """The answer that the facts give, one text an operand, by its name or in the operands' order.

    None wherever a fact is missing, cannot be read or leaves the order open: then it is not for code to decide.
    """
    texts = _in_order(comparison.operands, facts)
    if texts is None:
        return None
    if comparison.kind in ("both", "which"):
        return _holding(comparison, texts)
    if comparison.kind == "same":
        return _sameness(comparison, texts)
    places = _places(comparison, texts)
    if places is None:
        return None
    return _best(comparison, places) if comparison.kind == "choice" else _ordered(comparison, places)


def holds_fact(comparison: Comparison, text: str) -> bool:
    """Whether a fact can be read from the text that the comparison could rest on."""
    if comparison.kind in ("both", "which"):
        return read_yes_no(text) is not None
    if comparison.kind != "same" or comparison.of == "number":
        return _place(comparison, text) is not None
    if comparison.of == "date":
        return _one_date(text, comparison.event) is not None
    return bool(stated_countries(text) if comparison.about == "country" else read_names(text))


def _in_order(operands: tuple[str, ...], facts: Mapping[str, str] | Sequence[str]) -> list[str] | None:
    if isinstance(facts, str):
        return None
    if isinstance(facts, Mapping):
        known = {" ".join(name.casefold().split()): text for name, text in facts.items()}
        found = [known.get(" ".join(name.casefold().split()), "") for name in operands]
    else:
        found = list(facts)
    return found if len(found) == len(operands) and all(text.strip() for text in found) else None


def _holding(comparison: Comparison, texts: list[str]) -> Conclusion | None:
    held = [read_yes_no(text) for text in texts]
    said = "; ".join(
        f"{name}: {'yes' if holds else 'no'}"
        for name, holds in zip(comparison.operands, held, strict=True)
        if holds is not None
    )
    if comparison.kind == "both":
        if False in held:
            return Conclusion("no", said)
        return Conclusion("yes", said) if None not in held else None
    if None in held or held.count(True) != 1:
        return None
    return Conclusion(comparison.operands[held.index(True)], said)


def _places(comparison: Comparison, texts: list[str]) -> list[_Place] | None:
    places = []
    for text in texts:
        place = _place(comparison, text)
        if place is None:
            return None
        places.append(place)
    return places if len({place.dimension for place in places}) == 1 else None


def _place(comparison: Comparison, text: str) -> _Place | None:
    if comparison.of == "date":
        date = _one_date(text, comparison.event)
        return None if date is None else _Place(date.first, date.last, str(date))
    if comparison.of == "span":
        return _span(text)
    if comparison.of == "number":
        quantity = read_quantity(text)
        if quantity:
            return _Place((quantity.value,), (quantity.value,), _shown(quantity), quantity.dimension)
    return None


def _shown(quantity: Quantity) -> str:
    unit = {"length": " m", "area": " m²", "volume": " m³", "mass": " kg", "time": " s", "speed": " m/s"}
    return f"{quantity}{unit.get(quantity.dimension, '')}"


def _one_date(text: str, event: Event) -> Date | None:
    """The date of the event in the text; none where it tells that of a birth or a death, and another was compared."""
    if event_in(text) not in ("", event):
        return None
    date = read_date(text)
    if date or not event:
        return date
    dates = read_dates(text)
    if len(dates) == 2 and dates[0].before(dates[1]):
        return dates[0] if event == "birth" else dates[1]
    return None


def _span(text: str) -> _Place | None:
    """From the first date to the last of two, or a time that is told as such ("69 years")."""
    dates = read_dates(text)
    if event_in(text) == "birth":  # the other date is of anything
        return None
    if len(dates) == 2 and dates[0].before(dates[1]):
        start, end = dates
        low, high = _days(end.first) - _days(start.last), _days(end.last) - _days(start.first)
        return _Place((low,), (high,), f"{start} to {end}")
    quantity = read_quantity(text) if not dates else None
    if quantity and quantity.dimension == "time":
        days = quantity.value / 86400
        # "69 years" is anything from 69 to almost 70 of them.
        slack = _YEAR - 1 if re.search(r"\byears?\b", text) else 0.0
        return _Place((days,), (days + slack,), f"{days / _YEAR:.4g} years")
    return None


def _days(date: tuple[int, int, int]) -> float:
    year, month, day = date
    return year * _YEAR + (month - 1) * _YEAR / 12 + day


def _word(comparison: Comparison) -> tuple[str, str]:
    if comparison.of == "date":
        return "before", "after"
    return ("shorter than", "longer than") if comparison.of == "span" else ("less than", "more than")


def _best(comparison: Comparison, places: list[_Place]) -> Conclusion | None:
    lowest = comparison.wanted in ("earliest", "least")
    below, above = _word(comparison)
    for place, name in zip(places, comparison.operands, strict=True):
        others = [other for other in places if other is not place]
        if all(place.before(other) if lowest else other.before(place) for other in others):
            nearest = reduce(lambda a, b: a if (a.low < b.low) == lowest else b, others)
            return Conclusion(name, f"{place.shown} is {below if lowest else above} {nearest.shown}")
    return None


def _ordered(comparison: Comparison, places: list[_Place]) -> Conclusion | None:
    """Yes or no to "is A before (more than) B"; equal exact facts say no."""
    one, two = places
    below, above = _word(comparison)
    lowest = comparison.wanted in ("earliest", "least")
    if one.before(two):
        return Conclusion("yes" if lowest else "no", f"{one.shown} is {below} {two.shown}")
    if two.before(one):
        return Conclusion("no" if lowest else "yes", f"{one.shown} is {above} {two.shown}")
    exact = one.low == one.high == two.low == two.high
    return Conclusion("no", f"{one.shown} is the same as {two.shown}") if exact else None


def _sameness(comparison: Comparison, texts: list[str]) -> Conclusion | None:
    same = _alike(comparison, texts)
    if same is None:
        return None
    alike, why = same
    return Conclusion("yes" if alike == (comparison.wanted == "same") else "no", why)


def _alike(comparison: Comparison, texts: list[str]) -> tuple[bool, str] | None:
    if comparison.of == "date":
        years = [_one_date(text, comparison.event) for text in texts]
        known = [date.year for date in years if date and date.through is None]
        if len(known) < len(texts):
            return None
        return len(set(known)) == 1, " and ".join(map(str, known))
    if comparison.of == "number":
        numbers = [read_quantity(text) for text in texts]
        read = [number for number in numbers if number]
        if len(read) < len(texts) or len({number.dimension for number in read}) > 1:
            return None
        return len(set(read)) == 1, " and ".join(map(_shown, read))
    return _same_countries(texts) if comparison.about == "country" else _same_names(comparison, texts)


def _same_countries(texts: list[str]) -> tuple[bool, str] | None:
    sets = []
    for text in texts:
        found = stated_countries(text)
        if not found or found & REGIONS:
            return None
        sets.append(found)
    return _overlap(sets)


def _same_names(comparison: Comparison, texts: list[str]) -> tuple[bool, str] | None:
    """Whether the names have one in common; places must agree in all that is told of them.

    Countries are left out: "American actor" and "American singer" share no profession. Where the question does not say
    what kind of thing is compared, different words prove nothing.
    """
    sets = [read_names(text) - countries_in(text) for text in texts]
    if (
        not all(sets)
        or any(map(has_negation, texts))
        or any(re.search(r"\d", name) for names in sets for name in names)
    ):
        return None
    same = _overlap(sets)
    if same and same[0] and comparison.about == "place" and len(set(sets)) > 1:
        return None
    return None if same and not same[0] and comparison.of != "name" else same


def _overlap(sets: Sequence[frozenset[str]]) -> tuple[bool, str] | None:
    shown = " and ".join(", ".join(sorted(names)) for names in sets)
    shared = frozenset.intersection(*sets)
    if shared:
        return True, f"{', '.join(sorted(shared))} for {'both' if len(sets) == 2 else 'all'}"
    for one, two in combinations(sets, 2):
        if any(_unclear(left, right) for left in one for right in two):
            return None
    return False, f"{shown} are different"


def _unclear(left: str, right: str) -> bool:
    """Names that may mean the same although they are written differently."""
    if {left, right} <= set(COUNTRY_OF):
        return frozenset((left, right)) in SUCCESSORS
    return bool(set(re.findall(r"\w{3,}", left)) & set(re.findall(r"\w{3,}", right)))
