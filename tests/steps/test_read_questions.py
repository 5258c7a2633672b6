"""Reading the sub-questions of a reply, in every form a model lists them in."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.text.parse import question_key, read_questions

TEXT = st.text(max_size=300)
FIRST, SECOND = "Who directed Polish-Russian War?", "Who is the mother of that director?"


@pytest.mark.parametrize(
    "reply",
    [
        f"1. {FIRST}\n2. {SECOND}",
        f"1) {FIRST}\n2) {SECOND}",
        f"1. **{FIRST}**\n2. **{SECOND}**",
        f"**1. {FIRST}**\n**2. {SECOND}**",
        f"- {FIRST}\n- {SECOND}",
        f"* 1. {FIRST}\n* 2. {SECOND}",
        f"Q1: {FIRST}\nQ2: {SECOND}",
        f"Step 1: {FIRST}\nStep 2: {SECOND}",
        f"a) {FIRST}\nb) {SECOND}",
        f"(a) {FIRST} (b) {SECOND}",
        f"A. {FIRST}\nB. {SECOND}",
        f"I. {FIRST}\nII. {SECOND}",
        f"1. {FIRST} A: Bob\n2. {SECOND}",
        f"1. {FIRST} Answer: Bob\n2. {SECOND} (Answer: [1])",
        f"1. {FIRST}\n**Answer:** Bob\n2. {SECOND}",
        f"{FIRST} Answer: Bob\n{SECOND}",
        json.dumps([f"{FIRST} Answer: Bob", SECOND]),
        f"Sub-question 1: {FIRST}\nSub-question 2: {SECOND}",
        f"{FIRST}\n{SECOND}",
        f"{FIRST} {SECOND}",
        f'1. "{FIRST}"\n\n2. "{SECOND}"\n',
        f'Certainly, here is "Who is her mother?" in parts:\n1. {FIRST}\n2. {SECOND}',
        f"1. {FIRST}\n2. {SECOND}\n3. Combine the two.\n4. {FIRST.upper()}",
        json.dumps({"query": [FIRST, SECOND]}),
        json.dumps([FIRST, SECOND]),
        json.dumps({"query1": {"question": FIRST}, "query2": {"question": SECOND}}),
        f'```json\n{{"query": ["{FIRST}", "{SECOND}"]}}\n```',
    ],
)
def test_sub_questions_are_found_in_every_form(reply: str) -> None:
    assert read_questions(reply)[:2] == (FIRST, SECOND)
    assert len(read_questions(reply)) == 2


@pytest.mark.parametrize(
    "reply", ["", "No.", "I cannot split this.", "1. Step one\n2. Step two", "{}", '{"query": []}', "[1]"]
)
def test_where_there_is_no_question_none_is_found(reply: str) -> None:
    assert read_questions(reply) == ()


def test_a_question_without_its_mark_is_one_by_its_first_word() -> None:
    assert read_questions("1. In which city was she born\n2. Find out more") == ("In which city was she born",)


def test_a_numbered_list_on_one_line_is_a_list() -> None:
    reply = "1. Who directed Whiplash? 2. Where was he born? 3) In 1985?"
    assert read_questions(reply) == ("Who directed Whiplash?", "Where was he born?", "In 1985?")


@pytest.mark.parametrize("asked", ["C. S. Lewis wrote which book?", "I. M. Pei was born where?", "Is a) an answer?"])
def test_initials_are_no_marks(asked: str) -> None:
    assert read_questions(asked) == (asked,)


@given(TEXT)
def test_any_list_of_questions_can_be_read(text: str) -> None:
    questions = read_questions(text)
    keys = [question_key(question) for question in questions]
    assert len(set(keys)) == len(keys) and all(keys)
    assert all("\n" not in question for question in questions)


WORDS = st.lists(st.text(alphabet="abcdefghijk", min_size=1, max_size=6), min_size=1, max_size=6).map(" ".join)


@given(st.lists(WORDS, min_size=1, max_size=6, unique=True))
def test_numbering_is_taken_off_and_nothing_else(asked: list[str]) -> None:
    questions = [f"Who {words}?" for words in asked]
    listed = "\n".join(f"{n}. {question}" for n, question in enumerate(questions, 1))
    assert read_questions(f"Here they are:\n{listed}") == tuple(questions)


@given(WORDS, st.sampled_from(["?", " ?", "", ".", "??"]), st.sampled_from([str.upper, str.title, str.lower]))
def test_two_spellings_of_a_question_have_one_key(words: str, mark: str, spelled: object) -> None:
    assert callable(spelled)
    assert question_key(f"  {spelled(words)}{mark}") == question_key(words)
