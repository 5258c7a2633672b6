"""Which of several answers is taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.core.values import Answer
from hoptree.engine.events import Decision
from hoptree.methods.baselines.oner import choose_surest
from hoptree.methods.steps.answer import answer_key, majority


class Heard:
    """What of a context is used: it hears of decisions."""

    def __init__(self) -> None:
        self.decisions: list[tuple[str, object]] = []

    def emit(self, event: Decision, **_: object) -> None:
        self.decisions.append((event.kind, event.value))


def taken(*answers: Answer) -> tuple[str, list[tuple[str, object]]]:
    heard = Heard()
    return choose_surest(heard, answers, when="final").text, heard.decisions  # type: ignore[arg-type]


UNKNOWN = Answer("", status="unknown")


def test_the_surest_is_taken_and_of_equals_the_last() -> None:
    assert taken(Answer("a", confidence=0.2), Answer("b", confidence=0.9), Answer("c", confidence=0.5))[0] == "b"
    assert taken(Answer("a", confidence=0.4), Answer("b", confidence=0.4)) == ("b", [("surest", 1)])


def test_without_confidence_the_most_frequent_is_taken_and_of_equals_the_last() -> None:
    assert taken(Answer("Rome"), Answer("rome."), Answer("Paris"))[0] == "rome."
    assert taken(Answer("Rome"), Answer("Oslo"), Answer("Paris"))[0] == "Paris"


def test_one_without_confidence_beside_one_that_has_some_counts_nothing() -> None:
    assert taken(Answer("Rome", confidence=0.01), Answer("Oslo"))[0] == "Rome"


def test_what_is_unknown_is_not_weighed() -> None:
    assert taken(UNKNOWN, Answer("a", confidence=0.1), UNKNOWN) == ("a", [])
    assert taken(UNKNOWN, UNKNOWN) == ("", [])


def elected(*answers: Answer) -> tuple[str, float]:
    answer, share = majority(Heard(), answers, when="chains")  # type: ignore[arg-type]
    return answer.text, share


def test_the_most_frequent_is_elected_in_its_normal_form() -> None:
    assert elected(Answer("Oslo"), Answer("The Hague"), Answer("the hague."), Answer("Hague")) == ("The Hague", 0.75)


def test_what_is_unknown_does_not_vote_but_counts() -> None:
    assert elected(UNKNOWN, UNKNOWN, UNKNOWN, Answer("Rome")) == ("Rome", 0.25)
    assert elected(UNKNOWN, Answer("", status="refused")) == ("", 0.0)
    assert elected() == ("", 0.0)


def test_equals_are_told_apart_by_the_surest_voter_else_the_first_is_elected() -> None:
    assert elected(Answer("a1", confidence=0.2), Answer("b1", confidence=0.4))[0] == "b1"
    assert elected(Answer("Rome", confidence=0.1), Answer("Oslo"), Answer("rome"), Answer("OSLO"))[0] == "Rome"
    assert elected(Answer("Rome"), Answer("Oslo"))[0] == "Rome"
    assert elected(Answer("Rome", confidence=0.2), Answer("ROME", confidence=0.6))[0] == "ROME"


def test_the_vote_is_told() -> None:
    heard = Heard()
    majority(heard, [Answer("Rome"), UNKNOWN], when="chains")  # type: ignore[arg-type]
    assert heard.decisions == [("majority", 0.5)]


@pytest.mark.parametrize(
    ("answer", "other", "same"),
    [
        ("The Who", "who", True),
        ("A", "a.", True),
        ("A", "B", False),
        ("the", "The", True),
        ("!!!", "!!!", True),
        ("!!!", "???", False),
        ("C++", "c", True),
        ("Anna", "nna", False),
        ("  New   York ", "new york", True),
    ],
)
def test_answers_are_compared_without_case_articles_and_punctuation(answer: str, other: str, same: bool) -> None:
    assert (answer_key(answer) == answer_key(other)) is same


any_answer = st.builds(
    Answer,
    st.sampled_from(["Rome", "rome!", "the Rome", "Oslo", "", "!!!"]) | st.text(max_size=5),
    status=st.sampled_from(["answered", "unknown", "refused"]),
    confidence=st.none() | st.floats(0, 1),
)


@given(st.lists(any_answer, max_size=12))
def test_no_other_answer_has_more_votes(answers: list[Answer]) -> None:
    taken, share = majority(Heard(), answers, when="chains")  # type: ignore[arg-type]
    counts = [
        sum(other.known and answer_key(other.text) == answer_key(each.text) for other in answers)
        for each in answers
        if each.known
    ]
    assert taken.known is bool(counts)
    assert share == (max(counts) / len(answers) if counts else 0.0)
