"""Putting what is right in the place of what was refuted, and telling whether two answers are the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.methods.steps.logic_tree import Claim
from hoptree.methods.treeqa.speculative import mentions_wrong_answer, propagate_correction, substituted
from hoptree.text.comparison import agree, same


@pytest.mark.parametrize(
    ("text", "wrong", "right", "becomes"),
    [
        ("Where was Ada Moor born?", "Ada Moor", "Cora Lind", "Where was Cora Lind born?"),
        ("where was ada moor born?", "Ada Moor", "Cora Lind", "where was Cora Lind born?"),
        (
            "Who ruled in December 1968?",
            "Apollo 8, in December 1968",
            "February 5, 1971",
            "Who ruled on February 5, 1971?",
        ),
        ("Who ruled in 1968?", "1968", "1971", "Who ruled in 1971?"),
        ("Who flew Apollo 8?", "Apollo 8, in December 1968", "Apollo 14, on February 5, 1971", "Who flew Apollo 14?"),
        ("Who flew Apollo 80?", "Apollo 8", "Apollo 14", "Who flew Apollo 80?"),
        ("Where is it?", "Ada Moor", "Cora Lind", "Where is it?"),
        ("Where was Ada Moor born?", "Ada Moor", "a man whose name is told nowhere", None),
        ("Where was Ada Moor born?", "Ada Moor", "Cora Lind and Dan Roe", None),
        ("Why has Venus no moon?", "No", "Yes", "Why has Venus no moon?"),
        ("Who were the 2 men of Team 2?", "2", "3", "Who were the 2 men of Team 2?"),
        ("Which university in Paris did Ann Low attend?", "Ann Low, Paris", "Bob High", None),
        ("What is the currency of France?", "Paris, France", "Lyon", "What is the currency of France?"),
        ("What is the currency of France?", "Paris, France", "Lyon, France", "What is the currency of France?"),
        ("Who rules Paris?", "Paris, France", "Lyon", "Who rules Lyon?"),
        ("Who met Bob High?", "Ann Low and Bob High", "Cora Lind", "Who met Cora Lind?"),
        ("When was Elia Kazan born?", "Kazan", "Elia Kazan", "When was Elia Kazan born?"),
        ("Who married Prince Charles?", "Prince", "Madonna", None),
        ("Who ruled in May 1966?", "1966", "1970", None),
        ("Where did he die, Rome or Milan?", "Rome", "Milan", None),
        ("Where was Ada Moor born?", "Ada Moor", "Moor", "Where was Moor born?"),
    ],
)
def test_what_is_named_is_replaced_by_its_like(text: str, wrong: str, right: str, becomes: str | None) -> None:
    assert substituted(text, wrong, right) == becomes


@pytest.mark.parametrize(
    ("text", "wrong", "right", "named"),
    [
        ("What is the currency of France?", "Paris, France", "Lyon", False),
        ("What is the currency of France?", "Paris, France", "", False),
        ("Who rules Paris?", "Paris, France", "Lyon", True),
        ("When was Elia Kazan born?", "Kazan", "Elia Kazan", False),
        ("When was Kazan born?", "Kazan", "Elia Ray", True),
        ("Who met Bob High?", "Ann Low, Cora Lind, Bob High", "", True),
        ("Who met Bob High?", "Ann Low and Bob High", "Ann Low", True),
        ("Who met Ann Low?", "Ann Low and Bob High", "Ann Low", False),
    ],
)
def test_only_what_is_wrong_in_an_answer_is_named_by_what_rests_on_it(
    text: str, wrong: str, right: str, named: bool
) -> None:
    assert mentions_wrong_answer(text, wrong, right) is named


def test_what_is_below_carries_the_right_answer_however_deep() -> None:
    deep = Claim("Where does Ada Moor live?", "Ghent", (Claim("Who is Ada Moor's friend?", "Ada Moor"),))
    below = propagate_correction(Claim("Who?", "Ada Moor", (deep, Claim("When is it?", "now"))), "Cora Lind")
    assert below == (
        Claim("Where does Cora Lind live?", "Ghent", (Claim("Who is Cora Lind's friend?", "Cora Lind"),)),
        Claim("When is it?", "now"),
    )


def test_what_does_not_name_the_wrong_answer_cannot_carry_the_right_one() -> None:
    unnamed = Claim("Who?", "Ada Moor", (Claim("Where was she born?", "Ghent"),))
    assert propagate_correction(unnamed, "Cora Lind") is None
    named = Claim("Who?", "Ada Moor", (Claim("Where is Ada Moor?", "Ghent"),))
    assert propagate_correction(named, "nobody knows who") is None


@given(st.text(), st.text(), st.text())
def test_nothing_raises(text: str, wrong: str, right: str) -> None:
    substituted(text, wrong, right)
    mentions_wrong_answer(text, wrong)
    propagate_correction(Claim(text, wrong, (Claim(text, right),)), right)
    assert agree(text, right) == agree(right, text)


@pytest.mark.parametrize(
    ("answer", "other", "same"),
    [
        ("Apollo 14", "apollo 14.", True),
        ("5 February 1971", "Apollo 14, on February 5, 1971", True),
        ("1971", "February 5, 1971", True),
        ("1968", "February 5, 1971", False),
        ("American", "United States", True),
        ("Yes, it is", "yes", True),
        ("Yes", "No", False),
        ("Paris", "London", False),
        ("Apollo 1", "Apollo 14", False),
        ("3,000", "3000", True),
        ("", "Paris", False),
    ],
)
def test_answers_that_say_the_same(answer: str, other: str, same: bool) -> None:
    assert agree(answer, other) is same and agree(other, answer) is same


@pytest.mark.parametrize(
    ("answer", "other"), [("Ireland", "Northern Ireland"), ("Rocky", "Rocky II"), ("14", "Apollo 14")]
)
def test_what_says_more_may_be_another_thing(answer: str, other: str) -> None:
    assert agree(answer, other) and not same(answer, other)
