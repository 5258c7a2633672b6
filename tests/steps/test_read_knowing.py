"""Reading whether RA-ISF's self-knowledge model says that it knows, and what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.text.parse_dialogue import SelfKnowledge, read_self_knowledge

TEXT = st.text(max_size=300)


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
    assert read_self_knowledge(reply) == SelfKnowledge(True)


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
    assert read_self_knowledge(reply) == SelfKnowledge(False)


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
    assert read_self_knowledge(reply) == SelfKnowledge(True, answer)


def test_an_answer_of_several_lines_is_kept_whole() -> None:
    assert read_self_knowledge("Yes. It is resonance.\n\nWine glasses have 370 Hz.").answer.endswith("370 Hz")


def test_a_yes_that_is_taken_back_holds_no_answer() -> None:
    assert read_self_knowledge("Yes. The answer is not available to me.") == SelfKnowledge(True)


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
    assert read_self_knowledge(reply, POLISH) == SelfKnowledge(True, answer)


def test_where_something_else_is_asked_for_the_yes_is_no_part_of_the_answer() -> None:
    assert read_self_knowledge("Yes, it is Paris.", "Which city is it?").answer == "it is Paris"
    assert read_self_knowledge("Yes, it is Paris.", "Isle of Man's capital is which?").answer == "it is Paris"


@given(TEXT)
def test_any_reply_about_knowing_can_be_read(text: str) -> None:
    knowing = read_self_knowledge(text)
    assert knowing.known or not knowing.answer
    assert not read_self_knowledge(f"No {text}").known
    assert not read_self_knowledge(f"unknow {text}").known
    assert read_self_knowledge(f"Yes. {text}").known
