"""Finding the object in a reply, and mending what models write wrong in it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.text.loose_json import read_json, regroup_brackets
from hoptree.text.question_tree import Pairs

PLAN = {"query1": {"question": "Who?"}}


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


A, B = {"q": "A?", "children": []}, {"q": "B?", "children": []}
TWO = {"tree": {"children": [A, B]}, "answer": "x"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (
            '{"tree": {"children": [{"q": "A?", "children": []}], {"q": "B?", "children": []}}], "answer": "x"}',
            TWO,
        ),
        (
            '{"tree": {"children": [{"q": "A?", "children": []}]}, {"q": "B?", "children": []}}, "answer": "x"}',
            TWO,
        ),
        (
            '{"tree": {"children": [{"q": "A?", "children": []}, {"q": "B?", "children": []}]}], "answer": "x"}',
            TWO,
        ),
        (
            '{"tree": {"children": [{"q": "A?", "children": []}, {"q": "B?", "children": []}, "answer": "x"}}',
            {"tree": {"children": [A, B], "answer": "x"}},
        ),
        ('{"q": "C?", "children": [], {"q": "A?", "children": []}}', {"q": "C?", "children": [A]}),
        ('{"a": ["} ], {", 1], {"b": 2}}', {"a": ["} ], {", 1, {"b": 2}]}),
    ],
    ids=["list closed", "list and object closed", "closed once more", "not closed", "empty list closed", "in strings"],
)
def test_brackets_that_do_not_fit_are_put_right(text: str, value: dict[str, Any]) -> None:
    reading = read_json(f"Here: {text} So much.")
    assert (reading.value, reading.repairs) == (value, ("regrouped",))
    assert reading.beside == "Here:   So much."


NESTED = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below, max_size=3),
)


@given(st.dictionaries(st.text(max_size=3), NESTED, max_size=3), st.sampled_from([None, 1]))
def test_brackets_that_fit_stay_as_they_are(value: dict[str, Any], indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    assert regroup_brackets(f"{text} and so on") == (text, len(text))


@given(st.text(alphabet='{}[]",: a\\\n'))
def test_nothing_that_is_regrouped_raises(text: str) -> None:
    written, end = regroup_brackets(text)
    assert end <= len(text) and len(written) <= 2 * len(text) + 2


def test_an_object_that_follows_no_list_is_not_put_anywhere() -> None:
    assert not read_json('{"a": 1, {"b": 2}}').ok


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
    assert {name: field for name, field in reading.value.items() if name != "isTrue"} == value


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
