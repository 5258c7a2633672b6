"""What a text that was written step by step concludes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cpu_limit import cpu_limit

from hoptree.text.parse import gives_answer, led_to_answer, read_conclusion

READS = "Can a cat read a newspaper?"


@pytest.mark.parametrize(
    ("text", "question", "answer"),
    [
        ("So the answer is: yes, because cats cannot read.", READS, "yes"),
        ("So the answer is no, since it is a cat.", READS, "no"),
        ("So the answer is: No; it is a cat.", READS, "No"),
        ("So the answer is: No - it is a cat.", READS, "No"),
        ("So the answer is: no because it is a cat.", "would it?", "no"),
        ("So the answer is: Yes, both are.", "Are both of them French?", "Yes"),
        ("So the answer is: no they are not.", "Is Rome in France?", "no"),
        ("So the answer is: yes.", READS, "yes"),
        ("So the answer is: No, No, Nanette.", "Which musical had he staged?", "No, No, Nanette"),
        ("So the answer is: No Country for Old Men.", "Did he direct Fargo or No Country for Old Men?", None),
        ("So the answer is: Yes, Minister.", "", "Yes, Minister"),
        ("So the answer is: Norway, since it is larger.", "Is Norway larger or Spain?", "Norway, since it is larger"),
    ],
)
def test_a_yes_or_no_is_all_of_an_answer_to_a_question_that_asks_for_it(
    text: str, question: str, answer: str | None
) -> None:
    assert read_conclusion(text, question).text == (answer or "No Country for Old Men")


@pytest.mark.parametrize(
    "reply",
    [
        "not clear",
        "not clear from this",
        "unknown",
        "unclear",
        "not stated",
        "**not** stated",
        "still not known",
        "Unknown",
        "Unclear, as nothing is said",
    ],
)
def test_to_say_that_there_is_no_answer_gives_none(reply: str) -> None:
    text = f"The father is Jean. The answer is {reply}."
    assert not gives_answer(text) and not read_conclusion(text).known
    assert led_to_answer(text) == f"{text} So the answer is"
    both = f"{text} So the answer is: Jean."
    assert gives_answer(both) and read_conclusion(both).text == "Jean"
    assert led_to_answer(both) == f"{text} So the answer is"
    assert read_conclusion(f"So the answer is: Jean. {text}").text == "Jean"


@pytest.mark.parametrize("reply", ["Not Fade Away", "Unknown Pleasures", "no", "none", "Nottingham", "Unclear Skies"])
def test_what_only_looks_like_no_answer_is_one(reply: str) -> None:
    assert read_conclusion(f"So the answer is: {reply}.").text == reply


@pytest.mark.parametrize(
    "text",
    [
        "So the answer is **Paris**.",
        "So the answer is: **Paris.**",
        "**So the answer is:** Paris.",
        "**So the answer is: Paris.**",
        "So the answer is: *Paris*.",
        "So the answer is {Paris}.",
        "So the answer is: {Paris.}",
        "So the answer is: **{Paris}**.",
        'So the answer is: "Paris".',
    ],
)
def test_marks_are_no_part_of_an_answer(text: str) -> None:
    assert read_conclusion(text).text == "Paris"


@pytest.mark.parametrize("reply", ["Q*bert", "$5 million", "J. R. R. Tolkien"])
def test_marks_inside_stay(reply: str) -> None:
    assert read_conclusion(f"So the answer is: {reply}.").text == reply


@pytest.mark.parametrize("filling", [":", "*", "answer is ", " so", "the answer is: "])
def test_long_texts_are_read_in_time(filling: str) -> None:
    with cpu_limit():
        read_conclusion(f"The answer is {filling * 5_000}")


@given(st.text(max_size=40), st.text(max_size=40), st.sampled_from(["", READS]))
def test_any_text_is_read(before: str, behind: str, question: str) -> None:
    conclusion = read_conclusion(f"{before} the answer is {behind}", question)
    assert conclusion.known == bool(conclusion.text)


@pytest.mark.parametrize("text", [r"\boxed{Paris}", r"$\boxed{\text{Paris}}$.", "{Paris}"])
def test_boxes_around_an_answer_are_left_out(text: str) -> None:
    assert read_conclusion(f"It lies in France. So the answer is: {text}").text == "Paris"
