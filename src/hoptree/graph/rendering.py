"""Dates, quantities, places and other literals as a person would write them."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from hoptree.graph.vocabulary import QUANTITY, TIME

XSD = "http://www.w3.org/2001/XMLSchema#"
WKT = "http://www.opengis.net/ont/geosparql#wktLiteral"
DAY, _MONTH, _YEAR, _DECADE, _CENTURY, _MILLENNIUM = 11, 10, 9, 8, 7, 6
_SECOND = 14
_MONTHS = (  # not the locale's
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DATE = re.compile(
    r"([+-]?)(\d{1,16})(?:-(\d\d)(?:-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?)?)?)?(?:Z|[+-]\d\d:\d\d)?", re.ASCII
)
_POINT = re.compile(r"(?:<[^>]*>\s*)?POINT\s*\(\s*([+-]?[\d.]+)\s+([+-]?[\d.]+)\s*\)", re.ASCII | re.IGNORECASE)
_LONGEST_NUMBER = 60
_COMMAS_FROM = 10_000


def render_literal(value: str, datatype: str = "", unit: str = "") -> str:
    """A literal of this datatype (an IRI) in readable form; as it is, if it is not what the datatype says.

    Wikidata's truthy dumps give years as their first of January, so that a first of January is told as the year.
    """
    kind = datatype.removeprefix(XSD)
    if datatype == TIME:
        said, _, precision = value.partition("/")
        return render_time(said, int(precision) if precision.isdecimal() and len(precision) < 3 else None)
    if datatype == QUANTITY:
        return render_quantity(value.partition(" ")[0], unit)
    if datatype == WKT:
        return render_coordinates(value)
    if kind == datatype:
        return value
    if kind in ("dateTime", "date", "gYear", "gYearMonth", "dateTimeStamp"):
        year_only = kind in ("dateTime", "dateTimeStamp") and re.search(r"-01-01T00:00:00", value)
        return render_time(value, _YEAR if year_only else None, astronomical=True)
    if kind in ("decimal", "integer", "double", "float", "int", "long", "nonNegativeInteger"):
        return render_number(value)
    if kind == "boolean":
        return {"true": "yes", "1": "yes", "false": "no", "0": "no"}.get(value, value)
    return value


def unit_of(value: str) -> str:
    """The id of the unit of a quantity as the store keeps it."""
    return value.partition(" ")[2]


def render_time(value: str, precision: int | None = None, *, astronomical: bool = False) -> str:
    """A time as "20 July 1969"; coarser where `precision` (Wikidata's 0 to 14) is, or parts of it are 0 or missing.

    With `astronomical` years (those of RDF) there is a year 0, which is 1 BC; else (Wikidata's JSON) -44 is 44 BC.
    """
    found = _DATE.fullmatch(value.strip())
    if found is None:
        return value
    year = int(found[2])
    before = found[1] == "-" and year > 0
    if astronomical and (before or (year == 0)):
        year, before = year + 1, True
    month, day = int(found[3] or 0), int(found[4] or 0)
    if month > 12 or day > 31:
        return value
    precision = min(_SECOND if precision is None else precision, DAY if day else _MONTH if month else _YEAR, _SECOND)
    era = " BC" if before else ""
    if precision < _YEAR:
        return _coarse(year, precision) + era
    if precision == _YEAR or not month:
        return f"{year}{era}"
    if precision == _MONTH or not day:
        return f"{_MONTHS[month - 1]} {year}{era}"
    clock = f", {found[5]}:{found[6]} UTC" if found[5] and (found[5], found[6], found[7]) != ("00", "00", "00") else ""
    return f"{day} {_MONTHS[month - 1]} {year}{era}{clock}"


def _coarse(year: int, precision: int) -> str:
    if precision == _DECADE:
        return f"{year // 10 * 10}s"
    if precision == _CENTURY:
        return f"{_ordinal((year + 99) // 100)} century"
    if precision == _MILLENNIUM:
        return f"{_ordinal((year + 999) // 1000)} millennium"
    return (
        f"about {render_number(str(year))}"
        if year < 10**6
        else f"about {render_number(str(year // 10**6))} million years"
    )


def _ordinal(count: int) -> str:
    ending = "th" if count // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{count}{ending}"


def render_number(value: str) -> str:
    """A number without its plus and needless zeros; commas from ten thousand on, so that years have none."""
    if len(value) > _LONGEST_NUMBER:  # 1e999999 would be written out
        return value
    try:
        read = Decimal(value)
        if not read.is_finite() or abs(read.adjusted()) > _LONGEST_NUMBER:
            return value
        plain = format(read, ",f" if abs(read) >= _COMMAS_FROM else "f")
    except (InvalidOperation, ValueError):
        return value
    plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
    return "0" if plain in ("-0", "") else plain


def render_quantity(amount: str, unit: str = "") -> str:
    """An amount with its unit."""
    return f"{render_number(amount)} {unit}".rstrip()


def render_coordinates(value: str) -> str:
    """A point on Earth as "52.5167° N, 13.3833° E"; WKT has the longitude first."""
    found = _POINT.fullmatch(value.strip())
    if found is None:
        return value
    try:
        longitude, latitude = float(found[1]), float(found[2])
    except ValueError:
        return value
    if value.lstrip().startswith("<") or abs(latitude) > 90:  # another globe than Earth, or no coordinates
        return value
    north, east = "S" if latitude < 0 else "N", "W" if longitude < 0 else "E"
    return f"{_degrees(latitude)}° {north}, {_degrees(longitude)}° {east}"


def _degrees(angle: float) -> str:
    return f"{abs(angle):.4f}".rstrip("0").rstrip(".")
