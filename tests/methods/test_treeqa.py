"""TreeQA with a scripted model: what becomes of supported, refuted and unknown hypotheses, and of broken trees."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from tests.methods.small_knowledge import Pages, SmallGraph
from tests.methods.treeqa_asked import (
    LANDING,
    MOON,
    PRESIDENT,
    TREE,
    WRONG_PRESIDENT,
    Run,
    node,
    refutes,
    rules,
    tree,
    verdict,
)

from hoptree.models.scripted import Rule

# Supported, refuted, unknown


def test_supported_hypotheses_stay_and_children_are_validated_after_them() -> None:
    run = Run(rules(validate=verdict(True, "T1", "F1")))
    assert run.steps == ["build", "mentions", "validate", "mentions", "validate", "final"]
    (landing,) = run.tops
    (president,) = landing.children
    assert [(node.id, node.verdict, node.struck) for node in (landing, president)] == [
        (1, "supported", ()),
        (2, "supported", ()),
    ]
    assert (landing.answer, landing.evidence) == ("Apollo 8, in December 1968", ("Apollo 8_0_0",))
    assert landing.facts == (("Moon", "third landing", "Apollo 14"),)
    assert run.node(0)["fixes"] == 0 and run.result.answer == "Richard Nixon"


def test_a_rebuilt_node_is_not_validated_again_and_its_new_children_are() -> None:
    run = Run(rules(refutes(LANDING)), whole_corpus=True)
    assert run.steps == ["build", "mentions", "validate", "rebuild", "mentions", "validate", "final"]
    validated = [text.rpartition("Question: ")[2].splitlines()[0] for text in run.texts("validate")]
    assert validated == [LANDING, PRESIDENT], "neither the rebuilt node again, nor the old child"
    (landing,) = run.tops
    assert (landing.answer, landing.struck, landing.verdict) == (
        "Apollo 14, on February 5, 1971",
        ("Apollo 8, in December 1968",),
        "refuted",
    )
    shown = run.node(1)["attempts"][0]["passages"]
    assert shown[:2] == ["Apollo 8_0_0", "Apollo 14_0_0"], "the page that the query names, and what is searched for"
    assert landing.evidence == ("Apollo 8_0_0",), "what refuted it is what the correction rests on"
    (president,) = landing.children
    assert (president.id, president.question, president.verdict) == (101, PRESIDENT, "supported")
    record = run.node(1)
    assert (record["rebuilt"], record["size_before"], record["size_after"]) == (True, 2, 2)
    assert (record["hypothesis_before"], record["hypothesis"]) == (landing.struck[0], landing.answer)
    assert run.node(0)["fixes"] == 1 and run.of("decision", kind="corrected")[0]["value"] == 1


def test_the_rebuild_is_told_why_and_what_is_right() -> None:
    (text,) = Run(rules(refutes(LANDING))).texts("rebuild")
    assert f"Main question: {MOON}" in text and WRONG_PRESIDENT in text
    assert "Why it is wrong: The third landing was that of Apollo 14." in text and "Correct answer: Apollo 14" in text


@pytest.mark.parametrize(
    "reply",
    [
        '{"isTrue": "unknown", "fact_sufficient": false, "reason": "None", "ref": "No Information provided."}',
        '{"isTrue": unknown, "fact_sufficient": false, "ref": "No Information provided."}',
        '{"fact_sufficient": true, "ref": {"wikipedia": ["T1"]}}',
        '{"isTrue": "true", "ref": ["T1"]}',
        '{"isTrue": 1, "ref": ["T1"]}',
        '{"isTrue": null}',
        '{"isTrue": [true]}',
        '{"isTrue": true/false/unknown}',
        '{"isTrue": false, "fact_sufficient": false, "reason": "no facts"}',
        '{"isTrue": true, "isTrue": "unknown"}',
        "true",
        "The answer is correct.",
        "",
        "{",
        "[]",
        "null",
    ],
)
def test_unknown_in_any_shape_is_never_supported(reply: str) -> None:
    run = Run(rules(validate=reply, build=tree(node(LANDING, "Apollo 8"))))
    assert run.result.error == ""
    assert run.verdicts(1) == ["unknown", "unknown"] and run.steps.count("clue") == 1
    (landing,) = run.tops
    assert (landing.verdict, landing.evidence, landing.answer) == ("unknown", (), "Apollo 8")
    assert "rebuild" not in run.steps and "(not verified)" in run.texts("final")[0]


def test_without_any_evidence_there_are_two_validations_one_clue_and_no_call_for_a_verdict() -> None:
    run = Run(rules(build=tree(node(LANDING, "Apollo 8"))), graph=SmallGraph(), pages=Pages())
    assert Counter(run.steps) == {"build": 1, "mentions": 2, "clue": 1, "final": 1}
    assert run.verdicts(1) == ["unknown", "unknown"] and run.node(0)["validations"] == 2
    assert [event["asked"] for event in run.of("decision", kind="verdict")] == [False, False]


def test_unknown_twice_keeps_the_node_and_goes_on_to_its_children() -> None:
    run = Run(rules(Rule(verdict("unknown"), step="validate", contains=LANDING)))
    assert Counter(run.steps) == {"build": 1, "mentions": 3, "validate": 3, "clue": 1, "relations": 1, "final": 1}
    assert [run.verdicts(number) for number in (1, 2)] == [["unknown", "unknown"], ["supported"]]
    assert run.node(1)["source"] == "internal" and run.node(1)["clues"] == ["Apollo 14"]


@pytest.mark.parametrize("attempts", [1, 2, 3, 5])
def test_attempts_are_counted_and_not_retries(attempts: int) -> None:
    run = Run(rules(validate=verdict("unknown"), build=tree(node(LANDING, "Apollo 8"))), max_attempts=attempts)
    assert (run.steps.count("validate"), run.steps.count("clue")) == (attempts, attempts - 1)


def test_the_clue_itself_is_searched_for_and_not_its_json() -> None:
    verdicts = [verdict("unknown"), verdict(True, "T1")]
    run = Run(
        rules(validate=verdicts, build=tree(node("Who was it?", "an American")), clue='{"new_clue": "Apollo 14"}'),
        whole_corpus=True,
    )
    assert run.shelf.asked[-1] == ("Apollo 14", "Apollo 14")
    assert run.verdicts(1) == ["unknown", "supported"]


def test_a_clue_replaces_the_evidence_unless_that_is_to_add_up_with_the_newest_first() -> None:
    """Algorithm 3: (G, T) is what the clue finds."""

    def script() -> list[Rule]:
        verdicts = [verdict("unknown"), verdict(True, "T1")]
        return rules(validate=verdicts, build=tree(node("Who was Richard Nixon?", "a President")))

    run = Run(script())
    first, second = run.texts("validate")
    assert "[T1] Richard Nixon" in first and "Apollo 14" not in first
    assert "[T1] Apollo 14" in second and "[T2]" not in second
    assert run.result.fidelity == "exact"
    run = Run(script(), accumulate=True)
    assert run.result.fidelity == "approx"
    _, second = run.texts("validate")
    assert "[T1] Apollo 14" in second and "[T2] Richard Nixon" in second
    assert run.tops[0].evidence == ("Apollo 14_0_0",)


def test_a_clue_that_says_nothing_ends_the_attempts() -> None:
    run = Run(rules(validate=verdict("unknown"), build=tree(node(LANDING, "Apollo 8")), clue="{}"), max_attempts=3)
    assert run.verdicts(1) == ["unknown"]


# References


def test_references_to_what_is_not_there_are_dropped_and_told() -> None:
    run = Run(rules(validate=verdict(True, "T1", "T9", "Moon-owner-Nobody"), build=tree(node(LANDING, "Apollo 14"))))
    assert run.tops[0].evidence == ("Apollo 14_0_0",) and run.tops[0].facts == ()
    assert run.of("decision", kind="ref_fabricated")[0]["value"] == ["T9", "Moon-owner-Nobody"]
    assert run.node(1)["fabricated"] == ["T9", "Moon-owner-Nobody"]


def test_no_information_is_no_reference_and_does_not_end_the_question() -> None:
    reply = json.dumps({"isTrue": True, "fact_sufficient": True, "ref": "No Information provided."})
    run = Run(rules(validate=reply, build=tree(node(LANDING, "Apollo 14"))))
    assert (
        run.result.error == "" and run.tops[0].verdict == "supported" and not run.of("decision", kind="ref_fabricated")
    )


# The tree and its repairs


def test_a_tree_that_cannot_be_read_is_asked_for_once_more() -> None:
    run = Run(rules(build=["I would start with the moon.", TREE]))
    assert run.steps.count("build") == 2 and len(run.tops) == 1
    assert "That cannot be used" in run.texts("build")[1]


def test_a_question_without_a_tree_is_its_own_node_and_says_so() -> None:
    run = Run(rules(build="nothing at all", direct="Lyndon Johnson"))
    assert run.steps[:3] == ["build", "build", "direct"]
    (only,) = run.tops
    assert (only.question, only.hypothesis) == (MOON, "Lyndon Johnson")
    assert any("could not be read" in warning for warning in run.result.warnings)


def test_missing_hypotheses_are_asked_for() -> None:
    run = Run(rules(build=tree(node(LANDING, "", node(WRONG_PRESIDENT, "unknown"))), direct="a guess"))
    assert run.steps.count("direct") == 2
    assert [run.node(number)["hypothesis"] for number in (1, 2)] == ["a guess", "a guess"]


def test_a_question_that_nobody_has_a_hypothesis_for_is_never_supported() -> None:
    run = Run(rules(build=tree(node(LANDING, "")), direct="unknown", validate=verdict(True, "T1")))
    assert run.tops[0].verdict == "unknown"


def test_the_rebuilt_hypothesis_that_is_the_refuted_one_gives_way_to_the_reason() -> None:
    same = json.dumps(node(LANDING, "apollo 8 in december 1968.", node(WRONG_PRESIDENT, "Lyndon Baines Johnson")))
    run = Run(rules(refutes(LANDING), rebuild=same))
    (landing,) = run.tops
    assert (landing.answer, landing.children) == ("Apollo 14", [])
    assert run.of("plan_issue", kind="rebuild_noop") and run.node(1)["rebuild_issues"] == ["rebuild_noop"]


def test_a_rebuilt_tree_that_cannot_be_read_leaves_what_the_reason_says_and_no_stale_children() -> None:
    run = Run(rules(refutes(LANDING), rebuild="I cannot do that."))
    (landing,) = run.tops
    assert (landing.answer, landing.children, run.steps.count("rebuild")) == ("Apollo 14", [], 2)
    assert run.of("plan_issue", kind="rebuild_unreadable")


def test_a_rebuilt_tree_without_children_keeps_none() -> None:
    run = Run(rules(refutes(LANDING), rebuild=json.dumps(node(LANDING, "Apollo 14"))))
    assert run.tops[0].children == []


def test_a_rebuilt_tree_may_be_one_level_deeper_and_no_more() -> None:
    deep = node(LANDING, "Apollo 14", node("a?", "b", node("c?", "d", node("e?", "f", node("g?", "h")))))
    run = Run(rules(refutes(LANDING), rebuild=json.dumps(deep)))
    assert [run.node(number)["depth"] for number in (1, 101, 102)] == [1, 2, 3] and not run.node(103)
    assert run.of("plan_issue", kind="rebuild_deeper")
