"""Whether two answers say the same, whatever their spelling."""

from __future__ import annotations

import pytest

from hoptree.text.comparison import agree, same


@pytest.mark.parametrize(
    ("answer", "other"),
    [
        ("Kraków", "Krakow"),
        ("Łódź", "Lodz"),
        ("1.2 million", "1,200,000"),
        ("About 1.2 million", "1200000 people"),
        ("Five", "5"),
        ("W. J. Has", "Wojciech Jerzy Has"),
        ("October 2000", "in October of 2000"),
        ("American", "United States"),
        ("No, it is not.", "no"),
        ("the 5 February 1971", "February 5, 1971"),
    ],
)
def test_spelling_is_no_difference(answer: str, other: str) -> None:
    assert same(answer, other) and same(other, answer)
    assert agree(answer, other) and agree(other, answer)


@pytest.mark.parametrize(
    ("answer", "other"),
    [
        ("Lodz, Poland", "Łódź"),
        ("Wojciech Has, the director", "Wojciech Has"),
        ("Apollo 14, not Apollo 12", "Apollo 14"),
        ("5 km", "5"),
        ("14", "Apollo 14"),
    ],
)
def test_one_may_say_more_than_the_other(answer: str, other: str) -> None:
    assert agree(answer, other) and agree(other, answer)
    assert not same(answer, other)


@pytest.mark.parametrize(
    ("answer", "other"),
    [
        ("Paris", "not Paris"),
        ("Paris", "It isn't Paris"),
        ("Apollo 12", "Apollo 14, not Apollo 12"),
        ("5", "5 million"),
        ("5", "5 million US dollars"),
        ("1.2 million", "1.3 million"),
        ("Apollo 14", "Apollo 12"),
        ("No Country for Old Men", "No Time to Die"),
        ("Yes", "Yesterday"),
        ("No", "In no case before 1950"),
        ("J. Smith", "Karl Smith"),
        ("", ""),
    ],
)
def test_what_says_something_else_does_not_agree(answer: str, other: str) -> None:
    assert not agree(answer, other) and not agree(other, answer)
    assert not same(answer, other)
