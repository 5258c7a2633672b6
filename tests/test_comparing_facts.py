"""The sub-questions that give the facts of a comparison are recognised."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.text.comparison import conclude
from hoptree.text.comparison_plans import select_facts
from hoptree.text.comparison_questions import detect_comparison

A, B = "Alpha Dawn", "Beta Night"
DIED = f"Which film has the director who died first, {A} or {B}?"
BORN = f"Who was born later, {A} or {B}?"
OLDER = f"Which band is older, {A} or {B}?"
OUT = f"Which film came out earlier, {A} or {B}?"
MORE = f"Which film won more awards, {A} or {B}?"
SAME = f"Are {A} and {B} from the same country?"
JOB = f"Do {A} and {B} have the same profession?"
BOTH = f"Are {A} and {B} both French?"


def concluded(question: str, *pairs: tuple[str, str]) -> str:
    """Return the answer from the facts of the sub-questions; X and Y stand for the names."""
    comparison = detect_comparison(question)
    assert comparison is not None and comparison.operands == (A, B)
    answers = [
        (name, asked.replace(letter, name), answer)
        for asked, answer in pairs
        for letter, name in (("X", A), ("Y", B))
        if letter in asked
    ]
    conclusion = conclude(comparison, select_facts(comparison, question, answers))
    return conclusion.answer if conclusion else ""


@pytest.mark.parametrize(
    ("question", "pairs", "answer"),
    [
        (DIED, [("When did the director of X die?", "1957"), ("When did the director of Y die?", "1950")], B),
        (DIED, [("In what year did X's director pass away?", "1957"), ("What is Y's director's year?", "1950")], B),
        (DIED, [("What are the dates of X's director?", "1901 - 1957"), ("When did Y's director die?", "1950")], B),
        (BORN, [("What is the birth date of X?", "1957"), ("What is Y's birthday?", "1950")], A),
        (BORN, [("What is X's birth year?", "1957"), ("When was Y born and when did Y die?", "1950 to 1990")], A),
        (OLDER, [("When was X founded?", "1957"), ("In which year was Y formed?", "1950")], B),
        (OUT, [("When was X released?", "1957"), ("In what year was the film Y made?", "1950")], B),
        (OUT, [("What is the release date of X?", "1957"), ("What year is Y from?", "1950")], B),
        (MORE, [("How many awards did X win?", "3"), ("What is the number of awards of Y?", "5")], B),
        (SAME, [("Where is X from?", "Peru"), ("What nationality does Y have?", "Chilean")], "no"),
        (SAME, [("Which country is X from?", "Peru"), ("In which country is Y?", "Peru")], "yes"),
        (JOB, [("What does X do?", "singer"), ("What is the profession of Y?", "singer")], "yes"),
        (BOTH, [("Is X French?", "Yes"), ("Is Y French?", "No")], "no"),
    ],
)
def test_sub_questions_for_the_compared_fact_decide(question: str, pairs: list[tuple[str, str]], answer: str) -> None:
    assert concluded(question, *pairs) == answer


@pytest.mark.parametrize(
    ("question", "pairs"),
    [
        (DIED, [("When was X released?", "1957"), ("When was Y released?", "1950")]),
        (DIED, [("When was the director of X born?", "1957"), ("When was the director of Y born?", "1950")]),
        (BORN, [("When did X die?", "1990"), ("When was Y born?", "1950")]),
        (BORN, [("When was X founded?", "1990"), ("When was Y founded?", "1950")]),
        (f"Who is older, {A} or {B}?", [("When was X released?", "1990"), ("When was Y born?", "1950")]),
        (OLDER, [("When was X founded?", "1990"), ("When was the founder of Y born?", "1950")]),
        (OLDER, [("When was X disbanded?", "1990"), ("When was Y disbanded?", "1950")]),
        (OUT, [("When was the director of X born?", "1957"), ("When was the director of Y born?", "1950")]),
        (OLDER, [("When was X founded?", "It closed in 1990"), ("When was Y founded?", "1950")]),
        (OUT, [("When was X released?", "Its director died in 1957"), ("When was Y released?", "1950")]),
        (OUT, [("Who directed X?", "A man of 1957"), ("Who directed Y?", "A man of 1950")]),
        (OUT, [("How many copies of X were sold?", "1957"), ("How many copies of Y were sold?", "1950")]),
        (f"Which came first, {A} or {B}?", [("When was X released?", "1957"), ("When did Y's maker die?", "1950")]),
        (MORE, [("When did X win awards?", "1957"), ("When did Y win awards?", "1950")]),
        (MORE, [("Who won 3 awards for X?", "3 men"), ("Who won 5 awards for Y?", "5 men")]),
        (SAME, [("Who directed X?", "an American"), ("Who directed Y?", "an Indian")]),
        (JOB, [("Is X a singer?", "Yes"), ("Is Y a painter?", "Yes")]),
        (BOTH, [("Who is X?", "No one"), ("Is Y French?", "Yes")]),
    ],
)
def test_sub_questions_for_other_facts_do_not_decide(question: str, pairs: list[tuple[str, str]]) -> None:
    assert concluded(question, *pairs) == ""


@pytest.mark.parametrize(
    "more",
    [
        ("How many awards did X win?", "3"),
        ("Who directed X?", "Ann Lee, born 1900"),
        ("What is X?", "a film"),
        ("When was the director of X born?", "1900"),
    ],
)
def test_the_last_sub_question_with_a_fact_of_the_kind_counts(more: tuple[str, str]) -> None:
    pairs = [("When was X released?", "1949"), ("When was Y released?", "1950")]
    assert concluded(OUT, *pairs, more) == concluded(OUT, more, *pairs) == A
    assert concluded(OUT, *pairs, more, ("In which year did X come out?", "1957")) == B


def test_a_word_in_a_name_is_no_event() -> None:
    question = "Which film came out first, Dead and buried in June or The day he died?"
    comparison = detect_comparison(question)
    assert comparison is not None
    answers = [
        (name, f"When was {name} released?", year)
        for name, year in zip(comparison.operands, ("1950", "1940"), strict=True)
    ]
    assert set(select_facts(comparison, question, answers)) == set(comparison.operands)


@given(st.text(max_size=60), st.text(max_size=30))
def test_any_questions_and_answers_are_handled(asked: str, answer: str) -> None:
    comparison = detect_comparison(OUT)
    assert comparison is not None
    assert set(select_facts(comparison, OUT, [(A, asked, answer)]).values()) <= {answer}
