"""Reading replies: JSON stage by stage, the bare answer, and the rules of what counts as no answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hoptree.steps.reading.parse import (
    clean_answer,
    looks_unanswered,
    read_json,
    retrieval_trigger,
    says_unknown,
    why_unanswered,
)
from hoptree.tree import Pairs

PLAN = {"query1": {"question": "Who?"}}


# JSON


@pytest.mark.parametrize(
    ("text", "value", "repairs"),
    [
        # as it is
        ('{"query1": {"question": "Who?"}}', PLAN, ()),
        ('  [1, "a"]\n', [1, "a"], ()),
        # without its fence
        ('```json\n{"query1": {"question": "Who?"}}\n```', PLAN, ("fence", "balanced")),
        ('Here it is:\n```\n{"query1": {"question": "Who?"}}\n```\nDone.', PLAN, ("fence", "balanced")),
        ('```json\n{"query1": {"question": "Who?"}}', PLAN, ("fence", "balanced")),
        # the first balanced object, with braces inside strings not counted
        ('Sure! {"query1": {"question": "Who?"}} I hope {this} helps }', PLAN, ("balanced",)),
        ('Plan: {"a": "} \\" {", "b": 1} and {"c": 2}', {"a": '} " {', "b": 1}, ("balanced",)),
        # mended: trailing commas, bare words, smart quotes
        ('{"a": [1, 2,], "b": 3,}', {"a": [1, 2], "b": 3}, ("mended",)),
        (
            '{"a": unknown, "b": True, "c": None, "d": [False]}',
            {"a": "unknown", "b": True, "c": None, "d": [False]},
            None,
        ),
        ("{“query1”: {“question”: “Who?”}}", PLAN, ("mended",)),
        # completed: what is still open is closed
        ('{"query1": {"question": "Who?"}', PLAN, ("completed",)),
        ('{"query1": {"question": "Who?', PLAN, ("completed",)),
        ('{"query1": {"question": "Who?"},', PLAN, ("completed",)),
        ('{"a": [1, {"b": 2', {"a": [1, {"b": 2}]}, ("completed",)),
    ],
)
def test_json_is_read_by_the_first_stage_that_can(text: str, value: Any, repairs: tuple[str, ...] | None) -> None:
    reading = read_json(text)
    assert reading.ok
    assert reading.value == value
    if repairs is not None:
        assert reading.repairs == repairs


@pytest.mark.parametrize(
    "text",
    [
        'Here is the plan [as asked]: {"query1": {"question": "Who?"}}',
        'In {curly} braces: {"query1": {"question": "Who?"}}',
        'Step (1) [see below]\n{"query1": {"question": "Who?"}',
        '```\nno object here\n```\n{"query1": {"question": "Who?"}}',
    ],
)
def test_brackets_in_the_prose_before_an_object_are_passed_over(text: str) -> None:
    assert read_json(text).value == PLAN


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"isTrue": false, "reason": "a\nb\tc", "ref": {"w": ["T1"]}}', {"reason": "a\nb\tc", "ref": {"w": ["T1"]}}),
        ('So: {"reason": "a\nb", "ref": {"w": []}} Done.', {"reason": "a\nb", "ref": {"w": []}}),
        (
            '{"reason": "He said "x" today", "ref": {"w": ["T1"]}}',
            {"reason": 'He said "x" today', "ref": {"w": ["T1"]}},
        ),
        ('{"reason": "the "x", and", "ref": ["a "b" c", "d"]}', {"reason": 'the "x", and', "ref": ['a "b" c', "d"]}),
        ('{"reason": "5" tall", "ref": {"w": 1}}', {"reason": '5" tall', "ref": {"w": 1}}),
        (r"{'isTrue': False, 'reason': 'it\'s so', 'ref': {'w': ['T1']}}", {"reason": "it's so", "ref": {"w": ["T1"]}}),
        ("{'reason': \"it's so\", 'ref': ['a']}", {"reason": "it's so", "ref": ["a"]}),
        (r'{"reason": "the \dir C:\users", "ref": {"w": []}}', {"reason": r"the \dir C:\users", "ref": {"w": []}}),
        ('{"reason": "x", // a comment\n "ref": {"w": "http://a"}}', {"reason": "x", "ref": {"w": "http://a"}}),
        (r'{"reas\_on": "it\'s", "ref": {"w": []}}', {"reas_on": "it's", "ref": {"w": []}}),
        ('{reason: "x: y", ref: {"w": []}}', {"reason": "x: y", "ref": {"w": []}}),
        ('{{"reason": "x", "ref": {}}}', {"reason": "x", "ref": {}}),
    ],
)
def test_what_models_write_wrong_is_mended_in_the_whole_object(text: str, value: dict[str, Any]) -> None:
    reading = read_json(text)
    assert reading.ok
    assert {name: said for name, said in reading.value.items() if name != "isTrue"} == value


@pytest.mark.parametrize(
    "text",
    [
        '{"isTrue": false "reason" x, "ref": {"wikipedia": ["T1"]}}',
        '{"isTrue": so and so, "ref": {"wikipedia": ["T1"]}}',
        '```json\n{"isTrue": so and so, "ref": {"wikipedia": ["T1"]}}\n```',
        '[{"isTrue": so and so, "ref": {"wikipedia": ["T1"]}}]',
        '{"isTrue": so and so, "ref": {"wikipedia": ["T1"]',
        '{"isTrue": so and so, "reason": "```{"a": 1}```"}',
    ],
)
def test_no_part_of_an_object_is_taken_for_an_object_that_cannot_be_read(text: str) -> None:
    reading = read_json(text)
    assert reading.value is None
    assert reading.error


def test_what_comes_after_an_object_that_cannot_be_read_may_be_read() -> None:
    assert read_json('{"a": so, "b": {"c": 1}} No: {"query1": {"question": "Who?"}}').value == PLAN


def test_a_fence_on_a_line_of_its_own_begins_anew() -> None:
    assert read_json('{"a": \n```json\n{"query1": {"question": "Who?"}}\n```').value == PLAN


@pytest.mark.parametrize(
    ("text", "beside"),
    [
        ('{"a": 1}', ""),
        ('One: {"a": 1} and {"a": 2}', 'One: and {"a": 2}'),
        ('First ```json\n{"a": 1} so\n``` and {"a": 2}', 'First so and {"a": 2}'),
    ],
)
def test_what_stands_beside_an_object_is_kept(text: str, beside: str) -> None:
    reading = read_json(text)
    assert reading.value == {"a": 1}
    assert " ".join(reading.beside.split()) == beside


def test_a_fence_inside_a_string_does_not_hide_the_object() -> None:
    value = {"question": "What does ```x``` mean?"}
    assert read_json(f"Plan: {json.dumps(value)}").value == value


def test_bare_words_inside_strings_are_not_touched() -> None:
    assert read_json('{"a": "so: unknown, he said", "b": [1,]}').value == {"a": "so: unknown, he said", "b": [1]}


def test_commas_inside_strings_are_not_touched() -> None:
    assert read_json('{"a": "x, ]", "b": [1,]}').value == {"a": "x, ]", "b": [1]}


def test_duplicate_keys_are_not_lost() -> None:
    value = read_json('{"a": 1, "a": 2}').value
    assert isinstance(value, Pairs)
    assert value.pairs == (("a", 1), ("a", 2))


@pytest.mark.parametrize(
    "text", ["", "   \n", "no object at all", '"a string"', "42", "null", "true", "NaN", "}", "{{{{"]
)
def test_what_holds_no_object_says_why(text: str) -> None:
    reading = read_json(text)
    assert not reading.ok
    assert reading.value is None
    assert reading.error


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
    ],
)
def test_answers_that_only_look_like_none(reply: str) -> None:
    assert why_unanswered(reply) == ""
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
    ],
)
def test_replies_that_say_it_is_not_there(reply: str) -> None:
    assert why_unanswered(reply)
    assert looks_unanswered(reply)


def test_the_words_that_gave_it_away_are_told() -> None:
    assert why_unanswered("The director is not mentioned here.") == "not … mentioned"
    assert why_unanswered("") == "empty"
    assert why_unanswered("so RAG REQUIRED now") == "RAG REQUIRED"


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
