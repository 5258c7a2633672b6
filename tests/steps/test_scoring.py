"""Scores in whatever form a model writes them, and never for a line that was not shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.text.parse_labels import read_scores

NAMES = (("Whiplash | place of birth | ?", "place of birth"), ("spouse",), ("birth",), ("Apollo 14",))


@pytest.mark.parametrize(
    ("reply", "scores"),
    [
        ("{place of birth (Score: 0.6)}\n{spouse (Score: 0.4)}", {0: 0.6, 1: 0.4}),
        ("1. {spouse (Score: 0.8)}: It tells more than the place of birth.\n2. {birth (score: 0.2)}", {1: 0.8, 2: 0.2}),
        ("{place of birth (Score: 0.6)}, {spouse (Score: 0.4)}", {0: 0.6, 1: 0.4}),
        ("place of birth (Score: .5), Spouse (SCORE: 0.3)", {0: 0.5, 1: 0.3}),
        ("[2] {(Score: 0.7)}\n[1] Score: 0.2", {1: 0.7, 0: 0.2}),
        ("[1] Whiplash | place of birth | ? (Score: 1)", {0: 1.0}),
        ("spouse: 0.7\nbirth - 0.3", {1: 0.7, 2: 0.3}),
        ("[2] 0.7\n[4]: 0.3", {1: 0.7, 3: 0.3}),
        ("| spouse | 0.7 |", {1: 0.7}),
        ("Apollo 14 (Score: 9)\nspouse (Score: 3)", {3: 0.9, 1: 0.3}),
        ("spouse (Score: 80)", {1: 0.8}),
        ("spouse (Score: 0.2)\nspouse (Score: 0.9)", {1: 0.2}),
        ("spouse (Score: 0.2)\nmother (Score: 0.9)", {1: 0.2}),
        ("[9] (Score: 0.2)", {}),
        ("None", {}),
        ("", {}),
        ("Sorry, that is not possible.", {}),
    ],
)
def test_scores_are_read(reply: str, scores: dict[int, float]) -> None:
    assert read_scores(reply, NAMES).by_place == scores


@pytest.mark.parametrize(
    ("reply", "scores", "repairs"),
    [
        ("0.1, 0.2, 0.3, 0.4", {0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4}, ("in order",)),
        ("Scores: 0.5, 0, 0, 1", {0: 0.5, 1: 0.0, 2: 0.0, 3: 1.0}, ("in order",)),
        ("[2][4]", {1: 0.5, 3: 0.5}, ("no scores",)),
        ("Apollo 14", {3: 1.0}, ("no scores",)),
        ("spouse\nplace of birth", {1: 0.5, 0: 0.5}, ("no scores",)),
        ("[3] {spouse}", {1: 1.0}, ("no scores",)),
        ("[3] {spouse}, [2] {place of birth}", {1: 0.5, 0: 0.5}, ("no scores",)),
        ("[3] spouse\n[4]", {1: 0.5, 3: 0.5}, ("no scores",)),
        ("2, 4", {1: 0.5, 3: 0.5}, ("no scores",)),
    ],
)
def test_lines_that_are_only_named_count_alike(reply: str, scores: dict[int, float], repairs: tuple[str, ...]) -> None:
    read = read_scores(reply, NAMES)
    assert (read.by_place, read.repairs, read.error) == (scores, repairs, "")


@pytest.mark.parametrize("reply", ["[3] {spouse}", "[3] {spouse (Score: 0.7)}"])
def test_a_name_counts_before_the_number_of_another_line_with_and_without_a_score(reply: str) -> None:
    assert list(read_scores(reply, NAMES).by_place) == [1]


def test_a_reply_that_says_none_is_read_and_one_that_says_nothing_is_not() -> None:
    assert read_scores("None of them.", NAMES).error == ""
    assert read_scores("Well.", NAMES).error == "no score"
    assert read_scores(" \n", NAMES).error == "the reply is empty"


PIECES = st.sampled_from(["[1]", "{", "}", "(Score: ", "0.5", ")", "spouse", "birth", "\n", ", ", " ", "14", "99", "."])


@given(st.one_of(st.text(max_size=300), st.lists(PIECES, max_size=40).map("".join)))
def test_scores_lie_between_0_and_1_and_belong_to_what_was_shown(reply: str) -> None:
    read = read_scores(reply, NAMES)
    assert all(0 <= place < len(NAMES) and 0 <= score <= 1 for place, score in read.by_place.items())
    assert not (read.by_place and read.error)
    assert read_scores(reply, ()).by_place == {}
