"""Drafts: parts of a reply with their tokens, cut and put together."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.core.errors import ConfigError
from hoptree.core.values import Token
from hoptree.methods.steps.chain_of_thought import (
    Draft,
    WorkedExample,
    adds_text,
    draw_examples,
    draw_examples_with_documents,
    load_worked_examples,
    read_draft,
)
from hoptree.models.model import Choice
from hoptree.text.parse import led_to_answer, read_conclusion


def tokens(text: str) -> tuple[Token, ...]:
    return tuple(Token(word, -0.1) for word in re.findall(r"\s*\S+", text))


def draft(text: str) -> Draft:
    return Draft(text, tokens(text), size=len(text.split()))


def test_a_part_has_its_own_tokens() -> None:
    first = draft("His father is Jean. He died.").first_sentence()
    assert first.text == "His father is Jean." and [token.text for token in first.tokens] == [
        "His",
        " father",
        " is",
        " Jean.",
    ]
    assert not first.ended and 0 < first.size <= 6


def test_parts_are_put_together_with_a_space() -> None:
    joined = draft("One.").followed_by(draft("Two."))
    assert (joined.text, len(joined.tokens), joined.size) == ("One. Two.", 2, 2)
    assert Draft().followed_by(draft("Two.")).text == "Two." and draft("One.").followed_by(Draft()).text == "One."


@pytest.mark.parametrize(
    ("text", "kept", "cut"),
    [
        ("Jean was a duke. He di", "Jean was a duke.", False),
        ("Jean was a duke. He died.", "Jean was a duke. He died.", False),
        ("Jean was a du", "Jean was a", True),
        ("Jea", "Jea", True),
        ("", "", True),
    ],
)
def test_what_was_cut_off_goes_back_to_a_whole_sentence_or_word(text: str, kept: str, cut: bool) -> None:
    read = read_draft(Choice(text, finish="length", tokens=tokens(text)), "", 9)
    assert (read.text, read.cut, read.ended) == (kept, cut, False)


def test_what_a_model_says_again_is_left_out() -> None:
    assert read_draft(Choice("Jean was a duke. He died."), "Jean was a duke.", 9).text == "He died."


def test_white_space_and_marks_of_turns_are_no_part_of_a_text() -> None:
    assert read_draft(Choice("Jean\n\nwas <|im_end|> here."), "", 9).text == "Jean was < |im_end| > here."


@given(st.text(max_size=120), st.sampled_from(["stop", "length"]))
def test_any_reply_is_read(text: str, finish: str) -> None:
    read = read_draft(Choice(text, finish=finish, tokens=tokens(text)), "", 9)  # type: ignore[arg-type]
    assert read.first_sentence().text in read.text and len(read.until(5).text) <= 5


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("It is so. So the answer is: Jean.", "Jean"),
        ("So the answer is J. R. R. Tolkien. He wrote it.", "J. R. R. Tolkien"),
        ("The answer is no. So the answer is: yes.", "yes"),
        ("So the answer is: unknown.", ""),
        ("So the answer is", ""),
        ("Nothing.", ""),
        ("", ""),
    ],
)
def test_the_answer_is_what_the_text_ends_in(text: str, answer: str) -> None:
    conclusion = read_conclusion(text)
    assert (conclusion.text, conclusion.known) == (answer, bool(answer))


def test_a_text_is_led_to_its_answer() -> None:
    assert led_to_answer("It is so. So the answer is: Jean.") == "It is so. So the answer is"
    assert led_to_answer("It is so.") == "It is so. So the answer is" and led_to_answer("") == "So the answer is"


def test_what_was_said_before_adds_nothing() -> None:
    assert adds_text("New.", "Old.") and not adds_text(" Old.", "Old. Older.") and not adds_text("  ", "Old.")


def test_worked_examples() -> None:
    bank = load_worked_examples()
    assert len(bank) >= 8 and len({example.question for example in bank}) == len(bank)
    assert all(read_conclusion(example.answer).known and example.question.endswith("?") for example in bank)
    assert draw_examples(6) == bank[:6] and draw_examples(0) == ()
    for count in (6, 8):
        first = [draw_examples(count, draw) for draw in range(3)]
        assert len({example.question for drawn in first for example in drawn}) == 3 * count, "three draws share none"
    assert draw_examples(6, 4) == draw_examples(6, 4) != draw_examples(6, 5) and set(draw_examples(6, 4)) != set(
        bank[:6]
    )
    assert draw_examples(len(bank), 1) != draw_examples(len(bank), 2) and set(draw_examples(len(bank), 1)) == set(bank)
    with pytest.raises(ConfigError, match="worked examples"):
        draw_examples(len(bank) + 1)


@pytest.mark.parametrize("example", load_worked_examples(), ids=lambda example: example.question)
def test_a_worked_example_says_nothing_that_its_documents_do_not(example: WorkedExample) -> None:
    texts = " ".join(f"{document.title} {document.text}" for document in example.documents)
    named = re.findall(r"[A-ZÀ-Þ]\w+|\d{4}", example.answer.replace("So the answer is", ""))
    unsaid = {word for word in named if word not in texts} - {"Someone", "Men", "The"}
    assert len(example.documents) > 1 and not unsaid
    answer = read_conclusion(example.answer, example.question).text
    assert answer in ("yes", "no") or answer.removeprefix("the ") in texts


def test_documents_of_worked_examples_are_shown_as_those_of_a_question_are() -> None:
    (bare, *_), (named, *_), (nameless, *_) = (
        draw_examples(6, 1),
        draw_examples_with_documents(6, 1, titles=True),
        draw_examples_with_documents(6, 1, titles=False),
    )
    assert bare.context == "" and bare.question == named.question == nameless.question
    first = named.documents[0]
    assert named.context.startswith(f"Context:\n[1] {first.title}: {first.text}\n[2] ")
    assert nameless.context.startswith(f"Context:\n[1] {first.text}\n[2] ")
