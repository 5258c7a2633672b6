"""Weights that are fitted: known answers, and what the penalty does."""

from __future__ import annotations

import math
import random

import pytest

from hoptree.evaluation.fit_chooser import Example, fit
from hoptree.methods.hop.chooser import FEATURES, Chooser


def test_without_features_the_bias_is_the_log_of_the_odds() -> None:
    weights, bias = fit([Example({}, 1.0)] * 3 + [Example({}, 0.0)])
    assert bias == pytest.approx(math.log(3), abs=1e-5)
    assert set(weights) == set(FEATURES) and not any(weights.values())


def test_a_feature_that_tells_two_groups_apart() -> None:
    sure = [Example({"held": 1.0}, 1.0)] * 300 + [Example({"held": 1.0}, 0.0)] * 100
    unsure = [Example({"held": 0.0}, 1.0)] * 100 + [Example({"held": 0.0}, 0.0)] * 300
    weights, bias = fit([*sure, *unsure], penalty=1e-6)
    assert bias == pytest.approx(math.log(1 / 3), abs=1e-3)
    assert weights["held"] == pytest.approx(math.log(9), abs=1e-3)
    weaker, _ = fit([*sure, *unsure], penalty=100.0)
    assert 0 < weaker["held"] < weights["held"], "a penalty makes weights smaller"


def test_weights_that_made_the_data_come_back() -> None:
    draw = random.Random(7)
    true = Chooser({"agreement": 2.0, "split": -1.5, "own": -1.0}, -0.5)
    rows = [{name: draw.uniform(0, 1) for name in true.weights} for _ in range(6_000)]
    examples = [Example(row, float(draw.random() < true.probability(row))) for row in rows]
    weights, bias = fit(examples)
    for name, weight in true.weights.items():
        assert weights[name] == pytest.approx(weight, abs=0.35)
    assert bias == pytest.approx(true.bias, abs=0.25)
    assert all(weight == pytest.approx(0, abs=0.01) for name, weight in weights.items() if name not in true.weights)


def test_data_that_could_be_told_apart_wholly_ends_in_numbers() -> None:
    weights, bias = fit([Example({"held": 1.0}, 1.0)] * 50 + [Example({"held": 0.0}, 0.0)] * 50)
    assert math.isfinite(bias) and 1 < weights["held"] < 20
    weights, bias = fit([Example({"held": 1.0}, 1.0)] * 5)
    assert math.isfinite(bias) and math.isfinite(weights["held"])


def test_half_right_counts_half_and_weights_count() -> None:
    _, half = fit([Example({}, 0.5)] * 10)
    assert half == pytest.approx(0.0, abs=1e-6)
    _, weighed = fit([Example({}, 1.0, weight=3.0), Example({}, 0.0)])
    assert weighed == pytest.approx(math.log(3), abs=1e-5)


def test_no_weight_speaks_against_what_its_feature_says() -> None:
    draw = random.Random(3)
    odd = Chooser({"agreement": 2.0, "typed": -1.5, "against": 1.0}, -0.5)
    rows = [{name: draw.uniform(0, 1) for name in odd.weights} for _ in range(2_000)]
    weights, _ = fit([Example(row, float(draw.random() < odd.probability(row))) for row in rows])
    assert weights["typed"] == weights["against"] == 0.0 and weights["agreement"] > 1.5
