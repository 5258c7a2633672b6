"""Whether two answers say the same, as far as code can tell."""

from __future__ import annotations

from hoptree.comparing.dates import read_date
from hoptree.comparing.names import read_names, read_yes_no
from hoptree.steps.parse import question_key

__all__ = ["agree"]


def agree(one: str, other: str) -> bool:
    """The same yes or no, dates of which one holds the other, the same names, or the words of one within the other."""
    left, right = question_key(one), question_key(other)
    if not left or not right:
        return False
    said = read_yes_no(one), read_yes_no(other)
    if None not in said:
        return said[0] == said[1]
    dates = read_date(one), read_date(other)
    if dates[0] is not None and dates[1] is not None:
        return dates[0].within(dates[1]) or dates[1].within(dates[0])
    if f" {left} " in f" {right} " or f" {right} " in f" {left} ":
        return True
    names = read_names(one)
    return bool(names) and names == read_names(other)
