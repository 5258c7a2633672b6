"""TreeQA with a scripted model: what a tree says of how sure its answers are is no part of an answer."""

from __future__ import annotations

import pytest
from tests.methods.treeqa_asked import (
    LANDING,
    Run,
    refutes,
    rules,
    verdict,
)

from hoptree.core.values import Answer
from hoptree.methods.treeqa.method import strip_certainty

MARKS = [
    "not verified",
    "supported by evidence",
    "corrected by evidence",
    "refuted by evidence",
    "refuted by evidence: It was Nixon (the 37th)",
    "not verified; evidence says: Gerald Ford",
    "not verified: it was called wrong, and nothing else was given",
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
