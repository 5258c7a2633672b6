"""An answer counts only where a passage holds it together with what was asked about."""

from __future__ import annotations

from hoptree.steps.ground import grounded
from hoptree.values import Answer, Passage

HAS = Passage("has", "Wojciech Jerzy Has", "The director died in Łódź in 2000.")
CEMETERY = Passage("cemetery", "Assistens Cemetery", "Assistens Cemetery is in Copenhagen.")
CAHILL = Passage("cahill", "Thaddeus Cahill", "Thaddeus Cahill was an American engineer who died in 1934.")


def test_the_answer_takes_the_passages_spelling() -> None:
    answer = grounded(Answer("lódź"), "In which city did Wojciech Jerzy Has die?", [CEMETERY, HAS])
    assert (answer.text, answer.support, answer.known) == ("Łódź", ("has",), True)


def test_another_subjects_fact_is_no_evidence() -> None:
    answer = grounded(Answer("Assistens Cemetery"), "Where is Thaddeus Cahill buried?", [CAHILL, CEMETERY])
    assert (answer.status, answer.support) == ("unknown", ())


def test_words_must_stand_in_a_row() -> None:
    assert not grounded(Answer("American 1934"), "Who was Thaddeus Cahill?", [CAHILL]).known


def test_a_question_without_names_asks_for_the_words_alone() -> None:
    assert grounded(Answer("1934"), "When did he die?", [CAHILL]).support == ("cahill",)


def test_nothing_is_never_grounded() -> None:
    assert not grounded(Answer(""), "When did he die?", [CAHILL]).known
    assert not grounded(Answer("1934"), "When did he die?", []).known


def test_possessives_are_names_too() -> None:
    assert grounded(Answer("engineer"), "What was Thaddeus Cahill's profession?", [CAHILL]).known
