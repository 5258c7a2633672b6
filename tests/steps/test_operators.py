"""What has to be done with facts, by a question's own words; whether an answer is of the kind that was asked for."""

from __future__ import annotations

import pytest

from hoptree.steps.answering.spans import quoted
from hoptree.steps.planning.operators import Operator, operator_of
from hoptree.steps.reading.answer_kinds import fits_kind
from hoptree.values import Passage


@pytest.mark.parametrize(
    ("question", "operator"),
    [
        ("Which film has the director who was born earlier, Whiplash or Vertigo?", "compare"),
        ("Do Whiplash and Vertigo have the same director?", "compare"),
        ("Were Damien Chazelle and Alfred Hitchcock both directors?", "both"),
        ("How many films did Alfred Hitchcock direct?", "count"),
        ("Was Alfred Hitchcock knighted?", "yes_no"),
        ("Which actors starred in Vertigo and studied at Princeton University?", "intersect"),
        ("Where was the director of Whiplash born?", "chain"),
        ("Where was Whiplash made?", "lookup"),
        ("What is the name of the town?", "lookup"),
        ("", "lookup"),
    ],
)
def test_the_operator_of_a_question(question: str, operator: Operator) -> None:
    assert operator_of(question) == operator


@pytest.mark.parametrize(
    ("question", "answer", "fits"),
    [
        ("When did he die?", "3 May 1999", True),
        ("When did he die?", "London", False),
        ("How long is it?", "6,650 km", True),
        ("How long is it?", "very", False),
        ("Is it so?", "No.", True),
        ("Is it so?", "1999", False),
        ("Who wrote it?", "Mary Shelley", True),
        ("Who wrote it?", "yes", False),
        ("Who wrote it?", "1818", False),
        ("Where is it?", "Route 66", True),
        ("What is it?", "anything", None),
    ],
)
def test_whether_an_answer_is_of_the_kind(question: str, answer: str, fits: bool | None) -> None:
    assert fits_kind(question, answer) is fits


PAGES = (
    Passage("a", "Whiplash", "Whiplash is a film. It was directed by Damien Chazelle. Damien Chazelle was young."),
    Passage("b", "Damien Chazelle", "Damien Chazelle was born in Providence."),
)


def test_the_sentence_with_most_words_of_the_question_is_quoted() -> None:
    span = quoted("Damien Chazelle", "Who directed the film Whiplash?", PAGES)
    assert span and (span.passage, span.text) == ("a", "It was directed by Damien Chazelle.")
    assert quoted("damien chazelle.", "Who was born in Providence?", PAGES) == quoted(
        "Damien Chazelle", "born?", PAGES[1:]
    )
    for nothing in ("", "yes", "No", "Paris", "Damien"[:3]):
        assert quoted(nothing, "Who directed the film Whiplash?", PAGES) is None
    assert quoted("Damien", "Who?", ()) is None
