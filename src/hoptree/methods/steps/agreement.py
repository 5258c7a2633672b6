"""Decide in code whether two answers say the same, as far as it can tell."""

from __future__ import annotations

import math
import re

from hoptree.core.patterns import lazy_re
from hoptree.core.values import Answer, Passage
from hoptree.text.comparison import read_names, read_yes_no
from hoptree.text.dates import read_date
from hoptree.text.grounding import grounded
from hoptree.text.names import name_spans
from hoptree.text.numbers import Quantity, plain_numbers, read_quantity
from hoptree.text.parse import question_key

# In small letters: "Not Fade Away" is a song.
_NEGATION = lazy_re(r"\b(?:not|never|neither|nor|except|anything but|anyone but)\b|n['’]t\b|\ANot? [a-z]")
_CONTRAST = lazy_re(r"[,;(]\s*(?:and\s+|but\s+)?(?:not|rather than|instead of)\b[^,;)]*\)?")
"""What an answer is told apart from: "Apollo 14, not Apollo 12"."""
_FIRST_WORD = lazy_re(r"\w+")
_HEDGE = lazy_re(r"about|around|approximately|roughly|nearly|almost|over|some|an?|the", re.IGNORECASE)
_YES_NO = lazy_re(r"\W*(?:yes|no|true|false|correct|incorrect)\s*(?:[,.;:!–—-]|\Z)", re.IGNORECASE)


def agree(one: str, other: str) -> bool:
    """Return whether answers are the `same`, or one has the words of the other: it may say more of the same thing.

    A negation does not agree with what it negates, and five is not within five million.
    """
    one, other = _CONTRAST.sub("", one), _CONTRAST.sub("", other)
    if same(one, other):
        return True
    if bool(_NEGATION.search(one)) != bool(_NEGATION.search(other)) or _equal(one, other) is False:
        return False
    return _within(one, other) or _within(other, one)


def same(one: str, other: str) -> bool:
    """Return whether answers have the same words but for accents and initials, or the same value or names.

    Of dates, one may hold the other.
    """
    left, right = _key(one), _key(other)
    if not left or not right:
        return False
    verdicts = read_yes_no(one), read_yes_no(other)
    if None not in verdicts and (_YES_NO.match(one) or _YES_NO.match(other)):
        return verdicts[0] == verdicts[1]
    first_date, second_date = read_date(one), read_date(other)
    if first_date is not None and second_date is not None:
        return first_date.within(second_date) or second_date.within(first_date)
    if _number(one) and _number(other) and (equal := _equal(one, other)) is not None:
        return equal
    names = read_names(one)
    if left == right or (bool(names) and names == read_names(other)) or _differ_by_initials(left, right):
        return True
    return _within(one, other) and _within(other, one)


def tells(statement: str, answer: str) -> bool:
    """Return whether a statement bears out an answer: they agree, and it is no rougher date."""
    stated, answered = read_date(statement), read_date(answer)
    rougher = stated is not None and answered is not None and not stated.within(answered)
    return agree(statement, answer) and not rougher


def _within(one: str, other: str) -> bool:
    """Return whether a text has the words of another in a row, whatever their accents; a bare yes is in no text."""
    if _key(one) in ("", "yes", "no"):
        return False
    return bool(grounded(Answer(one, one, "answered"), "", [Passage("other", "", other)]).support)


def _differ_by_initials(one: str, other: str) -> bool:
    """Return whether names are the same but for initials: W. J. Has, Wojciech Jerzy Has."""
    pairs = list(zip(left := one.split(), right := other.split(), strict=False))
    if len(left) != len(right) or left[-1] != right[-1] or len(left[-1]) == 1:
        return False
    return all(a == b or (1 in (len(a), len(b)) and a[0] == b[0] and a.isalpha() and b.isalpha()) for a, b in pairs)


def _number(text: str) -> Quantity | None:
    """Return the number that an answer is; None for one that names something."""
    first = _FIRST_WORD.match(text)
    begins = first.end() if first and (_HEDGE.fullmatch(first[0]) or read_quantity(first[0])) else 0
    return None if name_spans(text, begins) else read_quantity(text)


def _equal(one: str, other: str) -> bool | None:
    """Return whether an answer that is a number has the value of the one in the other; None if it cannot be told."""
    first, second = read_quantity(one), read_quantity(other)
    if first is None or second is None or not (_number(one) or _number(other)):
        return None
    return math.isclose(first.value, second.value, rel_tol=1e-9) if first.dimension == second.dimension else None


def _key(text: str) -> str:
    return question_key(plain_numbers(text))
