"""Read numbers with their units: 1,234.5; 3.2 million; two hundred; 432 m (1,417 ft)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from hoptree.core.patterns import lazy_re


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number in the base unit of its dimension (metre, square metre, kilogram, second …, or "")."""

    value: float
    dimension: str = ""

    def __str__(self) -> str:
        return f"{self.value:,.10g}"


_UNITS: dict[str, tuple[str, float]] = {}
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
    _UNITS.update(dict.fromkeys(_words.split(), (_dimension, _size)))

_SCALES = {"hundred": 100.0, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "dozen": 12.0}
_SCALES |= {"k": 1e3, "mn": 1e6, "bn": 1e9}
_ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL = {word: float(value) for value, word in enumerate(_ONES.split())}
_SMALL |= {word: 10.0 * value for value, word in enumerate(_TENS.split(), start=2)}
_FIGURES = lazy_re(
    r"(?<![\w.])(?P<sign>[-−])?(?P<figures>\d{1,3}(?:\.\d{3}){2,}|\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?!\.?\d)"
    r"(?:[\s-]?(?P<scale>hundred|thousand|million|billion|trillion|dozen|k|mn|bn)\b)?"
    r"(?:[\s-]*(?P<square>square|sq\.?|cubic)?[\s-]*(?P<unit>km/h|[a-zA-Z]+[²2]?)(?![\w²]))?"
)
_NUMBER_WORD = "|".join([*sorted(_SMALL, key=len, reverse=True), "hundred", "thousand", "million", "billion", "dozen"])
_SPELT = lazy_re(
    r"\b(?:(?:an?\s+)(?=hundred|thousand|million|billion|dozen))?"
    rf"(?:{_NUMBER_WORD})\b(?:[\s-]+(?:and\s+)?(?:{_NUMBER_WORD})\b)*",
    re.IGNORECASE,
)
_AFTER_SPELT = lazy_re(r"[\s-]*(?P<square>square|cubic)?[\s-]*(?P<unit>[a-zA-Z]+)")
_ASIDE = lazy_re(r"\([^()]*\)|\[[^\[\]]*\]")
_WHEN = lazy_re(
    r"\b(?:[Aa]s of|[Ii]n|since|by|from|during|until|at)\s+(?:(?:the|[A-Z][a-z]+|\d{1,2})\s+){0,3}"
    r"(?:1[5-9]|20)\d\d\b(?:\s+census)?,?"
)


def read_quantity(text: str) -> Quantity | None:
    """Return the only number in the text; None if there is none, or several that differ.

    Brackets (the same length in feet) and the year of a count ("as of 2010") are ignored beside another number.
    """
    for reading in (_ASIDE.sub(" ", _WHEN.sub(" ", text)), _WHEN.sub(" ", text), text):
        quantities = set(_quantities(reading))
        if quantities:
            return quantities.pop() if len(quantities) == 1 else None
    return None


def read_number(text: str) -> float | None:
    """Return the only number in the text, in base units; None if it is unclear."""
    quantity = read_quantity(text)
    return None if quantity is None else quantity.value


def _quantities(text: str) -> list[Quantity]:
    quantities = []
    spans = []
    for match in _FIGURES.finditer(text):
        figures = match["figures"].replace(",", "")
        grouped = figures.count(".") > 1  # 1.200.000, as it is written outside English
        scale = _SCALES.get((match["scale"] or "").lower(), 1.0)
        value = float(figures.replace(".", "") if grouped else figures) * scale
        spans.append(match.span())
        if math.isfinite(value):
            quantities.append(_to_base_unit(-value if match["sign"] else value, match["square"], match["unit"]))
    for match in _SPELT.finditer(text):
        if any(match.start() < end and start < match.end() for start, end in spans):
            continue
        unit = _AFTER_SPELT.match(text, match.end())
        quantities.append(_to_base_unit(_spelt_value(match.group()), unit and unit["square"], unit and unit["unit"]))
    return quantities


def _to_base_unit(value: float, square: str | None, unit: str | None) -> Quantity:
    name = (unit or "").lower() if unit not in ("M", "T", "G", "S", "H") else ""
    dimension, size = _UNITS.get(name, ("", 1.0))
    if square and dimension == "length":
        power = 3 if square.lower() == "cubic" else 2
        return Quantity(value * size**power, "volume" if power == 3 else "area")
    return Quantity(value * size, dimension)


def _spelt_value(words: str) -> float:
    """Return the value of number words: each scale multiplies what came since the last larger one."""
    total = part = 0.0
    for word in re.split(r"[\s-]+", words.lower()):
        if word in _SMALL:
            part += _SMALL[word]
        elif word == "hundred" or word == "dozen":
            part = (part or 1.0) * _SCALES[word]
        elif word in _SCALES:
            total += (part or 1.0) * _SCALES[word]
            part = 0.0
    return total + part


_THOUSANDS = lazy_re(r"(?<=\d),(?=\d{3}\b)")


def plain_numbers(text: str) -> str:
    """The text with numbers as digits alone: 1200, where it has 1,200."""
    return _THOUSANDS.sub("", text)
