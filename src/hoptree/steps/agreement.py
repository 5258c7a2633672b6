"""Whether two answers say the same, as far as code can tell."""

from __future__ import annotations

import re

from hoptree.comparing.dates import read_date
from hoptree.comparing.names import read_names, read_yes_no
from hoptree.steps.parse import question_key

__all__ = ["agree", "same"]

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")


def agree(one: str, other: str) -> bool:
    """`same`, or the words of one within the other: it may say more of the same thing, or name another."""
    left, right = f" {question_key(one)} ", f" {question_key(other)} "
    return same(one, other) or bool(left.strip() and right.strip() and (left in right or right in left))


def same(one: str, other: str) -> bool:
    """The same words, the same yes or no, dates of which one holds the other, or the same names."""
    left, right = _key(one), _key(other)
    if not left or not right:
        return False
    said = read_yes_no(one), read_yes_no(other)
    if None not in said:
        return said[0] == said[1]
    dates = read_date(one), read_date(other)
    if dates[0] is not None and dates[1] is not None:
        return dates[0].within(dates[1]) or dates[1].within(dates[0])
    names = read_names(one)
    return left == right or (bool(names) and names == read_names(other))


def _key(text: str) -> str:
    """The words of an answer; numbers without what parts their thousands."""
    return question_key(_THOUSANDS.sub("", text))
