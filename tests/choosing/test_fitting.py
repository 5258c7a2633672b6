"""Weights that are fitted: known answers, and what the penalty does."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from hoptree.evaluation.fit_chooser import fit_logistic
from hoptree.methods.hop.chooser import Logistic

Example = tuple[dict[str, float], float]


def fit(examples: Sequence[Example], *, penalty: float = 1.0, shares: list[float] | None = None) -> Logistic:
    weighted = zip(examples, shares or [1.0] * len(examples), strict=True)
    return fit_logistic([(row, target, share) for (row, target), share in weighted], penalty=penalty)


def test_without_features_the_bias_is_the_log_of_the_odds() -> None:
    fitted = fit([({}, 1.0)] * 3 + [({}, 0.0)])
    assert fitted.bias == pytest.approx(math.log(3), abs=1e-3) and fitted.weights == {}
    assert fit([]) == Logistic({}, 0.0)


def test_a_feature_that_tells_two_groups_apart() -> None:
    sure: list[Example] = [({"quoted": 1.0}, 1.0)] * 300 + [({"quoted": 1.0}, 0.0)] * 100
    unsure: list[Example] = [({"quoted": 0.0}, 1.0)] * 100 + [({"quoted": 0.0}, 0.0)] * 300
    fitted = fit([*sure, *unsure], penalty=1e-6)
    assert fitted.bias == pytest.approx(math.log(1 / 3), abs=1e-3)
    assert fitted.weights["quoted"] == pytest.approx(math.log(9), abs=1e-3)
    weaker = fit([*sure, *unsure], penalty=100.0)
    assert 0 < weaker.weights["quoted"] < fitted.weights["quoted"], "a penalty makes weights smaller"


def test_weights_that_made_the_data_come_back() -> None:
    draw = random.Random(7)
    true = Logistic({"agreement": 2.0, "split": -1.5, "own": -1.0}, -0.5)
    rows = [{name: draw.uniform(0, 1) for name in (*true.weights, "noise")} for _ in range(6_000)]
    fitted = fit([(row, float(draw.random() < true(row))) for row in rows])
    for name, weight in true.weights.items():
        assert fitted.weights[name] == pytest.approx(weight, abs=0.35)
    assert fitted.bias == pytest.approx(true.bias, abs=0.25)
    assert fitted.weights.get("noise", 0.0) == pytest.approx(0, abs=0.25)


@pytest.mark.parametrize("penalty", [1.0, 0.0])
def test_data_that_could_be_told_apart_without_error_ends_in_numbers(penalty: float) -> None:
    apart: list[Example] = [({"quoted": 1.0}, 1.0)] * 50 + [({"quoted": 0.0}, 0.0)] * 50
    alike: list[Example] = [({"quoted": 1.0}, 1.0)] * 5
    mixed: list[Example] = [({"quoted": 1.0, "page": 1.0}, 1.0), ({"quoted": 1.0, "page": 1.0}, 0.0)] * 5
    for examples in (apart, alike, mixed):
        fitted = fit(examples, penalty=penalty)
        assert math.isfinite(fitted.bias) and all(map(math.isfinite, fitted.weights.values()))
    assert 1 < fit(apart).weights["quoted"] < 20


def test_half_right_counts_half_and_shares_count() -> None:
    assert fit([({}, 0.5)] * 10).bias == pytest.approx(0.0, abs=1e-6)
    assert fit([({}, 1.0), ({}, 0.0)], shares=[3.0, 1.0]).bias == pytest.approx(math.log(3), abs=1e-3)
