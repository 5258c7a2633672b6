"""Numbers with units, dates, and countries with their demonyms."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hoptree.core.lazy import lazy_re


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number in the base unit of its dimension."""

    value: float
    dimension: str = ""

    def __str__(self) -> str:
        return f"{self.value:,.10g}"


UNITS: dict[str, tuple[str, float]] = {}
for _dimension, _size, _words in (
    ("length", 1.0, "m metre metres meter meters"),
    ("length", 1000.0, "km kms kilometre kilometres kilometer kilometers"),
    ("length", 0.01, "cm centimetre centimetres centimeter centimeters"),
    ("length", 0.001, "mm millimetre millimetres millimeter millimeters"),
    ("length", 0.3048, "ft foot feet"),
    ("length", 0.0254, "inch inches"),
    ("length", 0.9144, "yd yard yards"),
    ("length", 1609.344, "mi mile miles"),
    ("area", 1.0, "m2 m² sqm"),
    ("area", 1e6, "km2 km² sqkm"),
    ("area", 1609.344**2, "mi2 mi² sqmi"),
    ("area", 0.3048**2, "ft2 ft² sqft"),
    ("area", 1e4, "ha hectare hectares"),
    ("area", 4046.8564224, "acre acres"),
    ("mass", 1.0, "kg kgs kilogram kilograms kilogramme kilogrammes"),
    ("mass", 0.001, "g gram grams"),
    ("mass", 1000.0, "t tonne tonnes"),
    ("mass", 0.45359237, "lb lbs pound pounds"),
    ("time", 1.0, "s sec second seconds"),
    ("time", 60.0, "min mins minute minutes"),
    ("time", 3600.0, "h hr hrs hour hours"),
    ("time", 86400.0, "day days"),
    ("time", 604800.0, "week weeks"),
    ("time", 31556952.0 / 12, "month months"),
    ("time", 31556952.0, "year years"),
    ("speed", 1 / 3.6, "km/h kph"),
    ("speed", 0.44704, "mph"),
):
    UNITS.update(dict.fromkeys(_words.split(), (_dimension, _size)))

SCALES = {"hundred": 100.0, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "dozen": 12.0}
SCALES |= {"k": 1e3, "mn": 1e6, "bn": 1e9}
ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen"""
TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
SMALL_NUMBERS = {word: float(value) for value, word in enumerate(ONES.split())}
SMALL_NUMBERS |= {word: 10.0 * value for value, word in enumerate(TENS.split(), start=2)}
_FIGURES = lazy_re(
    r"(?<![\w.])(?P<sign>[-−])?(?P<figures>\d{1,3}(?:\.\d{3}){2,}|\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?!\.?\d)"
    r"(?:[\s-]?(?P<scale>hundred|thousand|million|billion|trillion|dozen|k|mn|bn)\b)?"
    r"(?:[\s-]{0,9}(?:(?P<square>square|sq\.?|cubic)[\s-]{0,9})?(?P<unit>km/h|[a-zA-Z]+[²2]?)(?![\w²]))?"
)
_NUMBER_WORD = "|".join(
    [*sorted(SMALL_NUMBERS, key=len, reverse=True), "hundred", "thousand", "million", "billion", "dozen"]
)
_SPELT = lazy_re(
    r"\b(?:(?:an?\s+)(?=hundred|thousand|million|billion|dozen))?"
    rf"(?:{_NUMBER_WORD})\b(?:[\s-]+(?:and\s+)?(?:{_NUMBER_WORD})\b)*",
    re.IGNORECASE,
)
_AFTER_SPELT = lazy_re(r"[\s-]{0,9}(?:(?P<square>square|cubic)[\s-]{0,9})?(?P<unit>[a-zA-Z]+)")
_ASIDE = lazy_re(r"\([^()]*\)|\[[^\[\]]*\]")
_WHEN = lazy_re(
    r"\b(?:[Aa]s of|[Ii]n|since|by|from|during|until|at)\s+(?:(?:the|[A-Z][a-z]+|\d{1,2})\s+){0,3}"
    r"(?:1[5-9]|20)\d\d\b(?:\s+census)?,?"
)


def read_quantity(text: str) -> Quantity | None:
    """Return the only number of a text, ignoring brackets and years of counts."""
    for reading in (_ASIDE.sub(" ", _WHEN.sub(" ", text)), _WHEN.sub(" ", text), text):
        quantities = set(_quantities(reading))
        if quantities:
            return quantities.pop() if len(quantities) == 1 else None
    return None


def _quantities(text: str) -> list[Quantity]:
    quantities = []
    taken = bytearray(len(text))
    for match in _FIGURES.finditer(text):
        figures = match["figures"].replace(",", "")
        grouped = figures.count(".") > 1  # 1.200.000, as it is written outside English
        scale = SCALES.get((match["scale"] or "").lower(), 1.0)
        value = float(figures.replace(".", "") if grouped else figures) * scale
        taken[match.start() : match.end()] = b"x" * len(match[0])
        if math.isfinite(value):
            quantities.append(_to_base_unit(-value if match["sign"] else value, match["square"], match["unit"]))
    for match in _SPELT.finditer(text):
        if any(taken[match.start() : match.end()]):
            continue
        unit = _AFTER_SPELT.match(text, match.end())
        quantities.append(_to_base_unit(spelt_value(match.group()), unit and unit["square"], unit and unit["unit"]))
    return quantities


def _to_base_unit(value: float, square: str | None, unit: str | None) -> Quantity:
    name = (unit or "").lower() if unit not in ("M", "T", "G", "S", "H") else ""
    dimension, size = UNITS.get(name, ("", 1.0))
    if square and dimension == "length":
        power = 3 if square.lower() == "cubic" else 2
        return Quantity(value * size**power, "volume" if power == 3 else "area")
    return Quantity(value * size, dimension)


def spelt_value(words: str) -> float:
    """Return the value of number words."""
    total = part = 0.0
    for word in re.split(r"[\s-]+", words.lower()):
        if word in SMALL_NUMBERS:
            part += SMALL_NUMBERS[word]
        elif word == "hundred" or word == "dozen":
            part = (part or 1.0) * SCALES[word]
        elif word in SCALES:
            total += (part or 1.0) * SCALES[word]
            part = 0.0
    return total + part


_THOUSANDS = lazy_re(r",(?<=\d,)(?=\d{3}(?!\d))")


def plain_numbers(text: str) -> str:
    """Return the text without the commas of thousands: 1200 for 1,200."""
    return _THOUSANDS.sub("", text)


_ABOUT_YEARS = 5  # "about 1920" is 1915 to 1925


@dataclass(frozen=True, slots=True)
class Date:
    """A date known to the day, month or year; years BC are negative.

    `through` is the last year of a range (a decade, a century, "about 1920"). Overlapping dates have no order: 1920 and
    March 1920 are neither before nor after each other.
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
        """Return whether the other is the same date, or a coarser one that contains this."""
        return other.first <= self.first and self.last <= other.last

    def __str__(self) -> str:
        if self.through is not None:
            return f"{_year(self.year)} to {_year(self.through)}"
        if self.year < 0 or self.month is None:
            return _year(self.year)
        return "-".join([f"{self.year:04d}", f"{self.month:02d}", *([f"{self.day:02d}"] if self.day else [])])


def _year(year: int) -> str:
    return f"{-year} BC" if year < 0 else str(year)


MONTHS = [  # in English, whatever the locale
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
]  # fmt: skip
MONTH_NUMBERS = {name.lower(): number for number, name in enumerate(MONTHS, 1)} | {"sept": 9}
MONTH_NUMBERS |= {name[:3].lower(): number for number, name in enumerate(MONTHS, 1)}
_MONTH = "(?:" + "|".join(sorted(MONTH_NUMBERS, key=len, reverse=True)) + r")\b\.?"
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
_DIGIT = lazy_re(r"\d")
_ABOUT = lazy_re(r"(?:\bc(?:irca|a)?\.?|\babout|\baround|\bapproximately|\broughly|~)\s*$", re.IGNORECASE)
_OPEN = lazy_re(r"\b(?:before|after|until|since|by|pre-?|post-?|prior to|not(?:\s+(?:in|on))?)\s*$", re.IGNORECASE)

_LEAD_CHARS = 40  # how far before a date words such as "before" and "about" are searched for


def read_dates(text: str) -> tuple[Date, ...]:
    """Return all dates in order, without open ones ("before 1920")."""
    dates = []
    for (start, _), date in _find_dates(text):
        near = max(0, start - _LEAD_CHARS)
        if _OPEN.search(text, near, start):
            continue
        if date.month is None and _ABOUT.search(text, near, start):
            last = date.year if date.through is None else date.through
            date = Date(date.year - _ABOUT_YEARS, through=last + _ABOUT_YEARS)
        dates.append(date)
    return tuple(dates)


def date_spans(text: str) -> tuple[tuple[int, int], ...]:
    """Return the character spans of all dates."""
    return tuple(span for span, _ in _find_dates(text))


def _find_dates(text: str) -> list[tuple[tuple[int, int], Date]]:
    dates: list[tuple[tuple[int, int], Date]] = []
    if not _DIGIT.search(text):  # every form has a digit, and most texts are short names
        return dates
    taken = bytearray(len(text))
    for form in _FORMS:
        for match in form.finditer(text):
            if any(taken[match.start() : match.end()]):
                continue
            date = _date({name: value for name, value in match.groupdict().items() if value})
            if date is not None:
                dates.append((match.span(), date))
                taken[match.start() : match.end()] = b"x" * len(match[0])
    return sorted(dates, key=lambda pair: pair[0])


def read_date(text: str) -> Date | None:
    """Return the only date, or the most precise of several that agree; else None."""
    dates = read_dates(text)
    if not dates:
        return None
    first, last = max(date.first for date in dates), min(date.last for date in dates)
    return next((date for date in dates if first <= date.first and date.last <= last), None)


def _date(parts: dict[str, str]) -> Date | None:
    before_christ = parts.get("era", "").lower().startswith("b") or "bc" in parts
    if "century" in parts:
        last = 100 * int(parts["century"])
        if not 100 <= last <= 3000:
            return None
        return Date(-last, through=99 - last) if before_christ else Date(last - 99, through=last)
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
    month = int(name) if name.isdigit() else MONTH_NUMBERS[name]
    day = int(parts["day"]) if "day" in parts else None
    if not 1 <= month <= 12 or (day is not None and not 1 <= day <= 31):
        return None
    return Date(year, month, day)


@dataclass(frozen=True, slots=True)
class Countries:
    """The table of countries, all names in lower case."""

    by_name: dict[str, str]  # from a name, alias or demonym to the name of the country
    unclear: frozenset[str]  # names of a part, of something else too, or also last names
    regions: frozenset[str]  # names that stand for no single country
    successors: frozenset[frozenset[str]]  # pairs that may be the same country, such as the Soviet Union and Russia


@cache
def countries() -> Countries:
    """Load the table of countries, once."""
    data = json.loads(Path(__file__).with_name("countries.json").read_text(encoding="utf-8"))
    by_name = {
        spelling: country
        for country, names in data["countries"].items()
        for name in (country, *names)
        for spelling in (name, name.rstrip("."))
    }
    pairs = (frozenset((old, new)) for old, successors in data["successors"].items() for new in successors)
    return Countries(by_name, frozenset(data["unclear"]), frozenset(data["regions"]), frozenset(pairs))
