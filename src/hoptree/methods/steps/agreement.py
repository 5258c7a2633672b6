"""Whether two answers say the same, as far as code can tell."""

from __future__ import annotations

import math
import re

from hoptree.core.values import Answer, Passage
from hoptree.text.comparison import read_names, read_yes_no
from hoptree.text.dates import read_date
from hoptree.text.grounding import grounded
from hoptree.text.names import name_spans
from hoptree.text.numbers import Quantity, plain_numbers, read_quantity
from hoptree.text.parse import question_key

# In small letters: "Not Fade Away" is a song.
_DENIED = re.compile(r"\b(?:not|never|neither|nor|except|anything but|anyone but)\b|n['’]t\b|\ANot? [a-z]")
_APART = re.compile(r"[,;(]\s*(?:and\s+|but\s+)?(?:not|rather than|instead of)\b[^,;)]*\)?")
"""What an answer is told apart from: "Apollo 14, not Apollo 12"."""
_FIRST = re.compile(r"\w+")
_HEDGE = re.compile(r"about|around|approximately|roughly|nearly|almost|over|some|an?|the", re.IGNORECASE)
_YES_NO = re.compile(r"\W*(?:yes|no|true|false|correct|incorrect)\s*(?:[,.;:!–—-]|\Z)", re.IGNORECASE)


def agree(one: str, other: str) -> bool:
    """`same`, or the words of one within the other: it may say more of the same thing, or name another.

    What denies something does not agree with what names it, and five is not within five million.
    """
    one, other = _APART.sub("", one), _APART.sub("", other)
    if same(one, other):
        return True
    if bool(_DENIED.search(one)) != bool(_DENIED.search(other)) or _equal(one, other) is False:
        return False
    return _within(one, other) or _within(other, one)


def same(one: str, other: str) -> bool:
    """The same words but for accents and initials, the same yes or no, the same number, or the same names.

    Of dates, one may hold the other.
    """
    left, right = _key(one), _key(other)
    if not left or not right:
        return False
    said = read_yes_no(one), read_yes_no(other)
    if None not in said and (_YES_NO.match(one) or _YES_NO.match(other)):
        return said[0] == said[1]
    dates = read_date(one), read_date(other)
    if dates[0] is not None and dates[1] is not None:
        return dates[0].within(dates[1]) or dates[1].within(dates[0])
    if _number(one) and _number(other) and (equal := _equal(one, other)) is not None:
        return equal
    names = read_names(one)
    if left == right or (bool(names) and names == read_names(other)) or _shortened(left, right):
        return True
    return _within(one, other) and _within(other, one)


def tells(said: str, answer: str) -> bool:
    """Whether what is said bears out an answer: they agree, and it is no rougher date, which tells no day."""
    dates = read_date(said), read_date(answer)
    rougher = dates[0] is not None and dates[1] is not None and not dates[0].within(dates[1])
    return agree(said, answer) and not rougher


def _within(one: str, other: str) -> bool:
    """Whether a text has the words of another in a row, whatever accents they have; a bare yes is no part of a text."""
    if _key(one) in ("", "yes", "no"):
        return False
    return bool(grounded(Answer(one, one, "answered"), "", [Passage("other", "", other)]).support)


def _shortened(one: str, other: str) -> bool:
    """Whether names are the same but for initials: W. J. Has, Wojciech Jerzy Has."""
    pairs = list(zip(left := one.split(), right := other.split(), strict=False))
    if len(left) != len(right) or left[-1] != right[-1] or len(left[-1]) == 1:
        return False
    return all(a == b or (1 in (len(a), len(b)) and a[0] == b[0] and a.isalpha() and b.isalpha()) for a, b in pairs)


def _number(text: str) -> Quantity | None:
    """The number that an answer is; None for one that names something."""
    first = _FIRST.match(text)
    begins = first.end() if first and (_HEDGE.fullmatch(first[0]) or read_quantity(first[0])) else 0
    return None if name_spans(text, begins) else read_quantity(text)


def _equal(one: str, other: str) -> bool | None:
    """Whether an answer that is a number has the value of the one in the other; None where that cannot be told."""
    found = read_quantity(one), read_quantity(other)
    if found[0] is None or found[1] is None or not (_number(one) or _number(other)):
        return None
    if found[0].dimension != found[1].dimension:
        return None
    return math.isclose(found[0].value, found[1].value, rel_tol=1e-9)


def _key(text: str) -> str:
    """The words of an answer; numbers without what parts their thousands."""
    return question_key(plain_numbers(text))
