"""Which of several answers is taken."""

from __future__ import annotations

from hoptree.steps.choose import surest
from hoptree.values import Answer


class Heard:
    """What of a context is used: it hears of decisions."""

    def __init__(self) -> None:
        self.decisions: list[tuple[str, object]] = []

    def decide(self, kind: str, value: object, **_: object) -> None:
        self.decisions.append((kind, value))


def taken(*answers: Answer) -> tuple[str, list[tuple[str, object]]]:
    heard = Heard()
    return surest(heard, answers, when="final").text, heard.decisions  # type: ignore[arg-type]


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
