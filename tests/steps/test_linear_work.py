"""What is held against each other, such as names and passages: work grows with the sum of both, not their product."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from hoptree.core.values import Answer, Passage, Token
from hoptree.engine.calls import _cut
from hoptree.methods.hop.lists import _stated
from hoptree.methods.steps.fact_extraction import ground_triples, object_confidences
from hoptree.models.model import Choice
from hoptree.text.answer_fit import names_thing
from hoptree.text.comparison import conclude
from hoptree.text.comparison_questions import Comparison
from hoptree.text.grounding import grounded, holding, share_of_names
from hoptree.text.tokens import token_spans

SIZES = (400, 1_600)
MOST = 8
"""Times the lines that four times the input may take: 4 if they grow with it, 16 if they grow with its square."""


def names(count: int, start: int = 0) -> list[str]:
    """Different names of four letters."""
    letters = "abcdefghij"
    numbers = (f"{number:04}" for number in range(start, start + count))
    return ["".join(letters[int(digit)] for digit in number).title() for number in numbers]


def lines(work: Callable[[], object]) -> int:
    """Lines of Python that are executed."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def tokens_beside_a_text(size: int) -> object:
    """One token, and a text that differs from it at every twelfth character."""
    return token_spans("#".join(["abcdefghijkl"] * (size // 12)), ["abcdefghijkl" * (size // 12)])


def list_beside_passages(size: int) -> object:
    listed = names(size)
    reply = "\n".join(", ".join(listed[at : at + 40]) for at in range(0, size, 40))
    return _stated(reply, [Passage("p", "", " ".join(listed))])


def spellings_beside_names(size: int) -> object:
    question = " and ".join(names(size))
    spelled = " ".join(f"{day} May{' ' * spaces}1950" for spaces in range(1, size // 20) for day in range(1, 29))
    return holding("May 1950", question, [Passage("p", "", spelled)])


def forms_beside_passages(size: int) -> object:
    text = " ".join(f"It is {number} metres deep in Polish waters on {number % 28 + 1} May." for number in range(size))
    return [holding(answer, "", [Passage("p", "", text)]) for answer in ("7 m", "seven", "May 5", "Poland")]


def lower_case_beside_passages(size: int) -> object:
    question = " ".join(names(size)).lower()
    return [names_thing(question, Passage("p", "", text)) for text in names(size, start=5_000)]


def names_beside_passages(size: int) -> object:
    question = " and ".join(names(size))
    return [share_of_names(question, text) for text in names(size, start=5_000)]


def lists_compared(size: int) -> object:
    first, second = (", ".join(names(size, start)) for start in (0, 5_000))
    return conclude(Comparison("same", ("A", "B"), "same", "name"), {"A": first, "B": second})


def facts_beside_tokens(size: int) -> object:
    text = "a|b|c\n" * size
    return object_confidences(text, [Token(sign, -0.1) for sign in text], [("a", "b", "c")] * (size // 8), default=0.5)


WORK = (
    tokens_beside_a_text,
    list_beside_passages,
    spellings_beside_names,
    forms_beside_passages,
    lower_case_beside_passages,
    names_beside_passages,
    lists_compared,
    facts_beside_tokens,
)


@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__)
def test_work_does_not_grow_with_a_product(work: Callable[[int], object]) -> None:
    work(40)  # what is loaded or compiled once is not counted
    few, many = (lines(lambda size=size: work(size)) for size in SIZES)  # type: ignore[misc]
    assert many <= MOST * few, (few, many)


def test_tokens_are_cut_with_the_text_of_a_reply() -> None:
    """An endpoint may write all of a long reply as one token."""
    tokens = tuple(Token("abc" * size, -0.1) for size in (1, 2, 3, 4))
    assert _cut(Choice("abc" * 10, tokens=tokens), 20) == Choice(("abc" * 10)[:20], finish="length", tokens=tokens[:3])
    assert _cut(Choice("abc", tokens=(Token("abc" * 100, -0.1),)), 20) == Choice("abc", finish="length")


def test_a_passage_is_split_into_words_once_for_all_answers_and_facts() -> None:
    text = " ".join(names(2_000))
    passages = [Passage("p", "", text)]
    first = lines(lambda: grounded(Answer("Aaab"), "", passages))
    again = lines(lambda: [grounded(Answer(name), "", passages) for name in ("Aaac", "Aaad", "Aaae", "Aaaf")])
    assert again < first
    first_fact = lines(lambda: ground_triples([("Aaab", "is", "Aaac")], "T", text))
    more = lines(lambda: [ground_triples([("Aaab", "is", name)], "T", text) for name in ("Aaad", "Aaae", "Aaaf")])
    assert more < 2 * first_fact
