"""The names in a question, and whether it lists several conditions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.text.comparison_questions import may_list, named


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Who did Ada Moor, Countess of Ghent marry?", {"ada moor countess of ghent"}),
        ("Which films star Ada Moor, Ben Hale and Cora Lind?", {"ada moor", "ben hale", "cora lind"}),
        ("Which films star Ada Moor, Ben Hale, and Cora Lind?", {"ada moor", "ben hale", "cora lind"}),
        ("Ada Moor lived in a house. Which one?", {"ada moor"}),
        ("Which of them came from Akron, Ohio?", {"akron ohio"}),
        ("Who is Ada Moor-Low, 3Rd Baron Low's child?", {"ada moor low 3rd baron low s"}),
        ("Who taught Ada Moor, 1st Countess of Ghent, and Ben Hale?", {"ada moor 1st countess of ghent", "ben hale"}),
        (
            "Which films star Ada Moor, Count of Lund, Ben Hale and Cora Lind?",
            {"ada moor count of lund", "ben hale", "cora lind"},
        ),
        ("Which films star Ada Moor, Jr. and Ben Hale, Sr.?", {"ada moor jr", "ben hale sr"}),
        ("Which films star Ada Moor, Jr, and Ben Hale?", {"ada moor jr", "ben hale"}),
        ("Which albums are by Ada Moor, Prince and Ben Hale?", {"ada moor", "prince", "ben hale"}),
        ("Which albums are by Ada Moor, King Crimson and Queen?", {"ada moor", "king crimson", "queen"}),
    ],
)
def test_a_name_behind_a_comma_is_a_part_of_the_one_before_it_unless_they_are_listed(
    text: str, names: set[str]
) -> None:
    assert named(text) == names


def test_a_rank_behind_a_comma_makes_no_list() -> None:
    assert not may_list("Who is Ada Moor-Low, 3Rd Baron Low's child-in-law?")
    assert not may_list("Who is the father of Ada Moor, 2nd Duke of Lund?")
    assert may_list("Who taught both Ada Moor, 2nd Duke of Lund, and Ben Hale?")


@given(st.text())
def test_nothing_raises(question: str) -> None:
    may_list(question)
    may_list(f"Which Ada did {question} Ben?")
