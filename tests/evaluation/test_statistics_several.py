"""Which questions a comparison counts, several comparisons at once, and what a sample can show."""

from __future__ import annotations

import math
import random
from importlib.util import find_spec
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluation.paired_scores import flipped, named

from hoptree.core.errors import InputError
from hoptree.evaluation.statistics import (
    compare_groups,
    compare_pair,
    compare_runs,
    detectable_difference,
    holm,
    interval,
)

pytestmark = pytest.mark.skipif(find_spec("numpy") is None, reason="needs the extra 'eval'")


# Which questions count


def test_a_run_that_lacks_questions_is_refused_unless_told() -> None:
    a, b = named([1.0] * 10), named([0.0] * 8)
    with pytest.raises(InputError, match=r"2 of 10 questions have a score in some of the runs only .*q00008"):
        compare_pair(a, b)
    result = compare_pair(a, b, common_only=True)
    assert (result.questions, result.left_out) == (8, 2)


def test_a_metric_that_does_not_apply_is_counted_and_not_taken_for_zero() -> None:
    a = {"q1": 1.0, "q2": None, "q3": 0.5}
    b = {"q1": 0.5, "q2": None, "q3": 0.0}
    result = compare_pair(a, b)
    assert (result.questions, result.not_applicable, result.mean_a, result.mean_b) == (2, 1, 0.75, 0.25)
    with pytest.raises(InputError, match="1 of 3 questions has"):
        compare_pair(a, {**b, "q3": None})
    with pytest.raises(InputError, match="1 of 4 questions has"):
        compare_pair({**a, "q4": None}, b)


@pytest.mark.parametrize(("a", "b"), [({}, {}), ({"q": 1.0}, {"p": 1.0}), ({"q": None}, {"q": None})])
def test_nothing_in_common_is_refused(a: dict[str, float | None], b: dict[str, float | None]) -> None:
    with pytest.raises(InputError, match="in common"):
        compare_pair(a, b, common_only=True)


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, 1e300])
def test_what_is_no_usable_number_is_refused(score: float) -> None:
    with pytest.raises(InputError, match="question q2 is not a number"):
        compare_pair({"q1": 1.0, "q2": score}, {"q1": 0.0, "q2": 0.0})
    with pytest.raises(InputError, match="not a number"):
        interval([score])


# Several comparisons


def test_holm_by_hand() -> None:
    # In order 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1; the last would fall below the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([0.6, 0.5]) == (1.0, 1.0)
    assert holm([0.2]) == (0.2,) and holm([]) == ()


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_keeps_the_order_and_lies_between_p_and_bonferroni(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    for (p, q), (other_p, other_q) in product(zip(p_values, adjusted, strict=True), repeat=2):
        assert p <= q <= 1 and (q <= other_q or p > other_p)
    assert all(q >= min(1, len(p_values) * min(p_values)) for q in adjusted)


def test_groups_are_compared_alone_and_corrected_together() -> None:
    a = {**{f"c{n}": 1.0 for n in range(8)}, **{f"b{n}": n % 2 for n in range(6)}, "x": 1.0}
    b = {**{f"c{n}": 0.0 for n in range(8)}, **{f"b{n}": 0.0 for n in range(6)}, "x": 1.0}
    groups = {key: {"c": "comparison", "b": "bridge"}.get(key[0], "") for key in a}
    result = compare_groups(a, b, groups)
    assert list(result) == ["bridge", "comparison", "none"]
    assert {name: one.questions for name, one in result.items()} == {"bridge": 6, "comparison": 8, "none": 1}
    assert result["comparison"].p_value == pytest.approx(2 / 2**8)
    assert result["comparison"].adjusted_p == pytest.approx(3 * 2 / 2**8)
    assert result["bridge"].p_value == pytest.approx(2 / 2**3) and result["bridge"].losses == 3
    assert result["bridge"].difference == -0.5


def test_groups_say_what_was_left_out_of_them() -> None:
    a = {"c1": 1.0, "c2": 1.0, "b1": 1.0, "d1": 1.0}
    b = {"c1": 0.0, "b1": 0.0}
    groups = {key: key[0] for key in a}
    with pytest.raises(InputError, match="2 of 4"):
        compare_groups(a, b, groups)
    result = compare_groups(a, b, groups, common_only=True)
    assert {name: (one.questions, one.left_out) for name, one in result.items()} == {"b": (1, 0), "c": (1, 1)}


def test_several_runs_are_compared_over_what_all_of_them_have() -> None:
    draw = random.Random(9)
    base = [float(draw.random() < 0.4) for _ in range(120)]
    runs = {
        "direct": named(base),
        "oner": named([float(draw.random() < 0.4) for _ in base]),
        "taikc": named([max(score, float(draw.random() < 0.4)) for score in base][:-1]),
    }
    with pytest.raises(InputError, match="1 of 120 questions has"):
        compare_runs(runs)
    result = compare_runs(runs, common_only=True)
    assert list(result) == [("direct", "oner"), ("direct", "taikc"), ("oner", "taikc")]
    assert {one.questions for one in result.values()} == {119} and {one.left_out for one in result.values()} == {1}
    assert [one.adjusted_p for one in result.values()] == list(holm([one.p_value for one in result.values()]))
    assert result["direct", "taikc"].adjusted_p < 0.001 and result["direct", "taikc"].difference > 0


# What a sample can show


def test_power_by_hand() -> None:
    from benchmarks.planted import power_to_detect

    # (1.959964 + 0.841621) * 0.5 / sqrt(300)
    assert detectable_difference(0.5, 300) == pytest.approx(0.0808748, abs=1e-6)
    assert power_to_detect(0.0808748, 0.5, 300) == pytest.approx(0.8, abs=1e-4)
    assert power_to_detect(0.0, 0.5, 300) == pytest.approx(0.05)
    assert power_to_detect(-0.2, 0.5, 300) == power_to_detect(0.2, 0.5, 300) > 0.999


def test_the_power_note() -> None:
    result = flipped(50, 50, ties=200)  # differences of 1, -1 and 0: the deviation is the root of 100/299
    expected = 2.801585 * math.sqrt(100 / 299) / math.sqrt(300)
    assert result.detectable == pytest.approx(expected, abs=1e-6)
    assert result.power_note() == (
        "This sample can detect a difference of 0.0935 (300 paired questions, two-sided at 5 %, power 80 %)."
    )
    assert "a difference of 9.35 points (" in result.power_note(scale=100, unit=" points")
    assert "a difference of 93,542 tokens (" in result.power_note(scale=1e6, unit=" tokens")
    assert "One question is too few" in flipped(1, 0).power_note()
    assert "score the same on every question" in flipped(0, 0, ties=5).power_note()
    assert "differ by the same on every question" in flipped(5, 0).power_note()


def test_the_json_form_has_everything() -> None:
    form = flipped(2, 1).as_dict()
    assert form["changes"][0] == {"id": "q00000", "a": 0.0, "b": 1.0}
    assert set(form["interval"]) == {"mean", "low", "high", "level"}
    assert form["detectable"] == pytest.approx(detectable_difference(form["deviation"], 3))


@pytest.mark.parametrize("kind", ["EM-like", "F1-like"])
def test_a_planted_difference_is_found_and_none_is_not(kind: str) -> None:
    numpy = pytest.importorskip("numpy")
    from benchmarks.planted import measure

    figures, _ = measure(kind, 30, 500, numpy.random.default_rng(1))
    planted, equal, *held = figures
    assert planted.count >= 17 and equal.count <= 5  # of thirty: 82 % and 5 % are expected
    assert all(one.count >= 24 for one in held)
