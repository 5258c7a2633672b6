"""Literals as a person would write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.graph.facts import (
    QUANTITY,
    TIME,
    WKT,
    XSD,
    render_coordinates,
    render_literal,
    render_number,
    render_quantity,
    render_time,
)


@pytest.mark.parametrize(
    ("value", "precision", "expected"),
    [
        ("+1969-07-20T00:00:00Z", 11, "20 July 1969"),
        ("+1969-07-20T20:17:40Z", 14, "20 July 1969, 20:17 UTC"),
        ("+1969-07-20T20:17:40Z", 11, "20 July 1969, 20:17 UTC"),
        ("+1969-07-20T00:00:00Z", 10, "July 1969"),
        ("+1969-07-00T00:00:00Z", 10, "July 1969"),
        ("+1969-00-00T00:00:00Z", 9, "1969"),
        ("+1969-00-00T00:00:00Z", 11, "1969"),
        ("+1960-00-00T00:00:00Z", 8, "1960s"),
        ("+1969-00-00T00:00:00Z", 7, "20th century"),
        ("+2000-00-00T00:00:00Z", 7, "20th century"),
        ("+2001-00-00T00:00:00Z", 7, "21st century"),
        ("+1100-00-00T00:00:00Z", 7, "11th century"),
        ("+1500-00-00T00:00:00Z", 6, "2nd millennium"),
        ("-0044-03-15T00:00:00Z", 11, "15 March 44 BC"),
        ("-66000000-00-00T00:00:00Z", 3, "about 66 million years BC"),
        ("+1969-13-20T00:00:00Z", 11, "+1969-13-20T00:00:00Z"),
        ("yesterday", 11, "yesterday"),
        ("", None, ""),
    ],
)
def test_times_are_as_exact_as_they_are_known(value: str, precision: int | None, expected: str) -> None:
    assert render_time(value, precision) == expected


def test_rdf_counts_a_year_zero_and_json_does_not() -> None:
    assert render_time("-0043-03-15T00:00:00Z", 11, astronomical=True) == "15 March 44 BC"
    assert render_time("0000-01-01", 9, astronomical=True) == "1 BC"


@pytest.mark.parametrize(
    ("value", "datatype", "unit", "expected"),
    [
        ("1969-07-20T00:00:00Z", f"{XSD}dateTime", "", "20 July 1969"),
        ("1969-01-01T00:00:00Z", f"{XSD}dateTime", "", "1969"),
        ("1969-01-01", f"{XSD}date", "", "1 January 1969"),
        ("1969", f"{XSD}gYear", "", "1969"),
        ("+1969-07-20T00:00:00Z/11", TIME, "", "20 July 1969"),
        ("+1969-07-20T00:00:00Z/" + "9" * 5000, TIME, "", "20 July 1969"),
        ("+1969-07-20T00:00:00Z/x", TIME, "", "20 July 1969"),
        ("+8848.860 Q11573", QUANTITY, "metre", "8848.86 metre"),
        ("+83190556", f"{XSD}decimal", "", "83,190,556"),
        ("true", f"{XSD}boolean", "", "yes"),
        ("Point(13.38333 52.51667)", WKT, "", "52.5167° N, 13.3833° E"),
        ("plain", "", "", "plain"),
        ("12", f"{XSD}string", "", "12"),
    ],
)
def test_literals_by_datatype(value: str, datatype: str, unit: str, expected: str) -> None:
    assert render_literal(value, datatype, unit) == expected


def test_numbers() -> None:
    assert [render_number(number) for number in ("+5", "-0.50", "1969", "+10000", "1e3", "-0", "NaN", "abc")] == [
        *("5", "-0.5", "1969", "10,000", "1000", "0", "NaN", "abc")
    ]
    assert render_number("1e999999999") == "1e999999999"
    assert render_quantity("+3", "") == "3"


def test_a_point_on_the_moon_is_left_as_it_is() -> None:
    moon = "<http://www.wikidata.org/entity/Q405> Point(23.47 0.67)"
    assert render_coordinates(moon) == moon
    assert render_coordinates("Point(-70.5 -33.25)") == "33.25° S, 70.5° W"
    assert render_coordinates("Point(1.2.3 4)") == "Point(1.2.3 4)"


@given(st.text(max_size=40), st.integers(-3, 20) | st.none())
def test_no_text_breaks_a_renderer(value: str, precision: int | None) -> None:
    assert isinstance(render_time(value, precision), str)
    for datatype in (TIME, QUANTITY, WKT, f"{XSD}dateTime", f"{XSD}decimal", f"{XSD}boolean", ""):
        assert isinstance(render_literal(value, datatype), str)


@given(st.integers(1, 9999), st.integers(1, 12), st.integers(1, 28))
def test_a_day_keeps_its_numbers(year: int, month: int, day: int) -> None:
    words = render_time(f"+{year:04}-{month:02}-{day:02}T00:00:00Z", 11).split()
    assert (int(words[0]), int(words[2])) == (day, year)
