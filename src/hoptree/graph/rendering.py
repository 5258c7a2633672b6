"""Render dates, quantities, places and other literals for people."""

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
_MAX_NUMBER_CHARS = 60
_COMMAS_FROM = 10_000


def render_literal(value: str, datatype: str = "", unit: str = "") -> str:
    """Render a literal of a datatype (an IRI); unchanged if it does not fit the datatype.

    Wikidata's truthy dumps give years as their first of January, so a first of January is rendered as the year.
    """
    kind = datatype.removeprefix(XSD)
    if datatype == TIME:
        moment, _, precision = value.partition("/")
        return render_time(moment, int(precision) if precision.isdecimal() and len(precision) < 3 else None)
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
    """Return the id of the unit of a stored quantity."""
    return value.partition(" ")[2]


def render_time(value: str, precision: int | None = None, *, astronomical: bool = False) -> str:
    """Render a time as "20 July 1969", or coarser by `precision` (Wikidata's 0 to 14) or missing parts.

    `astronomical` years (RDF) have a year 0, which is 1 BC; otherwise (Wikidata's JSON) -44 is 44 BC.
    """
    date = _DATE.fullmatch(value.strip())
    if date is None:
        return value
    year = int(date[2])
    before = date[1] == "-" and year > 0
    if astronomical and (before or (year == 0)):
        year, before = year + 1, True
    month, day = int(date[3] or 0), int(date[4] or 0)
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
    clock = f", {date[5]}:{date[6]} UTC" if date[5] and (date[5], date[6], date[7]) != ("00", "00", "00") else ""
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
    """Render a number without plus and trailing zeros, with commas from ten thousand on (not in years)."""
    if len(value) > _MAX_NUMBER_CHARS:  # 1e999999 would be written out
        return value
    try:
        read = Decimal(value)
        if not read.is_finite() or abs(read.adjusted()) > _MAX_NUMBER_CHARS:
            return value
        plain = format(read, ",f" if abs(read) >= _COMMAS_FROM else "f")
    except (InvalidOperation, ValueError):
        return value
    plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
    return "0" if plain in ("-0", "") else plain


def render_quantity(amount: str, unit: str = "") -> str:
    """Render an amount with its unit."""
    return f"{render_number(amount)} {unit}".rstrip()


def render_coordinates(value: str) -> str:
    """Render a point as "52.5167° N, 13.3833° E"; WKT has the longitude first."""
    point = _POINT.fullmatch(value.strip())
    if point is None:
        return value
    try:
        longitude, latitude = float(point[1]), float(point[2])
    except ValueError:
        return value
    if value.lstrip().startswith("<") or abs(latitude) > 90:  # another globe than Earth, or no coordinates
        return value
    north, east = "S" if latitude < 0 else "N", "W" if longitude < 0 else "E"
    return f"{_degrees(latitude)}° {north}, {_degrees(longitude)}° {east}"


def _degrees(angle: float) -> str:
    return f"{abs(angle):.4f}".rstrip("0").rstrip(".")
