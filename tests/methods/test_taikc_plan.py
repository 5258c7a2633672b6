"""TAIKC carries its plan out: order, chains, repairs, budgets."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tests.methods.taikc_asked import CHAIN, ROOT, Run, plan, rules
from tests.traced import as_dicts

from hoptree.engine.context import Budget
from hoptree.models.scripted import Rule

# The plan


PLANS: dict[str, Any] = {
    "chain": CHAIN,
    "two leaves": {"query1": "When was A founded?", "query2": "When was B founded?"},
    "two chains": {
        "query1": {"question": "Who directed A?", "children": {"query2": "When was #query1 born?"}},
        "query3": {"question": "Who directed B?", "children": {"query4": "When was #query3 born?"}},
    },
    "forward reference": {"query1": "Where was #query3 born?", "query2": "Who wrote B?", "query3": "Who knew #query2?"},
    "cycle": {"query1": "Who married #query2?", "query2": "Who married #query1?"},
    "dangling": {"query1": "Who directed #query9?", "query2": "Where was #query2 born?"},
    "one node": {"query1": ROOT},
    "diamond": {
        "query1": {
            "question": "Who wrote it?",
            "children": {
                "query2": "Country of #query1?",
                "query3": "Year of #query1?",
                "query4": "King of #query2 in #query3?",
            },
        }
    },
    "nothing": {},
}


def echo(raw: object) -> list[Rule]:
    """A model whose answers tell what they were asked."""
    questions = set(re.findall(r"[A-Z][^\"?#]*\b", json.dumps(raw))) - {ROOT.rstrip("?")}
    sure = [Rule(f"answer{number}", step="confident", contains=text) for number, text in enumerate(sorted(questions))]
    return [plan(raw), *sure, *rules(raw)[1:]]


@pytest.mark.parametrize("name", PLANS)
def test_preorder_and_parallel_give_the_same_result(name: str) -> None:
    runs = [Run(echo(PLANS[name]), order=order) for order in ("preorder", "parallel")]
    first, second = (run.result.as_dict() | {"options": None} for run in runs)
    for data in (first, second):
        data["usage"] |= {"seconds": 0.0, "critical_path_seconds": 0.0}
    assert first == second
    assert sorted(runs[0].model.requests) == sorted(runs[1].model.requests)
    assert runs[0].result.answer == "final answer"


def test_independent_nodes_are_asked_at_once_only_in_parallel() -> None:
    for order, together in (("parallel", True), ("preorder", False)):
        run = Run(rules(PLANS["two leaves"]), order=order)
        first_end = next(
            i for i, event in enumerate(as_dicts(run.events)) if event["event"] == "node" and "iterations" in event
        )
        begun = [event for event in run.events[:first_end] if event.event == "node"]
        assert (len(begun) == 2) is together


def test_preorder_asks_in_topological_order() -> None:
    run = Run(rules(PLANS["forward reference"]), order="preorder")
    assert [event["id"] for event in run.of("node") if "iterations" in event] == [2, 3, 1]


@pytest.mark.parametrize(
    ("name", "leaves"), [("chain", 1), ("two leaves", 2), ("two chains", 2), ("diamond", 3), ("nothing", 1)]
)
def test_there_is_one_chain_a_leaf(name: str, leaves: int) -> None:
    run = Run(rules(PLANS[name], summarise=[f"chain {number}" for number in range(9)]))
    assert run.steps.count("summarise") == leaves
    assert len(run.result.chains) == leaves


def test_identical_chains_are_said_once() -> None:
    run = Run(rules(PLANS["two chains"], summarise="the same"))
    assert run.result.chains == ("the same",)
    (final,) = [text for step, text in run.model.requests if step == "taikc/final"]
    assert final.count("the same") == 1


def test_a_chain_is_summarised_from_its_questions_and_answers() -> None:
    run = Run(rules(confident=["Damien Chazelle", "Providence"]))
    (asked,) = [text for step, text in run.model.requests if step == "taikc/summarise"]
    assert json.loads(asked) == {
        "query1": {
            "question": "Who directed the film Whiplash?",
            "answer": "Damien Chazelle",
            "children": {"query2": {"question": "Where was Damien Chazelle born?", "answer": "Providence"}},
        }
    }


def test_the_final_question_is_the_question_itself_over_the_chains() -> None:
    run = Run(rules(summarise="Damien Chazelle was born in Providence."))
    (asked,) = [text for step, text in run.model.requests if step == "taikc/final"]
    assert "Damien Chazelle was born in Providence." in asked
    assert ROOT in asked


def test_a_plan_that_cannot_be_read_is_asked_for_once_more() -> None:
    script = [Rule(["No plan, sorry.", json.dumps(CHAIN)], step="decompose"), *rules()[1:]]
    run = Run(script)
    assert run.steps.count("decompose") == 2
    assert "That cannot be used: it is not valid JSON" in run.model.requests[1][1]
    assert len(run.of("plan")[0]["nodes"]) == 2


def test_a_dangling_reference_is_asked_about_once_and_then_repaired() -> None:
    raw = {"query1": "Who?", "query2": "Where was #query7 born?"}
    run = Run(rules(raw))
    assert run.steps.count("decompose") == 2
    assert "#query7 cannot be meant" in run.model.requests[1][1]
    assert [issue["kind"] for issue in run.of("plan")[0]["issues"]] == ["ref_dangling"]
    assert run.node(2)["resolved"] == "Where was read answer born?"


@pytest.mark.parametrize("reply", ["", "I cannot do that.", "{}", "[]", "{" * 9, '{"query1": {}}'])
def test_a_question_that_yields_no_plan_is_its_own_node(reply: str) -> None:
    run = Run([Rule(reply, step="decompose"), *rules()[1:]])
    assert run.steps.count("decompose") == 2
    (planned,) = run.of("plan")
    assert [node["question"] for node in planned["nodes"]] == [ROOT]
    assert [issue["kind"] for issue in planned["issues"]] == ["decompose_failed"]
    assert run.result.warnings
    assert run.result.answer == "final answer"


def test_a_reference_without_an_answer_is_described() -> None:
    run = Run(rules(read="It is not stated here.", direct=""))
    assert run.node(1)["state"] == "unanswered"
    assert run.node(2)["resolved"] == 'Where was the answer to "Who directed the film Whiplash?" born?'
    assert [issue["kind"] for issue in run.of("plan_issue", node=2)] == ["ref_unanswered"]


def test_an_answer_that_looks_like_a_reference_is_not_resolved_again() -> None:
    run = Run(rules(confident=["#query2", "Providence"]))
    assert run.node(2)["resolved"] == "Where was #query2 born?"


# Budgets


@pytest.mark.parametrize("calls", [1, 2, 3, 4])
def test_a_budget_of_calls_stops_without_the_answer_to_a_part(calls: int) -> None:
    run = Run(rules(confident=["Damien Chazelle", "Providence"]), budget=Budget(calls=calls))
    assert (run.result.answer, run.result.stopped_by) == ("", "calls")
    assert len(run.model.requests) == calls
    assert run.result.error == ""
    assert "The budget of calls ended the run; no answer was found until then." in run.result.warnings


def test_a_budget_that_ends_leaves_what_answers_the_question_itself() -> None:
    run = Run(rules({"query1": {"question": ROOT}}, confident="Providence"), budget=Budget(calls=2))
    assert (run.result.answer, run.result.stopped_by) == ("Providence", "calls")
    assert "The budget of calls ended the run; the answer is the best found until then." in run.result.warnings


def test_a_budget_that_is_enough_is_not_noticed() -> None:
    run = Run(rules(confident=["Damien Chazelle", "Providence"]), budget=Budget(calls=5))
    assert (run.result.answer, run.result.stopped_by) == ("final answer", "")


def test_a_budget_of_tokens_stops_too() -> None:
    run = Run(rules(), budget=Budget(tokens=1))
    assert (run.result.stopped_by, len(run.model.requests)) == ("tokens", 1)


def test_a_budget_of_seconds_stops_a_slow_model() -> None:
    script = [*rules()[:1], Rule("Damien Chazelle", step="confident", contains="Whiplash"), Rule("x", latency=30)]
    run = Run(script, budget=Budget(seconds=0.2))
    assert (run.result.answer, run.result.stopped_by) == ("", "seconds")
    assert run.node(1)["answer"] == "Damien Chazelle"
