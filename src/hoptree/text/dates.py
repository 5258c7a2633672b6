"""Read dates from text: to the day, month, year, decade or century, or about a year."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass

from hoptree.core.patterns import lazy_re

_ABOUT_YEARS = 5
"""Years that "about 1920" may be off to either side."""


@dataclass(frozen=True, slots=True)
class Date:
    """A date known to the day, month or year; years BC are negative.

    `through` is the last year of a range (a decade, a century, about a year). Two dates compare only as far as both go:
    1920 and March 1920 are neither before nor after each other.
    """

    year: int
    month: int | None = None
    day: int | None = None
    through: int | None = None

    @property
    def first(self) -> tuple[int, int, int]:
        return (self.year, self.month or 1, self.day or 1)

    @property
    def last(self) -> tuple[int, int, int]:
        return (self.year if self.through is None else self.through, self.month or 12, self.day or 31)

    def before(self, other: Date) -> bool:
        return self.last < other.first

    def within(self, other: Date) -> bool:
        """Whether the other is the same date, or a coarser one that contains this."""
        return other.first <= self.first and self.last <= other.last

    def __str__(self) -> str:
        if self.through is not None:
            return f"{_year(self.year)} to {_year(self.through)}"
        if self.year < 0 or self.month is None:
            return _year(self.year)
        return "-".join([f"{self.year:04d}", f"{self.month:02d}", *([f"{self.day:02d}"] if self.day else [])])


def _year(year: int) -> str:
    return f"{-year} BC" if year < 0 else str(year)


_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_name) if name}
_MONTHS |= {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name} | {"sept": 9}
_MONTH = "(?:" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
_ERA = r"(?:\s*(?P<era>b\.?\s?c\.?(?:\s?e\.?)?|a\.?d\.?|c\.?e\.?)(?![a-z]))?"
_Y = r"(?P<year>\d{3,4})(?!\d|[.,]\d|%)"
_D = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_MEASURES = "m|km|ft|kg|feet|metres|meters|miles|people|inhabitants|years"
_FORMS = tuple(
    lazy_re(form, re.IGNORECASE)
    for form in (
        r"(?<![\d/.-])(?P<year>\d{4})[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})(?!\d)",
        rf"(?<!\d){_D}(?:\s+of)?\s+(?P<month>{_MONTH}),?\s+(?:of\s+)?{_Y}{_ERA}",
        rf"\b(?P<month>{_MONTH})\s+{_D},?\s+{_Y}{_ERA}",
        rf"\b(?P<month>{_MONTH}),?\s+(?:of\s+)?{_Y}{_ERA}",
        rf"\b(?P<century>\d{{1,2}})(?:st|nd|rd|th)[\s-]+century{_ERA}",
        r"(?<![\d.,])(?P<decade>\d{3}0)['’]?s\b",
        r"\b(?:ad|a\.d\.)\s*(?P<ad>\d{1,4})\b",
        r"(?<![\d.,$€£-])(?P<bare>\d{1,4})\s*(?P<bc>b\.?\s?c\.?(?:\s?e\.?)?)(?![a-z])",
        rf"(?<![\d.,$€£:/#-])(?<!no\. ){_Y}(?!\s*(?:{_MEASURES})\b){_ERA}",
        r"(?<=\d)\s?[-–—]\s?(?P<until>\d{4})(?!\d)",
    )
)
_DIGIT = re.compile(r"\d")
_ABOUT = lazy_re(r"(?:\bc(?:irca|a)?\.?|\babout|\baround|\bapproximately|\broughly|~)\s*$", re.IGNORECASE)
_OPEN = lazy_re(r"\b(?:before|after|until|since|by|pre-?|post-?|prior to|not(?:\s+(?:in|on))?)\s*$", re.IGNORECASE)


def read_dates(text: str) -> tuple[Date, ...]:
    """Return all dates in order; open ones ("before 1920") are left out."""
    return tuple(
        _rough(date) if _ABOUT.search(text[:start]) else date
        for (start, _), date in _find_dates(text)
        if not _OPEN.search(text[:start])
    )


def date_spans(text: str) -> tuple[tuple[int, int], ...]:
    """Return the character spans of all dates."""
    return tuple(span for span, _ in _find_dates(text))


def _find_dates(text: str) -> list[tuple[tuple[int, int], Date]]:
    dates: list[tuple[tuple[int, int], Date]] = []
    if not _DIGIT.search(text):  # every form has one, and most texts that are looked at are short names
        return dates
    for form in _FORMS:
        for match in form.finditer(text):
            if any(match.start() < end and start < match.end() for (start, end), _ in dates):
                continue
            date = _date({name: value for name, value in match.groupdict().items() if value})
            if date is not None:
                dates.append((match.span(), date))
    return sorted(dates, key=lambda pair: pair[0])


def read_date(text: str) -> Date | None:
    """Return the only date in the text; None if there is none, or several that differ.

    The same date to the year and to the day counts once.
    """
    dates = read_dates(text)
    return next((date for date in dates if all(date.within(other) for other in dates)), None)


def _date(parts: dict[str, str]) -> Date | None:
    before_christ = parts.get("era", "").lower().startswith("b") or "bc" in parts
    if "century" in parts:
        return _century(int(parts["century"]), before_christ)
    if "decade" in parts:
        year = int(parts["decade"])
        return Date(year, through=year + 9)
    year = int(parts.get("year") or parts.get("ad") or parts.get("bare") or parts.get("until") or 0)
    if not 1 <= year <= 2999 and not before_christ:
        return None
    year = -year if before_christ else year
    if year == 0 or "month" not in parts:
        return Date(year) if year else None
    name = parts["month"].lower().rstrip(".")
    month = int(name) if name.isdigit() else _MONTHS[name]
    day = int(parts["day"]) if "day" in parts else None
    if not 1 <= month <= 12 or (day is not None and not 1 <= day <= 31):
        return None
    return Date(year, month, day)


def _century(number: int, before_christ: bool) -> Date | None:
    if not 1 <= number <= 30:
        return None
    if before_christ:
        return Date(-100 * number, through=-100 * (number - 1) - 1)
    return Date(100 * (number - 1) + 1, through=100 * number)


def _rough(date: Date) -> Date:
    if date.month is not None:
        return date
    return Date(date.year - _ABOUT_YEARS, through=(date.year if date.through is None else date.through) + _ABOUT_YEARS)
