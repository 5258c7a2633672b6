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
        "Yes, I do.",
        "Yes, I am familiar with this topic.",
        "Yes, it is possible to answer this using my own knowledge.",
        "Yes, this question can be answered from my own knowledge.",
        "Yes, sure.",
        "Yes, of course!",
        "Yes, I think so.",
        "Yes, I believe so",
        "Yes, based on my own knowledge, I can answer this.",
        "Yes, but I need additional knowledge",
        "Yes, I need no further knowledge.",
        "Yes, I know that film.",
        "Yes, I know who directed it.",
        "Yes. I'm not sure.",
        "Yes.\nQuestion: Who is X?",
        "Yes.\n\nQuestion: Who is X?\nAnswer: Bob",
        "Yes, I remember that.",
        "Yes, that is correct.",
        "Yes. Yes.",
        "Yes, no.",
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
        "Yes/No",
        "yes / no",
        "Yes or no: Paris",
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
        ("Yes, based on my knowledge, it was released in 1986.", "it was released in 1986"),
        ("Yes, I know that it was Wojciech Has", "it was Wojciech Has"),
        ("Yes, I know that Wojciech Has directed it.", "Wojciech Has directed it"),
        ("Yes, I know that Żuławski directed it.", "Żuławski directed it"),
        ("Yes, I think it was Paris.", "it was Paris"),
        ("Yes, I know the answer is Paris.", "Paris"),
        ("Yes, I can answer this from memory, it is Paris.", "it is Paris"),
        ("Yes, sure. Paris", "Paris"),
        ("Yes, that is known as resonance.", "that is known as resonance"),
        ("Yes, I do. It is Paris.", "It is Paris"),
        ("Yes, I Am Legend.", "I Am Legend"),
        ("Yes, Sure Thing", "Sure Thing"),
        ('"Yes." Paris', "Paris"),
        ('Yes. "Paris"', "Paris"),
        ("**Yes**, Paris", "Paris"),
        ("Yes, but the answer is Paris.", "Paris"),
    ],
)
def test_an_answer_in_the_same_breath_is_kept(reply: str, answer: str) -> None:
    assert read_knowing(reply) == Knowing(True, answer)


def test_an_answer_of_several_lines_is_kept_whole() -> None:
    assert read_knowing("Yes. It is resonance.\n\nWine glasses have 370 Hz.").answer.endswith("370 Hz")


def test_a_yes_that_is_taken_back_holds_no_answer() -> None:
    assert read_knowing("Yes. The answer is not available to me.") == Knowing(True)


POLISH = "Are Wojciech Has and Roman Polanski both Polish?"


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Yes, they are both Polish.", "Yes, they are both Polish"),
        ("Yes. They are both Polish.", "Yes. They are both Polish"),
        ("Yes. The answer is no.", "no"),
        ("Yes. No, they are not.", "No, they are not"),
        ("Yes, yes.", "yes"),
        ("know: yes", "yes"),
        ("Yes, I do.", ""),
        ("Yes", ""),
        # it may be a yes to "do you know?" alone: asked again
        ("Yes, they are not both Polish.", ""),
        ("Yes. They aren't.", ""),
        ("Yes. Only one of them is.", ""),
        ("known: they are both Polish", ""),
    ],
)
def test_where_yes_or_no_is_asked_for_the_yes_is_kept(reply: str, answer: str) -> None:
    assert read_knowing(reply, POLISH) == Knowing(True, answer)


def test_where_something_else_is_asked_for_the_yes_is_no_part_of_the_answer() -> None:
    assert read_knowing("Yes, it is Paris.", "Which city is it?").answer == "it is Paris"
    assert read_knowing("Yes, it is Paris.", "Isle of Man's capital is which?").answer == "it is Paris"


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
        "Relevant. No further explanation needed",
        "Relevant, no other words",
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
        "It is of little relevance",
        "Relevance: very low",
        "of limited relevance",
        "barely relevant",
        "Relevant. No.",
        "Relevance: no, it is about swimming",
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
        ("[1]: not relevant [2]: relevant", (2,)),
        ("[1]: relevant [2]: not relevant [3]: relevant", (1, 3)),
        ("[1] (relevant), [2] (irrelevant), [3] (relevant)", (1, 3)),
        ("[1] and [2] are relevant, [3] is not relevant.", (1, 2)),
        ("[1] is not relevant: it is about swimming. [2] is relevant.", (2,)),
        ("There is no relevant paragraph among [1] to [5]", ()),
        ("Neither [1] nor [2] is relevant.\n[3] is relevant.", (3,)),
        ("[1] isn't relevant, [2] is.", (2,)),
        ("[1][3] Not relevant: [2]", (1, 3)),
        ("[1][3], not relevant:\n[2]", (1, 3)),
        ("Relevant: [1] is relevant, [2] is not relevant", (1,)),
        ("Relevant: [4], not relevant [1]", (4,)),
        ("[1] and [3] are relevant, while [2], [4] and [5] are not.", (1, 3)),
        ("[1] is relevant and [2] is not", (1,)),
        ("[1]: yes\n[2]: no\n[3]: yes", (1, 3)),
        ("[1] yes, [2] no, [3] yes", (1, 3)),
        ("[1] Nothing Compares 2 U\n[2] No Country for Old Men", (1, 2)),
        ("Nothing is relevant in [1], [2]", ()),
        ("Paragraphs 1 and 3 are relevant to the question.", (1, 3)),
        ("Paragraph 1 and 3 are relevant.", (1, 3)),
        ("Paragraph 1 is relevant", (1,)),
        ("Paragraphs 1 and 3 are not relevant.", ()),
        ("There is no relevant paragraph among 1", ()),
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
    said = "1. Who directed Whiplash? 2. Where was he born? 3) In 1985?"
    assert read_questions(said) == ("Who directed Whiplash?", "Where was he born?", "In 1985?")


@pytest.mark.parametrize("asked", ["C. S. Lewis wrote which book?", "I. M. Pei was born where?", "Is a) an answer?"])
def test_initials_are_no_marks(asked: str) -> None:
    assert read_questions(asked) == (asked,)


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
