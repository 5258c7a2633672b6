"""Compare answers and facts about several things."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Answer, Passage
from hoptree.text.comparison_questions import Comparison, expected_answer_type
from hoptree.text.comparison_words import Event, event_in
from hoptree.text.grounding import grounded
from hoptree.text.names import fold, name_spans
from hoptree.text.parse import UNSURE, question_key, read_yes_no
from hoptree.text.quantities import Date, Quantity, countries, plain_numbers, read_date, read_dates, read_quantity

_SEPARATOR = lazy_re(r"\s*(?:[,;/|]|\s[-–—]\s|\band\b|&)\s*")
_EDGE_CHARS = " .!?\"'“”‘’()[]"
_LEAD = lazy_re(
    r"(?:(?:(?:he|she|it|they|who)\s+)?(?:is|was|are|were)\s+|(?:an?|the|of|from|in|both)\s+"
    rf"|[{re.escape(_EDGE_CHARS)}-])*"
)
_LONG_WORD = lazy_re(r"\w{3,}")
_MAX_COUNTRY_WORDS = 6
_MAX_LIST_WORDS = 6  # a longer text is a sentence, not a list of countries
_NEGATION = lazy_re(r"(?:\b(?:not|never|neither|nor|no)|n['’]t)\b", re.IGNORECASE)
_UNIT_SYMBOLS = {"length": " m", "area": " m²", "volume": " m³", "mass": " kg", "time": " s", "speed": " m/s"}
_DAYS_PER_YEAR = 365.2425


def read_names(text: str) -> frozenset[str]:
    """Return the names in a text in one spelling; demonyms become their country."""
    text = _normalize(text)
    if UNSURE.search(text):
        return frozenset()
    if country := countries().by_name.get(text):
        return frozenset((country,))
    names: set[str] = set()
    for part in _SEPARATOR.split(text):
        in_part, words_left = _extract_countries(_strip_lead(part))
        names.update((*in_part, _strip_lead(words_left)))
    return frozenset(names - {""})


def countries_in(text: str) -> frozenset[str]:
    """Return the countries that a text names, also by their demonyms."""
    named = frozenset(_extract_countries(_normalize(text))[0])
    # Together with its country, Georgia is the state.
    return named - {"georgia"} if "united states" in named else named


def stated_countries(text: str) -> frozenset[str]:
    """Return the countries that a text states clearly; none for an unclear text.

    Unclear are a negation, a sentence with several countries, and two of them in one part, as in "American Indian".
    """
    named = countries_in(text)
    parts = re.split(rf"[()\[\]]|{_SEPARATOR.pattern}", _normalize(text))
    mixed = any(len(countries_in(part)) > 1 for part in parts) or len(text.split()) > _MAX_LIST_WORDS
    return frozenset() if has_negation(text) or (mixed and len(named) > 1) else named


def has_negation(text: str) -> bool:
    return _NEGATION.search(text) is not None


def _normalize(text: str) -> str:
    text = unicodedata.normalize("NFKC", text).replace("’", "'").casefold()
    return " ".join(text.split()).strip(_EDGE_CHARS)


def _strip_lead(part: str) -> str:
    part = part.strip(_EDGE_CHARS + "-")
    lead = _LEAD.match(part)
    return part[lead.end() :] if lead else part


def _extract_countries(part: str) -> tuple[list[str], str]:
    """Return the countries in a phrase, and the words left."""
    words = [word for word in re.split(r"(?<!bissau)[\s]+|(?<=[a-z]{4})[-–](?=[a-z]{4})", part) if word]
    by_name = countries().by_name
    named: list[str] = []
    words_left: list[str] = []
    position = 0
    while position < len(words):
        for size in range(min(_MAX_COUNTRY_WORDS, len(words) - position), 0, -1):
            phrase = " ".join(words[position : position + size])
            spellings = (phrase, phrase.replace(" ", "-"), phrase.strip(_EDGE_CHARS + ",;:"))
            if country := next((by_name[spelling] for spelling in spellings if spelling in by_name), ""):
                named.append(country)
                position += size
                break
        else:
            words_left.append(words[position])
            position += 1
    return named, " ".join(words_left)


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The answer, and in `why` the comparison behind it, for people to check."""

    answer: str
    why: str


@dataclass(frozen=True, slots=True)
class _Interval:
    """The range of a fact that can be ordered; `shown` is for people."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    shown: str
    dimension: str = ""

    def before(self, other: _Interval) -> bool:
        return self.high < other.low


def conclude(comparison: Comparison, facts: Mapping[str, str]) -> Conclusion | None:
    """Return the answer that follows from a text for each operand, or None."""
    by_name = {" ".join(name.casefold().split()): text for name, text in facts.items()}
    texts = [by_name.get(" ".join(name.casefold().split()), "") for name in comparison.operands]
    if not all(text.strip() for text in texts):
        return None
    if comparison.kind in ("both", "which"):
        return _conclude_yes_no(comparison, texts)
    if comparison.kind == "same":
        same, why = _are_same(comparison, texts) or (None, "")
        return None if same is None else Conclusion("yes" if same == (comparison.wanted == "same") else "no", why)
    intervals = [interval for text in texts if (interval := _read_interval(comparison, text))]
    if len(intervals) < len(texts) or len({interval.dimension for interval in intervals}) != 1:
        return None
    return _choose(comparison, intervals) if comparison.kind == "choice" else _relate(comparison, intervals)


def holds_fact(comparison: Comparison, text: str) -> bool:
    """Return whether a text holds a fact of the kind that is compared."""
    if comparison.kind in ("both", "which"):
        return read_yes_no(text) is not None
    if comparison.kind != "same" or comparison.of == "number":
        return _read_interval(comparison, text) is not None
    if comparison.of == "date":
        return _read_event_date(text, comparison.event) is not None
    return bool(stated_countries(text) if comparison.about == "country" else read_names(text))


def _conclude_yes_no(comparison: Comparison, texts: list[str]) -> Conclusion | None:
    verdicts = [read_yes_no(text) for text in texts]
    why = "; ".join(
        f"{name}: {'yes' if verdict else 'no'}"
        for name, verdict in zip(comparison.operands, verdicts, strict=True)
        if verdict is not None
    )
    if comparison.kind == "both":
        if False in verdicts:
            return Conclusion("no", why)
        return Conclusion("yes", why) if None not in verdicts else None
    if None in verdicts or verdicts.count(True) != 1:
        return None
    return Conclusion(comparison.operands[verdicts.index(True)], why)


def _read_interval(comparison: Comparison, text: str) -> _Interval | None:
    if comparison.of == "date":
        date = _read_event_date(text, comparison.event)
        return None if date is None else _Interval(date.first, date.last, str(date))
    if comparison.of == "span":
        return _read_time_span(text)
    if comparison.of == "number" and (quantity := read_quantity(text)):
        return _Interval((quantity.value,), (quantity.value,), _with_unit(quantity), quantity.dimension)
    return None


def _with_unit(quantity: Quantity) -> str:
    return f"{quantity}{_UNIT_SYMBOLS.get(quantity.dimension, '')}"


def _read_event_date(text: str, event: Event) -> Date | None:
    """Read the date of the event; None if it is of another event."""
    if event_in(text) not in ("", event):
        return None
    date = read_date(text)
    if date or not event:
        return date
    dates = read_dates(text)
    if len(dates) == 2 and dates[0].before(dates[1]):
        return dates[0] if event == "birth" else dates[1]
    return None


def _read_time_span(text: str) -> _Interval | None:
    """Read the time between two dates, or a stated one."""
    dates = read_dates(text)
    if event_in(text) == "birth":  # the meaning of the other date is unknown
        return None
    if len(dates) == 2 and dates[0].before(dates[1]):
        start, end = dates
        low, high = _days(end.first) - _days(start.last), _days(end.last) - _days(start.first)
        return _Interval((low,), (high,), f"{start} to {end}")
    quantity = read_quantity(text) if not dates else None
    if quantity and quantity.dimension == "time":
        days = quantity.value / 86400
        # "69 years" is anything from 69 to almost 70 of them.
        slack = _DAYS_PER_YEAR - 1 if re.search(r"\byears?\b", text) else 0.0
        return _Interval((days,), (days + slack,), f"{days / _DAYS_PER_YEAR:.4g} years")
    return None


def _days(date: tuple[int, int, int]) -> float:
    year, month, day = date
    return year * _DAYS_PER_YEAR + (month - 1) * _DAYS_PER_YEAR / 12 + day


def _order_words(comparison: Comparison) -> tuple[str, str]:
    if comparison.of == "date":
        return "before", "after"
    return ("shorter than", "longer than") if comparison.of == "span" else ("less than", "more than")


def _choose(comparison: Comparison, intervals: list[_Interval]) -> Conclusion | None:
    lowest = comparison.wanted in ("earliest", "least")
    below, above = _order_words(comparison)
    for interval, name in zip(intervals, comparison.operands, strict=True):
        others = [other for other in intervals if other is not interval]
        if all(interval.before(other) if lowest else other.before(interval) for other in others):
            nearest = reduce(lambda a, b: a if (a.low < b.low) == lowest else b, others)
            return Conclusion(name, f"{interval.shown} is {below if lowest else above} {nearest.shown}")
    return None


def _relate(comparison: Comparison, intervals: list[_Interval]) -> Conclusion | None:
    """Answer "is A before (more than) B" by yes or no; equal exact facts say no."""
    left, right = intervals
    below, above = _order_words(comparison)
    lowest = comparison.wanted in ("earliest", "least")
    if left.before(right):
        return Conclusion("yes" if lowest else "no", f"{left.shown} is {below} {right.shown}")
    if right.before(left):
        return Conclusion("no" if lowest else "yes", f"{left.shown} is {above} {right.shown}")
    exact = left.low == left.high == right.low == right.high
    return Conclusion("no", f"{left.shown} is the same as {right.shown}") if exact else None


def _are_same(comparison: Comparison, texts: list[str]) -> tuple[bool, str] | None:
    if comparison.of == "date":
        dates = [_read_event_date(text, comparison.event) for text in texts]
        years = [date.year for date in dates if date and date.through is None]
        return (len(set(years)) == 1, " and ".join(map(str, years))) if len(years) == len(texts) else None
    if comparison.of == "number":
        quantities = [quantity for text in texts if (quantity := read_quantity(text))]
        if len(quantities) < len(texts) or len({quantity.dimension for quantity in quantities}) > 1:
            return None
        return len(set(quantities)) == 1, " and ".join(map(_with_unit, quantities))
    if comparison.about != "country":
        return _same_names(comparison, texts)
    stated = [stated_countries(text) for text in texts]
    return None if not all(stated) or any(named & countries().regions for named in stated) else _overlap(stated)


def _same_names(comparison: Comparison, texts: list[str]) -> tuple[bool, str] | None:
    """Return whether the names overlap; places must have all names in common.

    Countries are left out: "American actor" and "American singer" share no profession. If the question does not name
    the kind of thing that is compared, different words prove nothing.
    """
    names = [read_names(text) - countries_in(text) for text in texts]
    if (
        not all(names)
        or any(map(has_negation, texts))
        or any(re.search(r"\d", name) for part in names for name in part)
    ):
        return None
    verdict = _overlap(names)
    if verdict and verdict[0] and comparison.about == "place" and len(set(names)) > 1:
        return None
    return None if verdict and not verdict[0] and comparison.of != "name" else verdict


def _overlap(sets: Sequence[frozenset[str]]) -> tuple[bool, str] | None:
    if shared := frozenset.intersection(*sets):
        return True, f"{', '.join(sorted(shared))} for {'both' if len(sets) == 2 else 'all'}"
    if any(_may_overlap(first, second) for first, second in combinations(sets, 2)):
        return None
    return False, f"{' and '.join(', '.join(sorted(names)) for names in sets)} are different"


def _may_overlap(first: frozenset[str], second: frozenset[str]) -> bool:
    """Return whether names share a long word, or a country is another's successor."""
    known = countries()
    if any((a in first and b in second) or (b in first and a in second) for a, b in known.successors):
        return True
    others = first - known.by_name.keys(), second - known.by_name.keys()
    # A word that two countries share ("Republic") says nothing.
    return bool(_long_words(others[0]) & _long_words(second) or _long_words(first) & _long_words(others[1]))


def _long_words(names: Iterable[str]) -> set[str]:
    return {word for name in names for word in _LONG_WORD.findall(name)}


# In lower case: "Not Fade Away" is a song.
_NEGATED_ANSWER = lazy_re(r"\b(?:not|never|neither|nor|except|anything but|anyone but)\b|n['’]t\b|\ANot? [a-z]")
_CONTRAST = lazy_re(r"[,;(]\s*(?:and\s+|but\s+)?(?:not|rather than|instead of)\b[^,;)]*\)?")  # "…, not Apollo 12"
_FIRST_WORD = lazy_re(r"\w+")
_HEDGE = lazy_re(r"about|around|approximately|roughly|nearly|almost|over|some|an?|the", re.IGNORECASE)
_YES_NO = lazy_re(r"\W*(?:yes|no|true|false|correct|incorrect)\s*(?:[,.;:!–—-]|\Z)", re.IGNORECASE)


def agree(answer: str, other: str) -> bool:
    """Return whether answers are the `same`, or one contains the other."""
    answer, other = _CONTRAST.sub("", answer), _CONTRAST.sub("", other)
    if same(answer, other):
        return True
    if bool(_NEGATED_ANSWER.search(answer)) != bool(_NEGATED_ANSWER.search(other)) or _equal(answer, other) is False:
        return False
    return _within(answer, other) or _within(other, answer)


def contradicts(question: str, answer: str, asked: str, other: str) -> bool:
    """Return whether an answer contradicts the answer of a sub-question.

    It does not if the questions ask for different types, if one answer has all the words of the other, or if the answer
    is yes, no or a name of the question: such an answer is concluded from the sub-question's.
    """
    kinds = {expected_answer_type(question), expected_answer_type(asked)}
    named = f" {question_key(answer)} " in f" {question_key(question)} "
    if named or read_yes_no(answer) is not None or (len(kinds) > 1 and kinds not in ({"", "person"}, {"", "place"})):
        return False
    words, others = (set(question_key(fold(text)).split()) for text in (answer, other))
    return not (words <= others or others <= words or agree(answer, other))


def same(answer: str, other: str) -> bool:
    """Return whether answers have the same words, value or names, or compatible dates."""
    left, right = _key(answer), _key(other)
    if not left or not right:
        return False
    verdicts = read_yes_no(answer), read_yes_no(other)
    if None not in verdicts and (_YES_NO.match(answer) or _YES_NO.match(other)):
        return verdicts[0] == verdicts[1]
    first_date, second_date = read_date(answer), read_date(other)
    if first_date is not None and second_date is not None:
        return first_date.within(second_date) or second_date.within(first_date)
    if _number(answer) and _number(other) and (equal := _equal(answer, other)) is not None:
        return equal
    names = read_names(answer)
    if left == right or (bool(names) and names == read_names(other)) or _differ_by_initials(left, right):
        return True
    return _within(answer, other) and _within(other, answer)


def tells(statement: str, answer: str) -> bool:
    """Return whether a statement supports an answer."""
    stated, answered = read_date(statement), read_date(answer)
    rougher = stated is not None and answered is not None and not stated.within(answered)
    return agree(statement, answer) and not rougher


def _within(words: str, text: str) -> bool:
    """Return whether a text has the words in a row, ignoring accents."""
    if _key(words) in ("", "yes", "no"):
        return False
    return bool(grounded(Answer(words, words, "answered"), "", [Passage("other", "", text)]).support)


def _differ_by_initials(name: str, other: str) -> bool:
    """Return whether names differ by initials: W. J. Has, Wojciech Jerzy Has."""
    pairs = list(zip(left := name.split(), right := other.split(), strict=False))
    if len(left) != len(right) or left[-1] != right[-1] or len(left[-1]) == 1:
        return False
    return all(a == b or (1 in (len(a), len(b)) and a[0] == b[0] and a.isalpha() and b.isalpha()) for a, b in pairs)


def _number(text: str) -> Quantity | None:
    """Return an answer's number; None if the answer is a name."""
    first = _FIRST_WORD.match(text)
    begins = first.end() if first and (_HEDGE.fullmatch(first[0]) or read_quantity(first[0])) else 0
    return None if name_spans(text, begins) else read_quantity(text)


def _equal(answer: str, other: str) -> bool | None:
    """Return whether a number and an answer have the same value; None if unclear."""
    first, second = read_quantity(answer), read_quantity(other)
    if first is None or second is None or not (_number(answer) or _number(other)):
        return None
    return math.isclose(first.value, second.value, rel_tol=1e-9) if first.dimension == second.dimension else None


def _key(text: str) -> str:
    return question_key(plain_numbers(text))
