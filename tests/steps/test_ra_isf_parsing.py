"""Reading what RA-ISF's sub-models say: knowing, relevance one by one and in lists, sub-questions."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.steps.parse import Knowing, question_key, read_knowing, read_numbers, read_questions, read_relevance

TEXT = st.text(max_size=300)


# Self-knowledge


@pytest.mark.parametrize(
    "reply",
    [
        "Yes",
        "yes.",
        "Yes!",
        "**Yes**",
        "know",
        "Know",
        "known",
        "[know]",
        '"Yes."',
        " \nYes\n",
        "Yes, I know.",
        "Yes, I do know",
        "Yes, I can answer this question from my own knowledge.",
        "Yes. I have that knowledge.",
        "Yes, using my own knowledge",
    ],
)
def test_yes_without_more_is_known_and_no_answer(reply: str) -> None:
    assert read_knowing(reply) == Knowing(True)


@pytest.mark.parametrize(
    "reply",
    [
        "No",
        "no.",
        "No, I would have to look it up.",
        "unknow",
        "Unknown",
        "don't know",
        "Don’t know",
        "",
        "  ",
        "...",
        "42",
        "I know",
        "I am not sure",
        "Knowledge is needed",
        "Yesterday",
        "knows",
        "Not known",
        "The answer is Paris.",
        "y",
        "Unknown. Yes, perhaps",
    ],
)
def test_everything_else_is_not_known(reply: str) -> None:
    assert read_knowing(reply) == Knowing(False)


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Yes. Paris.", "Paris"),
        ("Yes, it was passed on November 6, 1986.", "it was passed on November 6, 1986"),
        ("Yes, the answer is Portugal.", "Portugal"),
        ("Yes\n\nAnswer: Boston College", "Boston College"),
        ("Yes, I can provide an answer based on my current knowledge base.\n\nIt is resonance.", "It is resonance"),
        ("Yes, I know the answer: Paris.", "Paris"),
        ("know: 1986", "1986"),
    ],
)
def test_an_answer_in_the_same_breath_is_kept(reply: str, answer: str) -> None:
    assert read_knowing(reply) == Knowing(True, answer)


def test_an_answer_of_several_lines_is_kept_whole() -> None:
    assert read_knowing("Yes. It is resonance.\n\nWine glasses have 370 Hz.").answer.endswith("370 Hz")


def test_a_yes_that_is_taken_back_holds_no_answer() -> None:
    assert read_knowing("Yes. The answer is not available to me.") == Knowing(True)


@given(TEXT)
def test_any_reply_about_knowing_can_be_read(text: str) -> None:
    knowing = read_knowing(text)
    assert knowing.known or not knowing.answer
    assert not read_knowing(f"No {text}").known
    assert not read_knowing(f"unknow {text}").known
    assert read_knowing(f"Yes. {text}").known


# Relevance, one by one


@pytest.mark.parametrize(
    "reply",
    [
        "relevance",
        "Relevance",
        "relevant",
        "Relevant.",
        "**relevant**",
        "Yes",
        "yes, it is",
        "The passage is relevant.",
        "True",
        "Relevant. It does not give the year, but names the director.",
        "[relevance]",
        "Relevance: yes",
    ],
)
def test_what_is_called_relevant_is_relevant(reply: str) -> None:
    assert read_relevance(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "irrelevance",
        "Irrelevance",
        "irrelevant",
        "IRRELEVANT.",
        "not relevant",
        "Not relevant",
        "It isn't relevant.",
        "No",
        "No, although it is relevant to film",
        "no relevance",
        "The passage is not directly relevant to it.",
        "unrelated",
        "",
        "Relevance: no",
        "Relevance: none",
        "Relevance: irrelevance",
        "relevant? No",
        "maybe",
        "revelant",
        "Paris",
        "0",
        "This has no real relevance",
        "It lacks relevance",
        "is it relevant or irrelevant",
        "Yes, it is irrelevant",
        "yesterday",
        "it isn’t relevant",
        "False",
        "none of it is relevant",
    ],
)
def test_what_is_not_clearly_relevant_is_irrelevant(reply: str) -> None:
    assert not read_relevance(reply)


@given(before=TEXT, after=TEXT, word=st.sampled_from(["irrelevance", "irrelevant", "Irrelevance", "IRRELEVANT"]))
def test_irrelevance_is_never_read_as_relevance(before: str, after: str, word: str) -> None:
    assert not read_relevance(f"{before}{word}{after}")


@given(TEXT)
def test_any_reply_about_relevance_can_be_read(text: str) -> None:
    assert read_relevance(text) in (True, False)
    if "relevan" not in text.casefold():
        assert not read_relevance(f"a {text}")


# Relevance, in lists


@pytest.mark.parametrize(
    ("reply", "numbers"),
    [
        # the paper's own
        ("No.", ()),
        ("No", ()),
        (
            'Relevant paragraphs: [2] Xawery Żuławski is the director of "Polish-Russian War (Wojna polsko-ruska)".',
            (2,),
        ),
        ("The relevant paragraphs are: [1][2][3][4][5].", (1, 2, 3, 4, 5)),
        ("Relevant paragraphs: [1], [3], [4]\n\nNot relevant: [2], [5]", (1, 3, 4)),
        # and others
        ("[1][3]", (1, 3)),
        ("[1, 3]", (1, 3)),
        ("[3], [1], [3]", (3, 1)),
        ("2", (2,)),
        ("1, 3 and 4.", (1, 3, 4)),
        ("Passages 2 and 5", (2, 5)),
        ("[0] [6] [99999]", ()),
        ("[1] and [7]", (1,)),
        ("Not relevant: [1], [2]", ()),
        ("Irrelevant: [1]\nRelevant: [2]", ()),
        ("Relevant: [4]\nIrrelevant passages:\n[1]\n[2]", (4,)),
        ("Relevant: [4]; not relevant: [1]", (4,)),
        ("Relevant: [4], irrelevant: [1], [2]", (4,)),
        ("[1] is relevant.\n[2] is not relevant.\n[3] is relevant.", (1, 3)),
        ("[1] is relevant. [2] is irrelevant. [3] is relevant.", (1, 3)),
        ("None of the passages [1] to [5] is relevant.", ()),
        ("**No**, [1] is about something else.", ()),
        ("The passages are irrelevant.", ()),
        ("The film was made in 1999.", ()),
        ("", ()),
    ],
)
def test_lists_of_relevant_passages(reply: str, numbers: tuple[int, ...]) -> None:
    assert read_numbers(reply, 5) == numbers


NUMBERS = st.lists(st.integers(1, 9), unique=True)


@given(
    relevant=NUMBERS, count=st.integers(0, 9), others=NUMBERS, heading=st.sampled_from(["Not relevant:", "Irrelevant:"])
)
def test_numbers_after_the_heading_of_the_others_do_not_count(
    relevant: list[int], count: int, others: list[int], heading: str
) -> None:
    reply = "Relevant: " + "".join(f"[{n}]" for n in relevant) + f"\n{heading} " + " ".join(f"[{n}]" for n in others)
    assert read_numbers(reply, count) == tuple(n for n in relevant if n <= count)


@given(TEXT, st.integers(0, 9))
def test_any_list_can_be_read(text: str, count: int) -> None:
    found = read_numbers(text, count)
    assert len(set(found)) == len(found) and all(1 <= n <= count for n in found)
    assert read_numbers(f"No. {text}", count) == ()


# Sub-questions

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
    said = "1. Who directed Whiplash? 2. Where was he born? 3) In 1985?"
    assert read_questions(said) == ("Who directed Whiplash?", "Where was he born?", "In 1985?")


@given(TEXT)
def test_any_list_of_questions_can_be_read(text: str) -> None:
    found = read_questions(text)
    keys = [question_key(question) for question in found]
    assert len(set(keys)) == len(keys) and all(keys)
    assert all("\n" not in question for question in found)


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
