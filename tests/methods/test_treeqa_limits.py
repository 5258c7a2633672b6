"""TreeQA with a scripted model: failures, budgets, caps, and what is recorded and drawn."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console
from tests.methods.treeqa_asked import (
    LANDING,
    WRONG_PRESIDENT,
    Run,
    node,
    refutes,
    rules,
    tree,
    verdict,
)

from hoptree.cli.render import show_result
from hoptree.core.errors import EndpointError
from hoptree.engine.context import Budget
from hoptree.models.scripted import Rule, ScriptedModel

# Failures and fallbacks


@pytest.mark.parametrize("step", ["build", "validate", "clue", "rebuild", "final"])
@pytest.mark.parametrize("traversal", ["serial", "level", "speculative"])
def test_a_failed_question_is_a_failure_and_never_the_draft(step: str, traversal: str) -> None:
    second = Rule(verdict("unknown"), step="validate", contains=WRONG_PRESIDENT)
    script = [Rule(fault="401", step=step), *rules(refutes(LANDING), second)]
    if step == "clue":
        script = [Rule(fault="401", step=step), *rules(validate=verdict("unknown"))]
    run = Run(script, traversal=traversal)
    assert isinstance(run.result.failure, EndpointError)
    assert (run.result.answer, run.result.error) == ("", "EndpointError")


@pytest.mark.parametrize("traversal", ["serial", "level", "speculative"])
def test_a_budget_that_ends_it_gives_the_draft_and_says_so(traversal: str) -> None:
    run = Run(rules(), budget=Budget(calls=2), traversal=traversal)
    assert (run.result.answer, run.result.stopped_by) == ("Lyndon Baines Johnson", "calls")
    (final,) = run.of("final")
    assert final["source"] == "fallback"
    assert run.result.warnings == (
        "The budget of calls ended the run; the answer is the draft, which nothing was held against.",
    )


def test_a_final_answer_that_says_unknown_is_no_answer_and_not_the_draft() -> None:
    run = Run(rules(final="unknown"))
    assert (run.result.answer, run.result.abstained) == ("", True)


# Caps


def wide(count: int) -> str:
    return tree(*(node(f"What is number {n} on the Moon?", f"thing {n}") for n in range(count)))


def test_no_more_than_sixteen_nodes_are_validated() -> None:
    run = Run(rules(build=wide(30)))
    assert len(run.tops) == 16 and run.steps.count("validate") == 16
    assert run.of("plan")[0]["issues"][0]["kind"] == "cap_nodes"


@pytest.mark.parametrize("traversal", ["serial", "level", "speculative"])
def test_no_more_than_eight_fixes(traversal: str) -> None:
    script = rules(
        build=wide(12),
        validate=verdict(False, "T1", reason="It is another.", correct="another"),
        rebuild=json.dumps(node("What is it?", "another")),
    )
    run = Run(script, traversal=traversal)
    assert run.node(0)["fixes"] == 8
    assert [bool(each.struck) for each in run.tops] == [True] * 8 + [False] * 4
    assert "refuted by evidence: It is another." in run.texts("final")[0]


@pytest.mark.parametrize("traversal", ["serial", "level", "speculative"])
def test_no_more_than_forty_validations(traversal: str) -> None:
    run = Run(rules(build=wide(12), validate=verdict("unknown")), max_attempts=4, traversal=traversal)
    assert run.node(0)["validations"] == 40
    assert len(run.verdicts(10)) == 4 and run.verdicts(11) == [] and run.tops[11].verdict == "unknown"


# Records and pictures


def test_a_node_tells_all_that_the_papers_tables_need() -> None:
    run = Run(rules(refutes(LANDING), Rule([verdict("unknown"), verdict(True, "F1")], step="validate")))
    record = run.node(101)
    assert (record["path"], record["level"], record["depth"]) == ([0, 1, 101], 1, 2)
    assert [attempt["verdict"] for attempt in record["attempts"]] == ["unknown", "supported"]
    assert record["clues"] == ["Apollo 14"] and record["attempts"][1]["passages"]
    assert (
        set(record["stages"]) == {"mentions", "validate", "clue", "relations"}
        and sum(record["stages"].values()) == record["tokens"]
    )
    assert set(run.node(1)["stages"]) == {"mentions", "validate", "rebuild"}


def test_looking_into_the_graph_is_traced_and_counted() -> None:
    run = Run(rules(build=tree(node("What did Apollo 14 do?", "It landed on the Moon"))))
    facts = {event["label"]: event for event in run.of("facts")}
    assert (facts["Apollo 14"]["direction"], facts["Apollo 14"]["node"]) == ("both", 1)
    assert "Apollo 14 | part of | Apollo program" in facts["Apollo 14"]["facts"]
    assert run.result.usage.retrievals == len(facts) + len(run.of("retrieve"))
    assert {event["name"] for event in run.of("entities")} >= {"Apollo 14", "Moon"}


def test_the_picture_strikes_out_what_was_refuted() -> None:
    run = Run(rules(refutes(LANDING)))
    out = Console(record=True, file=io.StringIO(), width=400)
    show_result(out, run.result)
    text = out.export_text(clear=False)
    assert "Apollo 8, in December 1968 ⇒ Apollo 14, on February 5, 1971  [refuted, and corrected" in text
    assert "text-decoration: line-through" in out.export_html()


def test_parts_of_it_can_be_played_by_other_models() -> None:
    judge = ScriptedModel(rules=[Rule(verdict(True, "T1"))])
    run = Run(rules(Rule("must not be asked", step="validate", fault="401")), roles={"verify": judge})
    assert run.result.answer == "Richard Nixon" and len(judge.requests) == 2
