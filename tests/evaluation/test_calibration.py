"""Knowing what one knows: decisions, confidence, and TAIKC's boundary awareness, worked by hand."""

from __future__ import annotations

import math
from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.evaluation.calibration import (
    Attempt,
    BoundaryAwareness,
    CurvePoint,
    Domain,
    Flip,
    MemoryDecision,
    average,
    boundary,
    calibrate,
    memory_decisions,
    score_attempt,
)

DECISIONS = st.lists(
    st.builds(MemoryDecision, st.booleans(), st.booleans(), st.none() | st.floats(0, 1)), min_size=1, max_size=40
)


def sure(*pairs: tuple[float | None, bool]) -> list[MemoryDecision]:
    return [
        MemoryDecision(confidence is not None and confidence > 0.5, right, confidence) for confidence, right in pairs
    ]


# Decisions and confidence


def test_precision_coverage_and_both_kinds_of_mistakes() -> None:
    found = calibrate(
        [MemoryDecision(True, True)] * 3
        + [MemoryDecision(True, False)] * 1
        + [MemoryDecision(False, True)] * 2
        + [MemoryDecision(False, False)] * 4
    )
    assert (found.questions, found.from_memory, found.coverage, found.precision) == (10, 4, 0.4, 0.75)
    assert (found.overconfident, found.underconfident) == (1, 2)
    assert (found.without_confidence, found.ece, found.curve) == (10, None, ())


def test_expected_calibration_error_by_hand() -> None:
    # (0.9, 1]: 0.95 and 1.0, one right: |0.975 - 0.5| = 0.475, weight 2/5.
    # (0.5, 0.6]: 0.6 and 0.6, both right: |0.6 - 1| = 0.4, weight 2/5. [0, 0.1]: 0, wrong: 0.
    found = calibrate(sure((0.95, True), (1.0, False), (0.6, True), (0.6, True), (0.0, False)))
    assert found.ece == pytest.approx((2 * 0.475 + 2 * 0.4) / 5)
    assert [part.questions for part in found.bins] == [1, 0, 0, 0, 0, 2, 0, 0, 0, 2]
    assert (found.bins[5].confidence, found.bins[5].accuracy) == (0.6, 1.0)
    assert (found.bins[1].confidence, found.bins[1].accuracy) == (None, None)
    assert (found.bins[0].low, found.bins[0].high, found.bins[-1].high) == (0.0, 0.1, 1.0)


@pytest.mark.parametrize("tenth", range(1, 11))
def test_a_confidence_on_an_edge_belongs_below_it(tenth: int) -> None:
    found = calibrate(sure((tenth / 10, True), (math.nextafter(tenth / 10, 0), True)))
    assert found.bins[tenth - 1].questions == 2


def test_a_model_whose_confidence_is_its_accuracy_has_no_calibration_error() -> None:
    assert calibrate(sure(*[(0.75, True)] * 3, (0.75, False))).ece == pytest.approx(0)
    assert calibrate(sure((1.0, False), (0.0, True))).ece == 1.0


def test_the_curve_by_hand() -> None:
    found = calibrate(sure((0.9, True), (0.7, True), (0.7, False), (0.2, False), (None, True)))
    assert found.curve == (
        CurvePoint(0.9, 1, 1 / 5, 1.0),
        CurvePoint(0.7, 3, 3 / 5, 2 / 3),
        CurvePoint(0.2, 4, 4 / 5, 2 / 4),  # the fifth has no confidence and is never answered
    )
    assert found.without_confidence == 1


def test_no_decisions_have_no_figures() -> None:
    found = calibrate([])
    assert (found.questions, found.coverage, found.precision, found.ece) == (0, None, None, None)
    assert found.curve == ()


@given(DECISIONS)
def test_calibration_is_bounded_and_loses_no_question(decisions: list[MemoryDecision]) -> None:
    found = calibrate(decisions)
    assert found.coverage is not None and 0 <= found.coverage <= 1
    assert found.precision is None or 0 <= found.precision <= 1
    assert found.ece is None or 0 <= found.ece <= 1
    assert sum(part.questions for part in found.bins) + found.without_confidence == len(decisions)
    assert found == calibrate(decisions[::-1])
    coverages = [point.coverage for point in found.curve]
    assert coverages == sorted(set(coverages)) and all(0 <= point.precision <= 1 for point in found.curve)
    if found.curve:
        assert found.curve[-1].answered == len(decisions) - found.without_confidence


# Boundary awareness

DIRECT = {
    "kept": score_attempt("Paris", ["Paris"], judged=True),
    "turned": score_attempt("Rome", ["Rome"], judged=True),
    "still wrong": score_attempt("Oslo", ["Bergen"], judged=False),
    "unknown": score_attempt("Lima", ["Quito"], judged=False),
    "shy": score_attempt("Lake Como", ["Lago di Como", "Como"], judged=True),
}
CONFIDENT = {
    "kept": score_attempt("Paris, France", ["Paris"], judged=True),
    "turned": score_attempt("Milan", ["Rome"], judged=False),
    "still wrong": score_attempt("Narvik", ["Bergen"], judged=False),
    "unknown": None,
    "shy": None,
}


def test_boundary_awareness_by_hand() -> None:
    found = boundary(DIRECT, CONFIDENT, {"kept": True, "turned": False, "still wrong": False})
    # Direct F1: 1, 1, 0, 0 and 2/3 ("lake como" against "como").
    assert astuple(found.direct) == pytest.approx((5, (2 + 2 / 3) / 5, 2 / 5, 3 / 5, 3 / 5))
    assert astuple(found.confident) == pytest.approx((3, 2 / 9, 0, 1 / 3, 1 / 3))
    assert astuple(found.kept) == pytest.approx((3, 2 / 3, 2 / 3, 2 / 3, 2 / 3)), "what Direct QA said to the same"
    assert astuple(found.gap) == pytest.approx((2, 1 / 3, 0, 1 / 2, 1 / 2))
    assert found.consistency_f1 == pytest.approx((2 / 3 + 0 + 0) / 3)
    assert found.consistency_judged == pytest.approx(1 / 3)
    figures = found.figures()
    assert figures["gap_f1"] == pytest.approx(2 / 9 - 1 / 3)
    assert figures["gain_judged"] == pytest.approx(1 / 3 - 3 / 5)
    assert figures["knowledge_gap_correct"] == 1 / 2


def test_the_questions_of_figure_7() -> None:
    found = boundary(DIRECT, CONFIDENT, {"kept": True, "turned": False, "still wrong": False})
    assert found.flips == (
        Flip("turned", "Rome", "Milan", True, False),
        Flip("still wrong", "Oslo", "Narvik", False, False),
    )
    assert found.as_dict()["flips"][0]["direct"] == "Rome"
    assert [found.as_dict()[name] for name in ("questions", "answered", "refused")] == [5, 3, 2]


@pytest.mark.parametrize(
    ("direct", "confident", "same", "flipped"),
    [
        (Attempt("The Rome", True, 1.0), Attempt("rome.", False, 0.0), None, False),  # one normal form
        (Attempt("NYC", True, 1.0), Attempt("New York", True, 1.0), None, False),  # two names, both accepted
        (Attempt("Big Apple", False, 0.0, True), Attempt("New York", True, 1.0), None, False),  # right to the judge
        (Attempt("Big Apple", False, 0.0), Attempt("NY", False, 0.0), {"q": True}, False),  # the same to the judge
        (Attempt("Big Apple", False, 0.0), Attempt("New York", True, 1.0), None, True),
        (Attempt("Boston", False, 0.0), Attempt("", False, 0.0), None, True),
    ],
)
def test_other_words_are_no_other_answer(
    direct: Attempt, confident: Attempt, same: dict[str, bool] | None, flipped: bool
) -> None:
    assert bool(boundary({"q": direct}, {"q": confident}, same).flips) is flipped


def test_without_a_judge_there_are_no_judged_figures() -> None:
    unjudged = {name: Attempt(one.answer, one.em, one.f1) for name, one in DIRECT.items()}
    found = boundary(unjudged, CONFIDENT)
    assert (found.direct.judged, found.consistency_judged, found.figures()["gain_judged"]) == (None, None, None)
    assert found.direct.correct == 2 / 5
    half = {**DIRECT, "kept": unjudged["kept"]}
    assert boundary(half, CONFIDENT).direct.judged is None  # a mean over the rest would be of other questions


def test_nothing_refused_leaves_the_gap_open() -> None:
    answered = {name: one for name, one in CONFIDENT.items() if one is not None}
    found = boundary({name: DIRECT[name] for name in answered}, answered)
    assert found.gap == Domain(0, None, None, None, None)
    assert found.figures()["gap_f1"] is None and found.figures()["gain_f1"] is not None


def test_everything_refused_leaves_consistency_open() -> None:
    found = boundary(DIRECT, dict.fromkeys(DIRECT), {})
    assert (found.consistency_f1, found.consistency_judged, found.confident.f1, found.flips) == (None, None, None, ())
    assert found.gap == found.direct


def figures_of(confident: float, gap: float, direct: float) -> BoundaryAwareness:
    """A data set of which only the mean F1 is known."""
    all_of_it, sure, unsure = (Domain(1, value, None, None, None) for value in (direct, confident, gap))
    return BoundaryAwareness(all_of_it, sure, sure, unsure, consistency_f1=None, consistency_judged=None, flips=())


def test_the_papers_table_4_gives_the_papers_figure_9() -> None:
    rows = [(68.7, 22.0, 53.0), (94.6, 35.7, 91.8), (79.5, 35.8, 61.1), (51.3, 9.8, 40.8)]
    found = average([figures_of(*row) for row in rows])
    assert found["confident_f1"] == pytest.approx(73.5, abs=0.05)
    assert found["knowledge_gap_f1"] == pytest.approx(25.8, abs=0.05)
    assert found["gap_f1"] == pytest.approx(47.7, abs=0.05)
    assert found["direct_em"] is None


def test_one_data_set_without_a_figure_leaves_no_mean() -> None:
    answered = boundary({"q": DIRECT["kept"]}, {"q": CONFIDENT["kept"]})
    assert average([boundary(DIRECT, CONFIDENT), answered])["gap_f1"] is None
    assert average([boundary(DIRECT, CONFIDENT), answered])["direct_f1"] is not None
    assert average([]) == {}


def test_refusals_as_decisions() -> None:
    found = calibrate(memory_decisions(DIRECT, CONFIDENT))
    assert (found.questions, found.from_memory, found.precision) == (5, 3, 1 / 3)
    assert (found.overconfident, found.underconfident) == (2, 1)  # Milan and Narvik; Lake Como was looked up


ANSWERS = st.sampled_from(["Paris", "the Paris", "Rome", "Rome Italy", "", "no"])


@given(st.lists(st.tuples(ANSWERS, st.none() | ANSWERS), max_size=12))
def test_boundary_awareness_is_bounded_and_loses_no_question(pairs: list[tuple[str, str | None]]) -> None:
    direct = {str(place): score_attempt(said, ["Rome"]) for place, (said, _) in enumerate(pairs)}
    confident = {
        str(place): None if said is None else score_attempt(said, ["Rome"]) for place, (_, said) in enumerate(pairs)
    }
    found = boundary(direct, confident)
    assert found.confident.questions + found.gap.questions == found.direct.questions == len(pairs)
    figures = found.figures()
    for name, value in figures.items():
        low = -1 if name.startswith(("gap_", "gain_")) else 0
        assert value is None or low <= value <= 1
    assert len(found.flips) <= found.confident.questions
    if all(before == after for before, after in pairs if after) and all(after for _, after in pairs):
        assert not found.flips
