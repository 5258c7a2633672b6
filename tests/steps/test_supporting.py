"""What evidence holds of an answer: words that say nothing by themselves need more beside them."""

from __future__ import annotations

import pytest

from hoptree.core.values import Passage
from hoptree.graph.facts import Fact, Term
from hoptree.methods.steps.evidence_box import EvidenceBox
from hoptree.text.grounding import find_quote, holding, supports_answer

BOX = EvidenceBox(
    (
        Passage("s", "Westside School", "Westside School is in Tigard, Oregon, United States."),
        Passage("k", "Elia Kazan", "Elia Kazan was a director, born in 1909."),
        Passage("m", "Molly Day", "Molly Day was the wife of Elia Kazan."),
    ),
    (Fact(Term("", "Elia Kazan"), Term("", "award"), Term("", "Tony Award")),),
)
AWARD = "Elia Kazan | award | Tony Award"


@pytest.mark.parametrize(
    ("answer", "question", "held"),
    [
        ("Yes", "Is Westside School located in Oregon?", ("s",)),
        ("Yes", "Is Westside School located in Canada?", ()),
        ("No", "Is Westside School located in Canada?", ()),
        ("Elia Kazan", "Who was the spouse of Elia Kazan?", ()),
        ("Molly Day", "Who was the spouse of Elia Kazan?", ("m",)),
        ("Elia Kazan", "Was Molly Day the wife of Elia Kazan?", ("m",)),
        ("1909", "When was Elia Kazan born?", ("k",)),
        ("Yes", "Was Elia Kazan born in 1909?", ("k",)),
        ("Yes", "Was Elia Kazan born in 1920?", ()),
        ("No", "Was Elia Kazan born in 1920?", ()),
        ("Yes", "Is Elia Kazan dead?", ()),
        ("No", "Was Elia Kazan a composer?", ()),
        ("Kazan", "Who was the father of Elia Kazan?", ()),
        ("director", "Who was the director Elia Kazan?", ()),
        ("Yes", "Did Elia Kazan win a Tony Award?", (AWARD,)),
    ],
)
def test_what_adds_nothing_to_its_question_needs_all_of_its_names(
    answer: str, question: str, held: tuple[str, ...]
) -> None:
    assert BOX.supporting(answer, question) == held


@pytest.mark.parametrize("answer", ["Elia Kazan", "Molly Day"])
def test_what_is_chosen_stands_there_whatever_is_right(answer: str) -> None:
    assert BOX.supporting(answer, "Who was born first, Elia Kazan or Molly Day?") == ()


@pytest.mark.parametrize(
    ("written", "answer", "held"),
    [
        ("1909", "7 September 1909", False),
        ("September 1909", "7 September 1909", False),
        ("the 20th century", "1909", False),
        ("September 7, 1909", "7 September 1909", True),
        ("7 September 1909", "September 1909", True),
        ("1909-09-07", "1909", True),
    ],
)
def test_a_date_may_be_written_more_exactly_but_not_less(written: str, answer: str, held: bool) -> None:
    box = EvidenceBox((Passage("k", "Elia Kazan", f"Elia Kazan was born in {written}."),))
    assert bool(box.supporting(answer, "When was Elia Kazan born?")) is held


@pytest.mark.parametrize(("written", "answer"), [("260,341", "260341"), ("1200", "1,200"), ("1,200", "1,200")])
def test_thousands_may_be_parted_or_not(written: str, answer: str) -> None:
    box = EvidenceBox((Passage("g", "Ghent", f"Ghent has {written} people."),))
    assert box.supporting(answer, "How many people live in Ghent?") == ("g",)


@pytest.mark.parametrize(
    ("question", "answer", "held"),
    [
        ("when was elia kazan born?", "1909", ("k",)),
        ("what award did elia kazan win?", "Tony Award", (AWARD,)),
        ("where is the westside school?", "Tigard", ("s",)),
        ("who is the author of this book?", "Elia Kazan", ()),
        ("who was it in 1909?", "Elia Kazan", ()),
    ],
)
def test_a_question_without_names_is_about_what_its_words_call(
    question: str, answer: str, held: tuple[str, ...]
) -> None:
    assert BOX.supporting(answer, question) == held


def test_a_name_with_a_year_in_it_is_a_name() -> None:
    box = EvidenceBox((Passage("l", "Mark Lester", "Mark Lester directed Class of 1984."),))
    assert box.supporting("Mark Lester", "Who directed Class of 1984?") == ("l",)


def test_what_a_title_has_in_brackets_is_not_looked_for() -> None:
    box = EvidenceBox((Passage("k", "Elia Kazan (director)", "He was born in 1909."),))
    assert box.supporting("1909", "when was elia kazan born?") == ("k",)


@pytest.mark.parametrize(
    ("answer", "text", "held"),
    [
        ("A", "The codes of ISO 3166-1 A2 have a length of two.", False),
        ("A", "A film of 1973. The A-2 code, in section A.4 of A Study in Scarlet.", False),
        ("A", "She was given an A in mathematics.", True),
        ("A", "The grade was “A”.", True),
        ("B", "The codes B-4, B/3, 4.B, B 12 and B2 differ.", False),
        ("B", "It is rich in vitamin B.", True),
        ("C++", "Git is written in C.", False),
        ("C#", "It was written in C++.", False),
        ("C++", "It was written in C++.", True),
        ("b", "Choose (B) for the second.", True),
        ("C", "It was written in C++ and C#.", False),
        ("C", "It was written in C, and compiled.", True),
        ("C++", "It was written in C++ and C#.", True),
        ("C++", "It was written in C++ 17.", True),
        ("C++", "It was written in C, and compiled.", False),
        ("C#", "It was written in C# (and F#).", True),
        ("水", "他画水。", True),
    ],
)
def test_a_letter_of_a_code_or_an_article_is_no_answer(answer: str, text: str, *, held: bool) -> None:
    passages = [Passage("p", "Codes", text)]
    assert supports_answer(answer, passages) is held
    assert holding(answer, "", passages) == ({"p"} if held else set())
    assert (find_quote(answer, "Which one?", passages) is not None) is held
