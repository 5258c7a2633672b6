"""TreeQA with a scripted model: what a tree says of how sure its answers are is no part of an answer."""

from __future__ import annotations

import pytest
from tests.methods.small_knowledge import Pages, SmallGraph
from tests.methods.treeqa_asked import (
    LANDING,
    NIXON,
    PAGES,
    PRESIDENT,
    Run,
    node,
    refutes,
    robust_run,
    rules,
    tree,
    verdict,
)

from hoptree.core.values import Answer
from hoptree.methods.treeqa.walk import strip_certainty
from hoptree.models.scripted import Rule

MARKS = [
    "not verified",
    "supported by evidence",
    "corrected by evidence",
    "refuted by evidence",
    "refuted by evidence: It was Nixon (the 37th)",
    "not verified; evidence says: Gerald Ford",
    "not verified; the model says: Gerald Ford",
    "not verified: it was called wrong, and nothing else was given",
    "as it follows from what was corrected below",
    "it is asked about what turned out wrong",
]


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_that_was_copied_is_no_part_of_the_answer(mark: str) -> None:
    run = Run(rules(refutes(LANDING), final=f"Answer: Richard Nixon ({mark})"))
    assert run.result.answer == "Richard Nixon"
    (final,) = run.of("final")
    assert mark in final["raw"], "what was said stays in the trace"


@pytest.mark.parametrize("answer", ["Paris (Texas)", "The Beatles (not The Who)", "not verified", "Evidence (album)"])
def test_what_is_no_mark_stays(answer: str) -> None:
    assert strip_certainty(Answer(answer)).text == answer


def test_every_mark_of_a_tree_is_known() -> None:
    """Those that these runs show, by their form: whoever adds one adds it where answers are freed of it."""
    shown = [
        Run(rules(refutes(LANDING))),
        Run(rules(validate=verdict("unknown"), clue="{}")),
        Run(rules(refutes(LANDING), rebuild="{}")),
    ]
    lines = [line.strip() for run in shown for line in run.texts("final")[0].splitlines()]
    answers = [line.removeprefix("Answer: ") for line in lines if line.startswith("Answer: ")]
    assert len(answers) >= 5
    assert not any(strip_certainty(Answer(answer)).text.endswith(")") for answer in answers), answers


@pytest.mark.parametrize("nothing", ["unknown (not verified)", "(not verified)"])
def test_a_mark_alone_or_behind_unknown_is_no_answer(nothing: str) -> None:
    run = Run(rules(final=nothing))
    assert (run.result.answer, run.result.abstained) == ("", True)


ABOVE = "Who was President at the third landing?"


def test_what_is_brought_in_line_takes_no_mark_along() -> None:
    build = tree(node(ABOVE, "Lyndon Baines Johnson", node(PRESIDENT, "Lyndon Baines Johnson")))
    elected = verdict(False, "T1", reason="It was Nixon.", correct="Richard Nixon")
    unsaid = Rule(verdict("unknown"), step="validate", contains=f"Question: {ABOVE}")
    refuted = Rule(elected, step="validate", contains=f"Question: {PRESIDENT}")
    script = rules(unsaid, refuted, build=build, clue="{}", align="Richard Nixon (corrected by evidence)")
    run = robust_run(script, graph=SmallGraph(), pages=Pages(*PAGES, NIXON))
    (top,) = run.tops
    assert top.answer == "Richard Nixon" and run.node(1)["hypothesis"] == "Richard Nixon"


def test_the_tree_that_is_read_beyond_the_paper_takes_none_along_either() -> None:
    run = robust_run(rules(validate=verdict("unknown"), clue="{}", final="Lyndon Baines Johnson (not verified)"))
    assert "final" in run.steps and run.result.answer == "Lyndon Baines Johnson"
