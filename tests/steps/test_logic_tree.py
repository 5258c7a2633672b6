"""Logic trees out of whatever a model wrote: every repair, every wrapping, and nothing that makes a reader fail."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoptree.methods.steps.logic_tree import (
    MAX_DEPTH,
    MAX_NODES,
    Claim,
    LogicTree,
    cut,
    first_claims,
    read_subtree,
    read_tree,
    text_of,
)
from hoptree.text.loose_json import read_json

QUESTION = "On which island is the Indonesian capital located?"
CAPITAL = Claim("What is the capital of Indonesia?", "Jakarta", (Claim("On which island is Jakarta?", "Java"),))
WHOLE = {"input_question": QUESTION, "logic_tree": {"children": [CAPITAL.as_dict()]}, "answer": "Java"}

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["sub_question", "hypothesis_answer", "children", "logic_tree", "answer", "ref", "x"])
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=25,
)


def kinds(issues: Any) -> list[str]:
    return [issue.kind for issue in issues]


def test_a_tree_as_the_paper_writes_it() -> None:
    tree = read_tree(WHOLE, QUESTION)
    assert (tree.children, tree.draft, tree.issues) == ((CAPITAL,), "Java", ())


@pytest.mark.parametrize(
    "reply",
    [
        f"```json\n{json.dumps(WHOLE)}\n```",
        f"Here is the tree:\n{json.dumps(WHOLE)}\nI hope this helps.",
        json.dumps(WHOLE)[:-1],
        json.dumps(WHOLE)[:-3],
        json.dumps(WHOLE).replace('"answer": "Java"}', '"answer": "Java",}'),
        json.dumps(WHOLE).replace("}]}]}", "},]},]}"),
        json.dumps(WHOLE["logic_tree"]),
        json.dumps(WHOLE["logic_tree"]["children"]),  # type: ignore[index]
        json.dumps(CAPITAL.as_dict()),
        json.dumps({"tree": WHOLE["logic_tree"]}),
        json.dumps({"logic_tree": CAPITAL.as_dict()}),
        json.dumps(WHOLE).replace("sub_question", "Sub-Question").replace("hypothesis_answer", "Hypothesis Answer"),
        json.dumps(WHOLE).replace("input_question", "question"),
        json.dumps(WHOLE).replace("input_question", "Query").replace("logic_tree", "Logic Tree"),
        json.dumps(WHOLE | {"input_question": "Said in other words?"}).replace("input_question", "question"),
        json.dumps(WHOLE).replace('"children"', '"Sub-Questions"'),
    ],
)
def test_wrappings_and_repairs(reply: str) -> None:
    assert read_tree(read_json(reply).value, QUESTION).children == (CAPITAL,)


def test_what_the_papers_own_format_shows_with_a_bracket_too_many_is_read() -> None:
    """In Appendix A.1 the second child stands in a list of its own."""
    written = {"logic_tree": {"children": [{"sub_question": "a?", "hypothesis_answer": "b"}, [CAPITAL.as_dict()]]}}
    assert read_tree(written, QUESTION).children == (Claim("a?", "b"), CAPITAL)


def test_a_node_without_a_question_is_dropped_and_its_children_move_up() -> None:
    written = {"logic_tree": {"children": [{"hypothesis_answer": "?", "children": [CAPITAL.as_dict()]}]}}
    tree = read_tree(written, QUESTION)
    assert (tree.children, kinds(tree.issues)) == ((CAPITAL,), ["question_empty"])


@pytest.mark.parametrize(
    "beside",
    [
        {"answer": ["Paris", "London"]},
        {"Final Answer": ["Paris", "London"]},
        {"Hypothesis-Answer": {"first": ["Paris"]}},
        {"REF": ["T1"]},
        {"sources": ["T1", "F2"]},
    ],
)
def test_what_stands_beside_the_tree_is_no_node(beside: dict[str, Any]) -> None:
    assert read_tree(WHOLE | beside, QUESTION).children == (CAPITAL,)
    assert read_tree({"logic_tree": WHOLE["logic_tree"], **beside}, QUESTION).children == (CAPITAL,)


def test_a_list_of_answers_is_the_draft() -> None:
    assert read_tree(WHOLE | {"answer": ["Paris", "London"]}, QUESTION).draft == "Paris, London"
    assert read_tree({"answer": ["Paris", "London"]}, QUESTION).children == ()


def test_nodes_are_found_under_other_names_where_those_known_hold_none() -> None:
    assert read_tree({"children": [], "first": CAPITAL.as_dict()}, QUESTION).children == (CAPITAL,)


def test_a_first_node_that_repeats_the_question_is_the_question() -> None:
    tree = read_tree(Claim(QUESTION.upper(), "Java", (CAPITAL,)).as_dict(), QUESTION)
    assert (tree.children, tree.draft, kinds(tree.issues)) == ((CAPITAL,), "Java", ["root_restated"])


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (1971, "1971"),
        (["Germany", "Austria"], "Germany, Austria"),
        ({"answer": "Java"}, "Java"),
        (True, "yes"),
        (None, ""),
        ("unknown", ""),
        ("N/A", ""),
        ("  a \n b ", "a b"),
        ("No", "No"),
        ("Unknown Pleasures", "Unknown Pleasures"),
        ("It was not found in any country but Norway", "It was not found in any country but Norway"),
    ],
)
def test_hypotheses_of_all_kinds(value: Any, read: str) -> None:
    (claim,) = read_tree([{"sub_question": "a?", "hypothesis_answer": value}], QUESTION).children
    assert claim.hypothesis == read == text_of(value)


def test_both_of_two_lists_of_children_count() -> None:
    doubled = '{"sub_question": "a?", "hypothesis_answer": "b", "children": ["c?"], "children": ["d?"]}'
    (claim,) = read_tree(read_json(doubled).value, QUESTION).children
    assert [child.question for child in claim.children] == ["c?", "d?"]


def chain(levels: int) -> Claim:
    claim = Claim(f"q{levels}?", "x")
    for level in range(levels - 1, 0, -1):
        claim = Claim(f"q{level}?", "x", (claim,))
    return claim


def test_the_question_beside_its_tree_is_no_level_of_it() -> None:
    reply = {"question": "Who?", "logic_tree": {"children": [chain(MAX_DEPTH).as_dict()]}}
    assert read_tree(reply, QUESTION) == LogicTree((chain(MAX_DEPTH),))


def test_what_is_too_deep_or_too_much_is_dropped() -> None:
    deep = read_tree(chain(9).as_dict(), QUESTION)
    assert deep.children[0].levels == MAX_DEPTH and kinds(deep.issues) == ["cap_depth"]
    many = read_tree([chain(2).as_dict() for _ in range(20)], QUESTION)
    assert sum(claim.size for claim in many.children) == MAX_NODES and kinds(many.issues) == ["cap_nodes"]
    assert many.issues[0].detail == "24 nodes beyond 16 dropped"


@pytest.mark.parametrize(
    "value",
    [
        CAPITAL.as_dict(),
        {"logic_tree": CAPITAL.as_dict()},
        {"children": [CAPITAL.as_dict()]},
        {"logic_tree": {"children": [CAPITAL.as_dict()]}},
        [CAPITAL.as_dict()],
        {"rebuilt_node": CAPITAL.as_dict()},
        {"question": QUESTION, "logic_tree": {"children": [CAPITAL.as_dict()]}, "answer": "Java"},
        {"sub_question": CAPITAL.question, "hypothesis_answer": "Jakarta", "tree": CAPITAL.as_dict()["children"]},
        {"children": [{"sub_question": "another?", "hypothesis_answer": "x"}, CAPITAL.as_dict()]},
        {
            "input_question": QUESTION,
            "logic_tree": {
                "children": [{"sub_question": "above?", "hypothesis_answer": "x", "children": [CAPITAL.as_dict()]}]
            },
        },
    ],
)
def test_a_rebuilt_tree_is_unwrapped(value: Any) -> None:
    subtree, _ = read_subtree(value, Claim("what is the capital of Indonesia", "Bandung"), levels=3)
    assert subtree == CAPITAL


@pytest.mark.parametrize(
    "value",
    [
        None,
        "Jakarta",
        5,
        [],
        {},
        {"sub_question": "a?"},
        {"hypothesis_answer": "b"},
        {"sub_question": "a?", "hypothesis_answer": "unknown"},
    ],
)
def test_a_rebuilt_node_needs_both_of_its_texts(value: Any) -> None:
    assert read_subtree(value, CAPITAL, levels=3)[0] is None


def test_a_rebuilt_tree_is_cut_and_stale_children_do_not_come_back() -> None:
    subtree, issues = read_subtree(chain(4).as_dict(), CAPITAL, levels=3)
    assert subtree == cut(chain(4), 3) and kinds(issues) == ["rebuild_deeper"]
    wide, issues = read_subtree(Claim("a?", "b", (Claim("c?", "d"),) * 20).as_dict(), CAPITAL, levels=3)
    assert wide and wide.size == MAX_NODES and kinds(issues) == ["cap_nodes"]
    bare, _ = read_subtree({"sub_question": "a?", "hypothesis_answer": "b"}, CAPITAL, levels=3)
    assert bare == Claim("a?", "b")


@given(value=anything)
def test_nothing_makes_the_readers_fail_and_the_caps_hold(value: Any) -> None:
    tree = read_tree(value, QUESTION)
    assert sum(claim.size for claim in tree.children) <= MAX_NODES
    assert all(claim.levels <= MAX_DEPTH for claim in tree.children)
    assert all(node.question and len(node.question) <= 1000 for claim in tree.children for node in claim.all())
    subtree, _ = read_subtree(value, CAPITAL, levels=2)
    assert subtree is None or (
        subtree.question and subtree.hypothesis and subtree.levels <= 2 and subtree.size <= MAX_NODES
    )


@given(start=st.integers(0, 400), end=st.integers(0, 400), put=st.text(max_size=6))
def test_no_damage_to_a_reply_makes_the_readers_fail(start: int, end: int, put: str) -> None:
    text = json.dumps(WHOLE)
    damaged = text[:start] + put + text[max(start, end) :]
    read_tree(read_json(damaged).value, QUESTION)
    read_subtree(read_json(damaged).value, CAPITAL, levels=2)


def test_brackets_without_end_are_read_in_no_time() -> None:
    deep: Any = "x"
    for _ in range(500):
        deep = {"children": [deep]}
    assert read_tree(deep, QUESTION).children == ()
    assert text_of(deep) == ""


claims = st.recursive(
    st.builds(Claim, st.just("q?"), st.just("h")),
    lambda inner: st.builds(Claim, st.just("q?"), st.just("h"), st.lists(inner, max_size=3).map(tuple)),
    max_leaves=20,
)


@settings(deadline=None)
@given(drawn_claims=st.lists(claims, max_size=4), most=st.integers(0, 20))
def test_as_many_nodes_are_kept_as_there_is_room_for(drawn_claims: list[Claim], most: int) -> None:
    total = sum(claim.size for claim in drawn_claims)
    assert sum(claim.size for claim in first_claims(drawn_claims, most)) == min(most, total)


@pytest.mark.parametrize(
    ("question", "reply", "hypothesis"),
    [
        ("Who directed it?", "I don't know", ""),
        ("Who directed it?", "not available in the provided information", ""),
        ("Who directed it?", "None", ""),
        ("How many of them survived?", "None", "None"),
        ("Which album came first?", "Unknown Pleasures", "Unknown Pleasures"),
    ],
)
def test_what_says_that_nothing_is_known_is_no_hypothesis(question: str, reply: str, hypothesis: str) -> None:
    value = {"logic_tree": {"children": [{"sub_question": question, "hypothesis_answer": reply}]}, "answer": "Not sure"}
    tree = read_tree(value, "Whose film was it?")
    assert (tree.children, tree.draft) == ((Claim(question, hypothesis),), "")
