"""Reading replies: JSON stage by stage, the bare answer, and the rules of what counts as no answer."""

from __future__ import annotations

import json

import pytest

from hoptree.text.parse import clean_answer, find_refusal, looks_unanswered, retrieval_trigger, says_unknown

PLAN = {"query1": {"question": "Who?"}}


# The bare answer


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Paris", "Paris"),
        ("  Paris.  ", "Paris"),
        ("The answer is Paris.", "Paris"),
        ("The answer is: Paris", "Paris"),
        ("Answer: Paris", "Paris"),
        ("The answer: Paris", "Paris"),
        ("So the final answer: Paris.", "Paris"),
        ("First I thought the answer is Rome. But the answer is Paris.", "Paris"),
        ("Because of that,\nthe answer is\nParis", "Paris"),
        ("Paris\nIt lies on the Seine.", "Paris"),
        ('"Paris"', "Paris"),
        ("“Paris.”", "Paris"),
        ('"Paris".', "Paris"),
        ("**Paris**", "Paris"),
        ("The answer is **Paris**.", "Paris"),
        ("So the answer is: Paris.**", "Paris"),
        ("**Paris** (France)", "Paris (France)"),
        ("2**3 ** 4", "2**3 ** 4"),
        ("M*A*S*H", "M*A*S*H"),
        ("`Paris`", "Paris"),
        ("- Paris", "Paris"),
        ("1. Paris\n2. London", "Paris"),
        ("12. May 1950", "12. May 1950"),
        ("1. May 1950", "1. May 1950"),
        ("Washington, D.C.", "Washington, D.C."),
        ("Martin Luther King Jr.", "Martin Luther King Jr."),
        ("Apple Inc.", "Apple Inc."),
        ("Wait...", "Wait..."),
        ("Ocean's Eleven", "Ocean's Eleven"),
        ("'Til Tuesday", "'Til Tuesday"),
        ('"Help!" and "Yesterday"', '"Help!" and "Yesterday"'),
        ("The Answer", "The Answer"),
        ("No", "No"),
        ("", ""),
        (" \n ", ""),
        ('["a", "b", "c"]', "a, b and c"),
        ('["a"]', "a"),
        ("[1, 2]", "1 and 2"),
        (json.dumps([str(number) for number in range(10)]), "0, 1, 2, 3, 4, 5, 6 and 7"),
        ("[unreadable", "[unreadable"),
    ],
)
def test_the_bare_answer_of_a_reply(reply: str, answer: str) -> None:
    assert clean_answer(reply) == answer


# Asking for retrieval


@pytest.mark.parametrize(
    "reply",
    [
        "RAG_REQUIRED",
        "RAG_REQUIRED.",
        "RAG\\_REQUIRED",
        "RAG REQUIRED",
        "rag-required",
        "Rag_Required",
        "RAGREQUIRED",
        "**RAG_REQUIRED**",
        "I am not certain of the year, so: RAG_REQUIRED",
        "Paris, but RAG_REQUIRED",
        "",
        " \n\t",
    ],
)
def test_the_identifier_or_nothing_asks_for_retrieval(reply: str) -> None:
    assert retrieval_trigger(reply) == "hard"


@pytest.mark.parametrize(
    "reply",
    [
        "I don't know",
        "I don’t know.",
        "I do not know the answer.",
        "I'm not sure",
        "I’m not certain about that.",
        "I am not sure.",
        "I am unsure.",
        "I'm unable to answer this.",
        "I cannot answer that question.",
        "Sorry, I can't provide that information.",
        "I am not familiar with this film.",
    ],
)
def test_a_refusal_without_the_identifier_is_a_soft_one(reply: str) -> None:
    assert retrieval_trigger(reply) == "soft"


@pytest.mark.parametrize(
    "reply",
    [
        "Paris",
        "No",
        "I, Robot",
        "I Am Not Your Negro",
        "Don't Know Why",
        "I Am Legend",
        "I'm Not There",
        "Required Reading",
        "Paragraph required",
        "Ragtime",
        "Unsure Start",
        "Hawaii don't have snakes",
    ],
)
def test_an_answer_asks_for_nothing(reply: str) -> None:
    assert retrieval_trigger(reply) == ""


# Saying that the answer is not there


@pytest.mark.parametrize(
    "reply",
    [
        "No",
        "No.",
        "None",
        "none",
        "Nothing Compares 2 U",
        "Not Fade Away",
        "Notting Hill",
        "Unknown Pleasures",
        "Lost and Found",
        "No Country for Old Men",
        "Nowhere to Be Found",
        "The Information",
        "No Answer",
        "Without a Trace",
        "No, the United States",
        "Not the United States of America",
        "Norwegian",
        "He did not. The documents mention Paris",
        "Knot Found in the Rope",
        "Cannot Buy My Soul",
        "Notorious",
        "Provident Financial",
        "Northern Ireland",
        "The Unknown",
        "Nothing Else Matters",
        "None But the Lonely Heart",
        "I Can't Tell You Why",
        "Can't Say",
        "Don't Say a Word",
        "Don't Tell Mom the Babysitter's Dead",
        "I Don't Know How to Love Him",
        "You Don't Know Jack",
        "Not in This House",
        "She did not tell her husband",
        "He could not say no to the documents' owner",
        "Not Known at This Address",
    ],
)
def test_answers_that_only_look_like_none(reply: str) -> None:
    assert find_refusal(reply) == ""
    assert not looks_unanswered(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "  ",
        "unknown",
        "Unknown.",
        "N/A",
        "n/a.",
        "Not found",
        "NOT FOUND.",
        '"Not found"',
        "None given",
        "RAG_REQUIRED",
        "It is RAG\\_REQUIRED here",
        "The answer was not found in the documents.",
        "I could not find it.",
        "The documents do not mention a director.",
        "The passages don't provide this.",
        "The passages don’t provide this.",
        "No information is available.",
        "It does not contain the year.",
        "The year is not specified.",
        "Her birthplace is not stated.",
        "The text does not state it.",
        "It isn't included here.",
        "Nothing there; this is not indicated.",
        "No date is given.",
        "I cannot determine this.",
        "I am unable to answer.",
        "They come without further information.",
        "None of the documents mentions it.",
        "Neither document specifies it.",
        "It is neither listed nor mentioned.",
        "Sorry.\nThe passages do not contain the answer.",
        "The documents do not say.",
        "The documents don't say",
        "The given text does not tell when she died.",
        "The passages do not name the director.",
        "No document says so.",
        "None of the passages tells it.",
        "Nothing in the documents says where.",
        "I cannot tell",
        "I can't tell.",
        "I can't say from the text.",
        "I could not tell from these.",
        "Cannot tell.",
        "can't say",
        "I do not know.",
        "I don't know",
        "I am not sure.",
        "not in the documents",
        "Not in the documents.",
        "It is not in the passages.",
        "This isn't in any of the documents.",
        "not mentioned",
        "not stated",
        "Not given.",
        "Not known.",
        "It is not known.",
        "The text is silent on this: it does not reveal her birthplace.",
    ],
)
def test_replies_that_say_it_is_not_there(reply: str) -> None:
    assert find_refusal(reply)
    assert looks_unanswered(reply)


def test_the_words_that_gave_it_away_are_told() -> None:
    assert find_refusal("The director is not mentioned here.") == "not … mentioned"
    assert find_refusal("") == "empty"
    assert find_refusal("so RAG REQUIRED now") == "RAG REQUIRED"


@pytest.mark.parametrize("reply", ["Unknown", "N/A", "Not sure.", "Sorry, no idea.", "Unsure", "Don't know"])
def test_a_bare_refusal_asks_for_retrieval(reply: str) -> None:
    assert retrieval_trigger(reply) == "soft"


@pytest.mark.parametrize(
    "reply",
    [
        "I'm sorry, but I can't assist with that request.",
        "I’m sorry, I cannot help.",
        "Sorry, but I am not able to do that.",
        "I can't help you with this question.",
        "I am unable to answer.",
    ],
)
def test_who_declines_has_not_answered(reply: str) -> None:
    assert looks_unanswered(reply)


@pytest.mark.parametrize("title", ["I'm Sorry", "I Can't Help Myself", "Can't Help Falling in Love"])
def test_songs_are_no_refusals(title: str) -> None:
    assert not looks_unanswered(title)


@pytest.mark.parametrize(
    "text",
    [
        "I don't know",
        "I do not know who directed it.",
        "Not sure",
        "not known",
        "unknown (not in evidence)",
        "Unknown, as the texts do not say",
        "The answer is unknown based on info available",
        "to be determined",
        "N/A",
        "not available in the provided information",
        "The information provided does not mention the director",
        "It cannot be determined from the evidence.",
        "There is no information about it",
    ],
)
def test_a_guess_may_say_that_nothing_is_known(text: str) -> None:
    assert says_unknown(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No",
        "None",
        "Nobody",
        "Unknown Pleasures",
        "The Unknown Soldier",
        "The Unknown",
        "Unknown Mortal Orchestra",
        "Not Fade Away",
        "No Country for Old Men",
        "I Don't Know How to Love Him",
        "The wreck was never found",
        "Uncertain Glory",
        "He was not a member of the party",
    ],
)
def test_names_and_denials_are_guesses(text: str) -> None:
    assert not says_unknown(text)
