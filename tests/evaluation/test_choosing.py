"""Fitting and replaying courses of hop whose outcome is known by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hoptree.core.errors import InputError
from hoptree.core.values import Answer
from hoptree.evaluation.fit_chooser import Course, Moment, fit_chooser, replay
from hoptree.methods.hop.candidates import Candidate
from hoptree.methods.hop.chooser import Chooser, Outlook, Policy

READS = Chooser({"confidence": 4.0, "agreement": 3.0}, -2.0, {"again": Outlook(0.5, 500), "split": Outlook(0.4, 4000)})


def said(text: str, way: str, sure: float) -> Candidate:
    return Candidate(Answer(text, confidence=sure), way)  # type: ignore[arg-type]


def course(number: int, *, right_first: bool) -> Course:
    """Who is right at first is sure of it; else the second reading is sure, and right."""
    first = said("Oslo" if right_first else "Rome", "read", 0.9 if right_first else 0.3)
    moments = (
        Moment("read", (first,), {}, 1, 800),
        Moment("again", (said("Oslo", "again", 0.95),), {}, 1, 500),
        Moment("split", (said("Oslo", "split", 0.5),), {}, 4, 4000),
    )
    return Course(f"q{number}", f"Where is place {number}?", ("Oslo",), "lookup", moments)


def test_a_policy_is_replayed_from_what_every_move_brought() -> None:
    sure, unsure = course(0, right_first=True), course(1, right_first=False)
    policy = Policy(sure=0.8, worth=0.01)
    assert replay(sure, READS, policy) == (1.0, 1, 800), "one reading was enough"
    assert replay(unsure, READS, policy) == (1.0, 2, 1300), "the second one settled it"
    assert replay(unsure, READS, policy, without=["again"]) == (1.0, 5, 4800)
    assert replay(unsure, READS, policy, without=["again", "split"]) == (0.0, 1, 800)
    assert replay(unsure, READS, Policy(sure=1.0, worth=0.0)) == (1.0, 6, 5300), "never sure: every move"
    assert replay(unsure, READS, Policy(sure=0.8, worth=9.0)) == (0.0, 1, 800), "no move is worth that"


def test_what_is_fitted_to_courses() -> None:
    courses = [course(number, right_first=number % 2 == 0) for number in range(40)]
    fitted = fit_chooser(courses, calls=4.0, made_from={"by": "hand"})
    assert (fitted.questions, fitted.first, fitted.chosen, fitted.oracle) == (40, 0.5, 1.0, 1.0)
    assert fitted.captured == 1.0
    again, split = fitted.chooser.outlooks["again"], fitted.chooser.outlooks["split"]
    assert again.settles > 0.5 and split.settles == 0, "the second reading settled all that there was to settle"
    assert (again.tokens, split.tokens) == (500, 4000)
    assert fitted.policies[0].f1 == 1.0 and fitted.policies[0].calls <= 2
    assert fitted.chooser.policy == fitted.policies[0].policy
    cheap = fit_chooser(courses, calls=1.0, made_from={})
    assert cheap.policies[0].calls == 1.0 and cheap.policies[0].f1 == 0.5, "no more calls than are allowed"


def test_a_kind_with_few_questions_is_not_believed_to_be_another() -> None:
    most = [course(number, right_first=number % 2 == 0) for number in range(40)]
    rare = replace(course(40, right_first=True), operator="count")
    outlooks = fit_chooser([*most, rare], calls=4.0, made_from={}).chooser.outlooks
    over_all, alone = outlooks["again"].settles, outlooks["again/count"].settles
    assert 0.8 * over_all < alone <= over_all, "its one question gained nothing"


def test_too_few_questions_are_refused() -> None:
    with pytest.raises(InputError, match="too few"):
        fit_chooser([course(0, right_first=True)], calls=4.0, made_from={})
