"""Known answers for every metric."""

from __future__ import annotations

import pytest

from hoptree.evaluation.metrics import contains, exact_match, normalise


def test_normal_form_is_squads() -> None:
    assert normalise("The  Eiffel-Tower, a landmark!") == "eiffeltower landmark"


@pytest.mark.parametrize(
    ("prediction", "golds", "expected"),
    [
        ("the Eiffel Tower", ["Eiffel Tower"], True),
        ("Eiffel Tower.", ["Big Ben", "eiffel tower"], True),
        ("Eiffel Tower in Paris", ["Eiffel Tower"], False),
        ("", ["Eiffel Tower"], False),
        ("anything", [], False),
    ],
)
def test_exact_match(prediction: str, golds: list[str], expected: bool) -> None:
    assert exact_match(prediction, golds) is expected


@pytest.mark.parametrize(
    ("prediction", "golds", "expected"),
    [
        ("It is the Eiffel Tower in Paris.", ["Eiffel Tower"], True),
        ("I know", ["no"], False),
        ("north", ["no"], False),
        ("No, they are not.", ["no"], True),
        ("Eiffel", ["Eiffel Tower"], False),
        ("anything", ["the"], False),
    ],
)
def test_containment_is_of_whole_words(prediction: str, golds: list[str], expected: bool) -> None:
    assert contains(prediction, golds) is expected
