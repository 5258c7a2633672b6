"""What TreeQA holds of a hypothesis that a model wrote anew: it may say anything, whatever evidence says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.methods.treeqa_asked import LANDING, WRONG_PRESIDENT, Run, node, refutes, rules, shape, tree, verdict

from hoptree.methods.treeqa.method import golden_tree
from hoptree.models.scripted import Rule

WRONG = "Apollo 8, in December 1968"
LED = tree(node(LANDING, WRONG, node("Who led the country?", "Johnson")))


def refuted(**fields: Any) -> Rule:
    return Rule(verdict(False, "T1", **fields), step="validate", contains=f"Question: {LANDING}")


# Told


def moon(*first: Rule, rebuild: str, build: str = LED, **options: Any) -> Run:
    return Run(rules(*first, build=build, rebuild=rebuild), **options)


def explanation(run: Run) -> str:
    """How the prompt that draws the conclusion has the answer of the first node."""
    (line,) = [line for line in run.texts("final")[-1].splitlines() if line.startswith("  Answer:")]
    return line.strip()


def golden(run: Run) -> dict[str, Any]:
    (top,) = golden_tree(run.result)["logic_tree"]["children"]
    assert isinstance(top, dict)
    return top


def test_a_new_hypothesis_against_the_correction_is_told_as_a_guess() -> None:
    run = moon(refutes(LANDING), rebuild=json.dumps(node(LANDING, "Apollo 12, on November 19, 1969")))
    assert explanation(run) == "Answer: Apollo 12, on November 19, 1969 (not verified; evidence says: Apollo 14)"
    top = golden(run)
    assert (top["hypothesis_answer"], top["verdict"]) == ("Apollo 12, on November 19, 1969", "unknown")
    assert "ref" not in top, "what it cites says something else"
    assert (run.tops[0].source, run.tops[0].struck) == ("internal", (WRONG,))
    assert run.node(1)["rebuild_issues"] == ["rebuild_unsaid"]


@pytest.mark.parametrize(
    ("fields", "hypothesis"),
    [
        ({"correct": "Apollo 14"}, "Apollo 14, on February 5, 1971"),
        ({"correct": "It was Apollo 14 on 5 February 1971"}, "Apollo 14, February 5, 1971"),
        ({"reason": "The third landing was that of Apollo 14."}, "Apollo 14"),
        ({}, "Apollo 14"),
    ],
)
def test_what_evidence_bears_out_is_told_as_corrected_by_it(fields: dict[str, str], hypothesis: str) -> None:
    run = moon(refuted(**fields), rebuild=json.dumps(node(LANDING, hypothesis)))
    assert explanation(run) == f"Answer: {hypothesis} (corrected by evidence)"
    assert "verdict" not in golden(run) and golden(run)["ref"]
    assert run.tops[0].source == "external"


def test_another_question_is_held_against_the_evidence_alone() -> None:
    asked = "Which mission flew around the Moon?"
    run = moon(refutes(LANDING), rebuild=json.dumps(node(asked, "Apollo 8, in December 1968, again")))
    assert run.tops[0].answer != "Apollo 14", "that is the answer to another question"


# Nothing new


SAME = json.dumps(node(LANDING, WRONG))


@pytest.mark.parametrize("traversal", ["serial", "level", "speculative"])
@pytest.mark.parametrize(
    ("rule", "rebuild"),
    [
        (refuted(reason="It was Apollo 8", correct=WRONG), SAME),
        (refuted(reason="It was Apollo 8", correct=WRONG), "sorry"),
        (refuted(), SAME),
        (refuted(), "sorry"),
        (refuted(reason="The texts do not mention the answer."), "sorry"),
    ],
)
def test_a_correction_that_gives_nothing_new_leaves_the_node_as_it_is(rule: Rule, rebuild: str, traversal: str) -> None:
    build = tree(node(LANDING, WRONG, node(WRONG_PRESIDENT, "Lyndon Baines Johnson")))
    run = moon(rule, rebuild=rebuild, build=build, traversal=traversal)
    (top,) = run.tops
    assert (top.answer, top.verdict, top.struck, top.source) == (WRONG, "refuted", (), "internal")
    assert [child.verdict for child in top.children] == ["supported"], "what is below is validated by itself"
    assert run.node(0)["fixes"] == 0
    assert "corrected by evidence" not in run.texts("final")[-1]
    assert f"Answer: {WRONG} (not verified: it was called wrong" in run.texts("final")[-1]
    assert golden(run)["verdict"] == "refuted"


def test_a_reason_that_names_something_else_takes_the_place_of_a_hypothesis_that_comes_again() -> None:
    reason = "The information says that the third landing was that of Apollo 14 and not that of Apollo 8."
    run = moon(refuted(reason=reason), rebuild=SAME)
    assert (run.tops[0].answer, run.tops[0].struck, run.node(0)["fixes"]) == (reason, (WRONG,), 1)
    assert explanation(run) == f"Answer: {reason} (corrected by evidence)"


def test_a_separate_reason_that_is_not_known_leaves_the_node_as_it_is() -> None:
    reply = '{"reason": "unknown", "correct_answer": "unknown"}'
    script = rules(refutes(LANDING), reason=reply, rebuild="x", build=LED)
    run = Run(script, reason="separate")
    assert (run.tops[0].answer, run.tops[0].struck, run.node(0)["fixes"]) == (WRONG, (), 0)


def test_the_tree_is_the_same_however_it_is_walked() -> None:
    rebuilt = json.dumps(node(LANDING, "Apollo 12", node("Who led the country?", "Nixon")))
    traversals = ("serial", "level", "speculative")
    runs = [moon(refutes(LANDING), rebuild=rebuilt, traversal=traversal) for traversal in traversals]
    assert [shape(run.tops) for run in runs] == [shape(runs[0].tops)] * 3


# Replies that cannot be read


def test_a_line_break_in_a_new_hypothesis_puts_no_child_in_its_place() -> None:
    reply = json.dumps(node(LANDING, "Apollo 14,@on February 5, 1971", node("Who led the country?", "Nixon")))
    run = moon(refutes(LANDING), rebuild=reply.replace("@", "\n"))
    assert (run.tops[0].resolved, run.tops[0].answer) == (LANDING, "Apollo 14, on February 5, 1971")


def test_a_new_tree_that_cannot_be_read_is_asked_for_once_more() -> None:
    bad = '{"sub_question": so and so, "children": [{"sub_question": "Who?", "hypothesis_answer": "Nixon"}]}'
    good = json.dumps(node(LANDING, "Apollo 14"))
    run = Run(rules(refutes(LANDING), build=LED, rebuild=[bad, good]))
    assert [event["ok"] for event in run.of("parse", step="rebuild")] == [False, True]
    assert run.tops[0].answer == "Apollo 14"


def test_a_guess_that_says_that_nothing_is_known_is_never_supported() -> None:
    build = tree(node(LANDING, "I don't know"))
    run = moon(Rule(verdict(True, "T1"), step="validate"), rebuild="x", build=build)
    assert run.node(1)["hypothesis_before"] != "I don't know"
