"""Months and days of the week, which have the capitals of names and are none where they tell when something was."""

from __future__ import annotations

import calendar
import re

from hoptree.comparing.dates import date_spans
from hoptree.uncertainty import Span

__all__ = ["tells_when"]

_MONTH, _DAY = "|".join(calendar.month_name[1:]), "|".join(calendar.day_name)
_ONLY = re.compile(rf"(?:{_MONTH}|(?:{_DAY})s?)(?:\s+(?:{_MONTH}))?")
_BEFORE = re.compile(
    r"(?:\d(?:st|nd|rd|th)?|\b(?:in|on|from|to|since|until|till|during|each|every|last|next|this|early|late|mid))"
    r"[\s,-]+(?:(?:the|of|early|late|mid)[\s-]+)*\Z",
    re.IGNORECASE,
)
_BEHIND = re.compile(rf",?\s+(?:the\s+|(?:{_MONTH})\s+)?\d")
_REACH = 24
"""More characters than stand beside a month in a date."""


def tells_when(text: str, span: Span) -> bool:
    """Whether words with capitals are a part of a date, or a month or a day alone where a time is told.

    "The director of Friday" and "June Carter" tell none.
    """
    start, end = span
    begin = max(0, start - _REACH)
    if any(begin + first <= start and end <= begin + last for first, last in date_spans(text[begin : end + _REACH])):
        return True
    if not _ONLY.fullmatch(text, start, end):
        return False
    return bool(_BEFORE.search(text[begin:start]) or _BEHIND.match(text, end))
