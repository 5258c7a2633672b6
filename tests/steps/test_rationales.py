"""The rationales of a chain of thought, however many and however marked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.text.parse import gives_answer
from hoptree.text.parse_method_replies import read_corrected, read_rationales


@pytest.mark.parametrize(
    ("text", "rationales"),
    [
        ("Ada is old. Bob is tall. So the answer is: Cy.", ("Ada is old.", "Bob is tall.")),
        ("First, Ada is old. Second, Bob is tall. The answer is Cy.", ("Ada is old.", "Bob is tall.")),
        (
            "First, Ada is old. It was so in 1990. Second, Bob is tall. Third, Cy is young.",
            ("Ada is old. It was so in 1990.", "Bob is tall.", "Cy is young."),
        ),
        ("Step 1: Ada is old.\nStep 2: Bob is tall.", ("Ada is old.", "Bob is tall.")),
        ("1. Ada is old.\n2. Bob is tall.\nSo the answer is: Cy.", ("Ada is old.", "Bob is tall.")),
        ("First Blood is a film. It is old.", ("First Blood is a film.", "It is old.")),
        ("So the answer is: Cy.", ()),
        ("", ()),
        ("...", ()),
        ("Dr. A met J. B. Lee. So the answer is: yes.", ("Dr. A met J. B. Lee.",)),
    ],
)
def test_rationales_are_told_apart(text: str, rationales: tuple[str, ...]) -> None:
    assert read_rationales(text) == rationales


@given(st.text(max_size=400))
def test_rationales_are_words_of_the_text_and_no_answers(text: str) -> None:
    rationales = read_rationales(text)
    squeezed = "".join(text.split())
    assert all(rationale.strip() and not gives_answer(rationale) for rationale in rationales)
    assert all("".join(sentence.split()) in squeezed for rationale in rationales for sentence in rationale.split(" "))


@pytest.mark.parametrize(
    ("reply", "mended"),
    [
        ("A is D.", ("A is D.", True)),
        ("A is D", ("A is D.", True)),
        ("\n\nEdited sentence: A is D.\nI changed B to D.", ("A is D.", True)),
        ("“A is D.”", ("A is D.", True)),
        ("Unchanged", ("A is B.", True)),
        ("The sentence is correct.", ("A is B.", True)),
        ("The knowledge does not mention A.", ("A is B.", True)),
        ("The film was not found until 1990.", ("The film was not found until 1990.", True)),
        ("", ("A is B.", False)),
        ("---", ("A is B.", False)),
        ("The answer is D.", ("A is B.", False)),
    ],
)
def test_a_mended_rationale_is_read(reply: str, mended: tuple[str, bool]) -> None:
    assert read_corrected(reply, "A is B.") == mended


@pytest.mark.parametrize(
    "reply",
    [
        "and then some more words of no use " * 200,
        "x" * 8_000,
        "A is D. " * 40,
        "It is red. It is big. It is red.",
        " ".join(f"The city number {number} is no city of his." for number in range(20)),
    ],
)
def test_a_reply_that_goes_on_and_on_is_no_rationale(reply: str) -> None:
    assert read_corrected(reply, "A is B.") == ("A is B.", False)
    assert read_corrected(f"A is D.\n{reply}", "A is B.") == ("A is D.", True)


@pytest.mark.parametrize(
    ("reply", "mended"),
    [
        ("A is the", ("A is B.", False)),
        ("A is D. It was so in the", ("A is D.", True)),
        ("A is D.", ("A is D.", True)),
        ("A is D\nI changed the", ("A is D.", True)),
    ],
)
def test_of_a_reply_that_was_cut_off_whole_sentences_count(reply: str, mended: tuple[str, bool]) -> None:
    assert read_corrected(reply, "A is B.", cut=True) == mended


@given(st.text(max_size=400))
def test_what_is_mended_is_one_line_and_gives_no_answer(reply: str) -> None:
    mended, read = read_corrected(reply, "A is B.")
    assert mended and "\n" not in mended and not gives_answer(mended)
    assert read or mended == "A is B."
