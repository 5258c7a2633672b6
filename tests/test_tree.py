"""Any reply of a model becomes an executable plan, with a list of repairs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.small_plans import ROOT, assert_can_be_carried_out, kinds, questions

from hoptree.text.loose_json import read_json
from hoptree.text.question_tree import Issue, Node, Pairs, Plan, make_plan, resolve, single_node


def chain(length: int) -> dict[str, Any]:
    """Nodes 1 to `length`, each a child of the one before."""
    nested: dict[str, Any] = {}
    for number in range(length, 0, -1):
        entry: dict[str, Any] = {"question": f"question {number}"}
        if nested:
            entry["children"] = nested
        nested = {f"query{number}": entry}
    return nested


# Ids


def test_ids_are_the_keys_even_out_of_order() -> None:
    plan = make_plan({"query2": "Where was #query1 born?", "query1": "Who directed it?"}, ROOT)
    assert [node.id for node in plan.nodes] == [2, 1]
    assert plan[2].question == "Where was #query1 born?"
    assert kinds(plan) == ["ref_forward"]


def test_duplicate_keys_are_both_kept_and_a_reference_means_the_nearest_before_it() -> None:
    text = '{"query1": "Who wrote A?", "query1": "Who wrote B?", "query2": "When was #query1 born?"}'
    plan = make_plan(read_json(text).value, ROOT)
    assert questions(plan) == ["Who wrote A?", "Who wrote B?", "When was #query2 born?"]
    assert [node.id for node in plan.nodes] == [1, 2, 3]
    assert kinds(plan) == ["ids_renumbered"]


def test_gaps_in_the_ids_are_closed_and_references_follow() -> None:
    plan = make_plan({"query3": "Who directed it?", "query7": "Where was #query3 born?"}, ROOT)
    assert questions(plan) == ["Who directed it?", "Where was #query1 born?"]
    assert plan.issues == (Issue("ids_renumbered", 0, "ids [3, 7] renumbered in order of appearance"),)


def test_an_id_next_to_the_question_is_used() -> None:
    plan = make_plan([{"id": 2, "question": "Where was #query1 born?"}, {"id": "query1", "question": "Who?"}], ROOT)
    assert [node.id for node in plan.nodes] == [2, 1]
    assert kinds(plan) == ["ref_forward"]


def test_references_among_nodes_without_ids_count_in_order_of_appearance() -> None:
    plan = make_plan(["Who directed A?", "Who directed B?", "Where was #query1 born?"], ROOT)
    assert questions(plan)[2] == "Where was #query1 born?"
    assert kinds(plan) == ["ids_renumbered"]


# Shapes


@pytest.mark.parametrize(
    "children",
    [
        {"query2": {"question": "Where was #query1 born?"}},
        {"query2": "Where was #query1 born?"},
        [{"query2": {"question": "Where was #query1 born?"}}],
        [{"id": 2, "question": "Where was #query1 born?"}],
    ],
)
@pytest.mark.parametrize("key", ["children", "sub_queries", "sub_questions"])
def test_children_may_be_a_dict_or_a_list(children: object, key: str) -> None:
    plan = make_plan({"query1": {"question": "Who directed it?", key: children}}, ROOT)
    assert plan.nodes == (
        Node(1, "Who directed it?"),
        Node(2, "Where was #query1 born?", parent=1, depth=2, refs=(1,)),
    )
    assert not plan.issues


def test_children_may_be_a_bare_string() -> None:
    plan = make_plan({"query1": {"question": "Who directed it?", "children": "Where was #query1 born?"}}, ROOT)
    assert plan[2] == Node(2, "Where was #query1 born?", parent=1, depth=2, refs=(1,))


@pytest.mark.parametrize("nothing", [None, {}, [], "", "  ", 3, True])
def test_children_may_be_nothing(nothing: object) -> None:
    plan = make_plan({"query1": {"question": "Who directed it?", "children": nothing}}, ROOT)
    assert plan.nodes == (Node(1, "Who directed it?"),)


def test_a_query_key_beside_the_question_is_a_child() -> None:
    plan = make_plan({"query1": {"question": "Who?", "query2": {"question": "Where was #query1 born?"}}}, ROOT)
    assert [(node.id, node.parent) for node in plan.nodes] == [(1, None), (2, 1)]


def test_nested_questions_without_references_stay_independent() -> None:
    raw = {"query1": {"question": "Nationality of the first?", "children": {"query2": "nationality of the other?"}}}
    assert make_plan(raw, ROOT)[2].refs == ()


def test_a_plan_may_be_wrapped() -> None:
    plan = make_plan({"plan": {"query1": "Who?", "query2": "Where was #query1 born?"}}, ROOT)
    assert [node.parent for node in plan.nodes] == [None, None]


def test_a_node_without_a_question_gives_its_place_to_its_children() -> None:
    plan = make_plan({"query1": {"children": {"query2": "Who?"}}}, ROOT)
    assert [(node.id, node.question, node.parent, node.depth) for node in plan.nodes] == [(1, "Who?", None, 1)]
    assert kinds(plan) == ["question_empty", "ids_renumbered"]


def test_four_open_three_closed_braces() -> None:
    text = '{"query1": {"question": "Who?", "children": {"query2": {"question": "Where was #query1 born?"}}}'
    assert text.count("{") == 4 and text.count("}") == 3
    reading = read_json(text)
    assert reading.repairs == ("completed",)
    assert questions(make_plan(reading.value, ROOT)) == ["Who?", "Where was #query1 born?"]


@pytest.mark.parametrize(
    "raw", [None, {}, [], "", " ", 7, 1.5, True, {"query1": {}}, {"query1": 3}, [[[]]], {"a": "b"}]
)
def test_a_reply_without_questions_has_no_plan(raw: object) -> None:
    assert make_plan(raw, ROOT).nodes == ()


def test_the_plan_of_a_question_that_is_not_split() -> None:
    issue = Issue("decompose_failed", 1, "why")
    assert single_node(ROOT, issue) == Plan((Node(1, ROOT),), (issue,))
    assert single_node(ROOT).issues == ()


# The question restated


def test_a_root_that_repeats_the_question_gives_its_place_to_its_children() -> None:
    raw = {"query1": {"question": f" {ROOT.upper()} ", "children": {"query2": "Who?", "query3": "Where was #query2?"}}}
    plan = make_plan(raw, ROOT)
    assert plan.nodes == (Node(1, "Who?"), Node(2, "Where was #query1?", refs=(1,)))
    assert kinds(plan) == ["root_restated", "ids_renumbered"]


def test_dropping_a_restated_root_leaves_the_depth_of_other_branches() -> None:
    raw = {"query1": ROOT, "query2": {"question": "Who?", "children": {"query3": "Where was #query2 born?"}}}
    plan = make_plan(raw, ROOT)
    assert [(node.parent, node.depth) for node in plan.nodes] == [(None, 1), (1, 2)]


def test_a_question_that_is_its_own_only_node_stays() -> None:
    assert make_plan({"query1": ROOT}, ROOT) == Plan((Node(1, ROOT),))


# Caps


def test_nodes_beyond_twelve_are_dropped_and_reported() -> None:
    plan = make_plan({f"query{number}": f"question {number}" for number in range(1, 16)}, ROOT)
    assert [node.id for node in plan.nodes] == list(range(1, 13))
    assert plan.issues == (Issue("cap_nodes", 12, "3 nodes beyond 12 dropped"),)


def test_a_reference_to_a_dropped_node_is_dangling() -> None:
    raw = {f"query{number}": f"question {number}" for number in range(1, 14)} | {"query2": "Who is #query13?"}
    plan = make_plan(raw, ROOT)
    assert plan[2].question == "Who is #query1?"
    assert kinds(plan) == ["cap_nodes", "ref_dangling"]


def test_nodes_deeper_than_five_are_dropped_and_reported() -> None:
    plan = make_plan(chain(7), ROOT)
    assert [node.depth for node in plan.nodes] == [1, 2, 3, 4, 5]
    assert kinds(plan) == ["cap_depth"]


@pytest.mark.parametrize("deepest", ["question 6", ["question 6"], {"query6": "question 6"}])
def test_bare_questions_deeper_than_five_are_dropped_too(deepest: object) -> None:
    raw = chain(5)
    inner: Any = raw
    for number in range(1, 6):
        inner = inner[f"query{number}"]
        inner = inner.get("children", inner)
    inner["children"] = deepest
    plan = make_plan(raw, ROOT)
    assert len(plan.nodes) == 5
    assert kinds(plan) == ["cap_depth"]


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_nesting_of_any_depth_is_handled(opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    room = sys.getrecursionlimit()
    for levels in range(room // 3, room, 25):
        text = opening * levels + '["Who?"]' + closing * levels
        assert len(make_plan(read_json(text).value, ROOT).nodes) <= 1


def test_values_nested_deeper_than_the_recursion_limit_are_handled() -> None:
    value: list[Any] = ["Who?"]
    for _ in range(5000):
        value = [value]
    assert len(make_plan(value, ROOT).nodes) <= 1


@pytest.mark.parametrize("digits", [20, 5000])
def test_a_reference_of_many_digits_is_dangling(digits: int) -> None:
    plan = make_plan({"query1": "Who?", "query2": "Where was #query" + "9" * digits + " born?"}, ROOT)
    assert questions(plan)[1] == "Where was #query1 born?"


@pytest.mark.parametrize("digits", [20, 5000])
def test_an_id_of_many_digits_is_renumbered(digits: int) -> None:
    number = "9" * digits
    assert [node.id for node in make_plan({f"query{number}": "Who?"}, ROOT).nodes] == [1]
    assert [node.id for node in make_plan({"id": number, "question": "Who?"}, ROOT).nodes] == [1]


def test_a_reference_of_many_digits_resolves_to_itself() -> None:
    text = "Who is #query" + "9" * 5000 + "?"
    assert resolve(text, {1: "Ann"}) == text


# Leaks


LEAK_ROOT = "How did the singer of Voi Voi die?"


def leaky(child: str) -> dict[str, Any]:
    return {"query1": {"question": "Who sang Voi Voi?", "children": {"query2": child}}}


def test_a_child_with_a_name_that_the_question_lacks_is_a_leak() -> None:
    plan = make_plan(leaky("How did Nora Brockstedt die?"), LEAK_ROOT)
    assert plan[2].question == "How did Nora Brockstedt die?"
    assert plan[2].refs == ()
    assert plan.issues == (Issue("plan_leak", 2, "names 'Nora Brockstedt', which the question does not"),)


def test_a_leak_is_replaced_by_its_reference() -> None:
    plan = make_plan(leaky("How did Nora Brockstedt die?"), LEAK_ROOT, mend_leaks=True)
    assert plan[2].question == "How did #query1 die?"
    assert plan[2].refs == (1,)
    assert plan.issues == (Issue("plan_leak", 2, "'Nora Brockstedt' replaced by #query1"),)


def test_a_leak_after_a_capitalised_first_word_is_detected() -> None:
    plan = make_plan(leaky("Was Nora Brockstedt married?"), LEAK_ROOT, mend_leaks=True)
    assert plan[2].question == "Was #query1 married?"


def test_repairing_a_leak_replaces_only_the_whole_name() -> None:
    plan = make_plan(leaky("Ann1e met Ann when?"), LEAK_ROOT, mend_leaks=True)
    assert plan[2].question == "Ann1e met #query1 when?"
    assert_can_be_carried_out(plan)


@pytest.mark.parametrize(
    "child",
    [
        "How did the singer of Voi Voi die?",
        "How did #query1 die?",
        "When was the song Voi Voi's premiere?",
        "in which émigré circle did it end?",
        "how did it end?",
    ],
)
def test_names_that_are_no_leak(child: str) -> None:
    assert "plan_leak" not in kinds(make_plan(leaky(child), LEAK_ROOT))


def test_a_top_node_cannot_leak_its_parent() -> None:
    assert kinds(make_plan({"query1": "Who is Nora Brockstedt?"}, LEAK_ROOT)) == []


def test_repairing_a_leak_never_makes_a_cycle() -> None:
    raw = {"query1": {"question": "Who married #query2?", "children": {"query2": "who is Nora Brockstedt?"}}}
    assert_can_be_carried_out(make_plan(raw, LEAK_ROOT, mend_leaks=True))


# Order and paths


def test_order_is_topological_and_otherwise_as_written() -> None:
    plan = make_plan({"query1": "#query4 a?", "query2": "b?", "query3": "#query2 c?", "query4": "d?"}, ROOT)
    assert [node.id for node in plan.order()] == [2, 3, 4, 1]


def test_order_without_references_is_pre_order() -> None:
    plan = make_plan({"query1": {"question": "a", "children": {"query2": "b"}}, "query3": "c"}, ROOT)
    assert [node.id for node in plan.order()] == [1, 2, 3]


def test_there_is_one_path_from_the_top_to_each_leaf() -> None:
    raw = {
        "query1": {"question": "a", "children": {"query2": {"question": "b", "children": ["c", "d"]}}},
        "query5": "e",
    }
    assert [[node.id for node in path] for path in make_plan(raw, ROOT).paths()] == [[1, 2, 3], [1, 2, 4], [5]]


# Anything at all


REFERENCES = st.builds("{}{}".format, st.sampled_from(["#query", "#Query_", "# query ", "#"]), st.integers(0, 21))
WORDS = st.sampled_from(
    ["Who", "is", "Nora Brockstedt", "A", "A1", "the director", "?", "'s", "#", "#query", "12", " ", "é", "\ud800", "Ç"]
)
QUESTIONS = st.lists(WORDS | REFERENCES, max_size=6).map(" ".join) | st.lists(WORDS | REFERENCES, max_size=4).map(
    "".join
)
KEYS = (
    st.integers(0, 20).map("query{}".format)
    | st.sampled_from(["question", "children", "id", "query", "query_3", "junk", ""])
    | st.text(max_size=3)
)
LEAVES = QUESTIONS | st.none() | st.booleans() | st.integers() | st.floats()


def objects(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(st.tuples(KEYS, values), max_size=6).map(Pairs)


def nodes(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {"question": QUESTIONS}, optional={"children": values | objects(values), "query2": values, "query9": values}
    )


ANYTHING = st.recursive(
    LEAVES, lambda inner: objects(inner) | st.lists(inner, max_size=5) | nodes(inner), max_leaves=30
)


@given(raw=ANYTHING, root=QUESTIONS, mend=st.booleans())
def test_any_value_makes_an_executable_plan(raw: Any, root: str, mend: bool) -> None:
    assert_can_be_carried_out(make_plan(raw, root, mend_leaks=mend))


@given(raw=ANYTHING, root=QUESTIONS)
def test_a_plan_survives_serialisation(raw: Any, root: str) -> None:
    plan = make_plan(raw, root)
    again = make_plan(json.loads(json.dumps(written(plan))), root)
    text_like_references = any(re.search(r"#\d", node.question) for node in plan.nodes)
    if "root_restated" not in kinds(again) and not text_like_references:
        assert [(node.id, node.parent, node.refs) for node in again.nodes] == [
            (node.id, node.parent, node.refs) for node in plan.nodes
        ]


def written(plan: Plan, parent: int | None = None) -> Mapping[str, Any]:
    return {
        f"query{node.id}": {"question": node.question, "children": written(plan, node.id)}
        for node in plan.nodes
        if node.parent == parent
    }
