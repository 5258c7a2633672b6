"""Whether passages name all that a question names."""

from __future__ import annotations

import pytest

from hoptree.core.values import Passage
from hoptree.text.grounding import covers

FILM = Passage("p1", "Whiplash", "A film by Damien Chazelle.")
TOWN = Passage("p2", "Łódź", "A city in Poland.")


@pytest.mark.parametrize(
    ("question", "passages", "covered"),
    [
        ("Who directed Whiplash?", [FILM], True),
        ("Who directed Whiplash?", [TOWN], False),
        ("Who directed Whiplash?", [], False),
        ("Is Whiplash set in Lodz?", [FILM], False),
        ("Is Whiplash set in Lodz?", [TOWN, FILM], True),
        ("Is Damien Chazelle's film longer than La La Land?", [FILM], False),
        ("Is Damien Chazelle's Whiplash set in a city?", [FILM], True),
        ("Is Damien Chazelle's Whiplash set in a city?", [TOWN], False),
        ("who directed it", [TOWN], True),
        ("who directed it", [], False),
    ],
)
def test_every_name_must_be_in_some_passage(question: str, passages: list[Passage], covered: bool) -> None:
    assert covers(question, passages) is covered
