"""References of a plan are read in every spelling; dangling and circular ones are repaired."""

from __future__ import annotations

import pytest
from tests.small_plans import ROOT, assert_can_be_carried_out, kinds, questions

from hoptree.text.question_tree import Issue, make_plan, references, resolve

# Reading references


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Where was #query1 born?", (1,)),
        ("Where was #query10 born?", (10,)),
        ("#query1 and #query10", (1, 10)),
        ("Is #query2 older than #query1 or #query2?", (2, 1)),
        ("What is #query1's capital?", (1,)),
        ("What is #Query_2 known for?", (2,)),
        ("What is # query 3 known for?", (3,)),
        ("What is #QUERY4 known for?", (4,)),
        ("What was the #1 hit of 1999?", ()),
        ("no reference, query1", ()),
    ],
)
def test_references_are_complete_tokens(text: str, ids: tuple[int, ...]) -> None:
    assert references(text) == ids


def test_query1_does_not_corrupt_query10() -> None:
    assert resolve("Is #query10 older than #query1?", {1: "Ann", 10: "Bob"}) == "Is Bob older than Ann?"


@pytest.mark.parametrize("mark", ["'s", "’s", "'", ",", "?", ")"])
def test_text_after_a_reference_is_kept(mark: str) -> None:
    assert resolve(f"What is #query1{mark} end", {1: "France"}) == f"What is France{mark} end"


@pytest.mark.parametrize("written", ["#query2", "#Query_2", "# query 2", "#QUERY2", "#query_ 2"])
def test_every_spelling_of_a_reference_is_resolved(written: str) -> None:
    assert resolve(f"Who is {written}?", {2: "Ann"}) == "Who is Ann?"


def test_an_answer_that_looks_like_a_reference_is_not_substituted_again() -> None:
    assert resolve("Who wrote #query1 and #query2?", {1: "#query2", 2: "Emma"}) == "Who wrote #query2 and Emma?"


def test_backslashes_in_answers_are_literal() -> None:
    assert resolve("What is #query1?", {1: r"\1 \g<0> \n"}) == r"What is \1 \g<0> \n?"


def test_a_reference_without_an_answer_stays() -> None:
    assert resolve("Who is #query4?", {1: "Ann"}) == "Who is #query4?"


@pytest.mark.parametrize("written", ["#Query_1", "# query 1", "#QUERY1"])
def test_a_plan_normalises_the_spelling_of_references(written: str) -> None:
    plan = make_plan({"query1": "Who directed Whiplash?", "query2": f"Where was {written} born?"}, ROOT)
    assert questions(plan)[1] == "Where was #query1 born?"
    assert plan[2].refs == (1,)
    assert not plan.issues


def test_short_references_are_read_if_there_are_no_long_ones() -> None:
    plan = make_plan({"query1": "Who directed Whiplash?", "query2": "Where was #1 born?"}, ROOT)
    assert questions(plan)[1] == "Where was #query1 born?"
    assert plan[2].refs == (1,)


def test_a_number_sign_in_the_question_is_text() -> None:
    root = "Who sang the #1 hit of 1999 in the country where Whiplash was made?"
    plan = make_plan({"query1": "Where was Whiplash made?", "query2": "Who sang the #1 hit of 1999?"}, root)
    assert questions(plan)[1] == "Who sang the #1 hit of 1999?"
    assert plan[2].refs == ()


def test_short_references_next_to_long_ones_are_text() -> None:
    plan = make_plan({"query1": "Who sang?", "query2": "Was #query1 ever at #1 in the charts?"}, ROOT)
    assert questions(plan)[1] == "Was #query1 ever at #1 in the charts?"
    assert plan[2].refs == (1,)


def test_a_short_reference_is_read_if_long_ones_are_in_other_nodes() -> None:
    raw = {"query1": "Who wrote it?", "query2": "Where was #query1 born?", "query3": "Which river flows through #2?"}
    plan = make_plan(raw, ROOT)
    assert questions(plan)[2] == "Which river flows through #query2?"
    assert plan[3].refs == (2,)


def test_only_children_and_queries_have_questions() -> None:
    raw = {"query1": {"question": "Who directed it?", "keywords": ["director", "film"], "children": {}}}
    plan = make_plan(raw, ROOT)
    assert questions(plan) == ["Who directed it?"]
    assert plan.issues == ()


# Repairs of references


def test_a_dangling_reference_is_read_as_the_parent() -> None:
    raw = {"query1": {"question": "Who directed it?", "children": {"query2": "Where was #query7 born?"}}}
    plan = make_plan(raw, ROOT)
    assert questions(plan)[1] == "Where was #query1 born?"
    assert plan.issues == (Issue("ref_dangling", 2, "#query7 cannot be meant; read as #query1"),)


def test_a_dangling_reference_of_a_top_node_is_read_as_the_node_before() -> None:
    plan = make_plan({"query1": "a?", "query2": "b?", "query3": "Where was #query9 born?"}, ROOT)
    assert questions(plan)[2] == "Where was #query2 born?"
    assert kinds(plan) == ["ref_dangling"]


def test_a_dangling_reference_whose_parent_is_referred_to_already_is_read_as_the_node_before() -> None:
    raw = {"query1": {"question": "a?", "children": {"query2": "b?", "query3": "Is #query1 older than #query8?"}}}
    assert questions(make_plan(raw, ROOT))[2] == "Is #query1 older than #query2?"


def test_a_dangling_reference_of_the_first_node_becomes_a_description_from_the_question() -> None:
    plan = make_plan({"query1": "Where was #query5 born?"}, ROOT)
    assert questions(plan) == [f'Where was the one asked about in "{ROOT}" born?']
    assert kinds(plan) == ["ref_dangling"]
    assert_can_be_carried_out(plan)


def test_a_description_contains_no_reference() -> None:
    plan = make_plan({"query1": "Where was #query5 born?"}, "What does #query7 mean in a prompt?")
    assert_can_be_carried_out(plan)


def test_two_spellings_of_one_dangling_reference_mean_one_node() -> None:
    raw = {"query1": "a?", "query2": {"question": "b?", "children": {"query3": "Is #query9 the same as #Query_9?"}}}
    assert questions(make_plan(raw, ROOT))[2] == "Is #query2 the same as #query2?"


def test_a_reference_to_itself_is_dangling() -> None:
    plan = make_plan({"query1": "a?", "query2": "Where was #query2 born?"}, ROOT)
    assert questions(plan)[1] == "Where was #query1 born?"
    assert kinds(plan) == ["ref_dangling"]


def test_a_forward_reference_is_kept_and_asked_in_topological_order() -> None:
    plan = make_plan({"query1": "Where was #query2 born?", "query2": "Who directed it?"}, ROOT)
    assert plan.issues == (Issue("ref_forward", 1, "#query2 is asked later in the plan"),)
    assert plan[1].refs == (2,)
    assert [node.id for node in plan.order()] == [2, 1]


def test_a_cycle_is_broken_at_its_forward_edge() -> None:
    plan = make_plan({"query1": "Who married #query2?", "query2": "Who married #query1?"}, ROOT)
    assert plan[2].refs == (1,)
    assert plan[1].refs == ()
    assert kinds(plan) == ["ref_cycle"]
    assert_can_be_carried_out(plan)


def test_a_cycle_of_three_is_broken() -> None:
    plan = make_plan({"query1": "#query3 a?", "query2": "#query1 b?", "query3": "#query2 c?"}, ROOT)
    assert kinds(plan) == ["ref_cycle"]
    assert_can_be_carried_out(plan)
