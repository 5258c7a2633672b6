"""A chooser: probabilities, what moves are worth, and files that are none."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.core.errors import ConfigError
from hoptree.methods.hop.chooser import (
    EFFORTS,
    Chooser,
    Logistic,
    MovePrediction,
    Weights,
    frozen_chooser,
    read_chooser,
)

WEIGHTS = Weights(
    Logistic({"quoted": 2.0, "against": -1.0}, -1.0),
    {"split": MovePrediction(Logistic({"odds": 1.0}, 1.0), 2000)},
    {"low": 0.1, "medium": 0.05},
)
SMALL = Chooser(WEIGHTS, replace(WEIGHTS, min_gain={"low": 0.2}), {"runs": []})
FROZEN = frozen_chooser()
FEATURES = sorted({*FROZEN.with_logprobs.right.weights, *FROZEN.with_logprobs.after["split"].right.weights})


def test_probability_by_hand() -> None:
    assert WEIGHTS.right({}) == pytest.approx(1 / (1 + math.e))
    assert WEIGHTS.right({"quoted": 1.0, "against": 1.0, "unheard": 9.0}) == pytest.approx(0.5)


@given(st.dictionaries(st.sampled_from(FEATURES), st.floats(-1e6, 1e6)))
def test_a_probability_is_one_whatever_is_counted(features: dict[str, float]) -> None:
    for weights in (FROZEN.with_logprobs, FROZEN.without_logprobs):
        assert 0 <= weights.right(features) <= 1
        assert all(0 <= outlook.right(features) <= 1 for outlook in weights.after.values())


def test_what_a_move_is_worth() -> None:
    outlook = WEIGHTS.after["split"]
    assert outlook.gain({"odds": 0.0}, 0.5) == pytest.approx(1000 * (1 / (1 + math.exp(-1)) - 0.5) / 2000)
    assert outlook.gain({"odds": 0.0}, 0.9) < 0, "it may be expected to lose"
    assert replace(outlook, tokens=0.0).gain({}, 0.0) > 0, "what costs nothing divides by nothing"


def test_efforts_differ_in_what_they_ask_of_a_move() -> None:
    gains = {0.5: 0.115, 0.6: 0.065, 0.7: 0.015}  # by hand, with odds of 0
    worth_it = {
        likely: [effort for effort in EFFORTS if WEIGHTS.is_worth("split", {"odds": 0.0}, likely, effort)]
        for likely in gains
    }
    for likely, gain in gains.items():
        assert WEIGHTS.after["split"].gain({"odds": 0.0}, likely) == pytest.approx(gain, abs=1e-3)
    assert worth_it == {0.5: ["low", "medium", "high"], 0.6: ["medium", "high"], 0.7: ["high"]}
    assert [effort for effort in EFFORTS if WEIGHTS.is_worth("own", {}, 0.0, effort)] == ["high"], "not known"


def test_weights_are_those_for_what_a_model_tells() -> None:
    assert SMALL.weights(logprobs=True) is SMALL.with_logprobs
    assert SMALL.weights(logprobs=False) is SMALL.without_logprobs


def test_the_digest_is_of_the_numbers() -> None:
    assert replace(SMALL, made_from={"by": "somebody"}).digest == SMALL.digest
    others = (
        replace(SMALL, with_logprobs=replace(WEIGHTS, right=replace(WEIGHTS.right, bias=-2.0))),
        replace(SMALL, without_logprobs=replace(WEIGHTS, after={})),
        replace(SMALL, without_logprobs=WEIGHTS),
    )
    assert len({SMALL.digest, *(other.digest for other in others)}) == 4


def test_a_file_comes_back_as_it_was() -> None:
    assert read_chooser(json.dumps(SMALL.as_dict()), "it") == SMALL
    assert read_chooser(json.dumps(FROZEN.as_dict()), "it") == FROZEN


def test_the_packaged_one_names_its_runs() -> None:
    runs = FROZEN.made_from["runs"]
    assert len(runs) >= 7 and len({run["id"] for run in runs}) == len(runs)
    for run in runs:
        assert run["name"] and run["model"] and run["questions"] > 100 and len(run["results"]) == 12
    for weights in (FROZEN.with_logprobs, FROZEN.without_logprobs):
        assert weights.after.keys() == {"split", "guess"} and weights.min_gain.keys() == {"low", "medium"}
        assert weights.min_gain["low"] >= weights.min_gain["medium"], "low effort asks more of a move"
    assert "confidence" in FROZEN.with_logprobs.right.weights
    calibrations = [
        FROZEN.without_logprobs.right,
        *(calibration.right for calibration in FROZEN.without_logprobs.after.values()),
    ]
    assert not any("confidence" in logistic.weights for logistic in calibrations), (
        "it is not told without log-probabilities"
    )


def changed(**values: Any) -> str:
    data = SMALL.as_dict()
    return json.dumps({**data, "with_logprobs": {**data["with_logprobs"], **values}})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": 2}',
        '{"format": 2, "with_logprobs": []}',
        '{"format": 2, "with_logprobs": {}, "without_logprobs": {}}',
        changed(right={"weights": {"quoted": math.nan}, "bias": 0}),
        changed(right={"weights": {"quoted": True}, "bias": 0}),
        changed(right={"weights": {"quoted": "much"}, "bias": 0}),
        changed(right={"weights": [], "bias": 0}),
        changed(right={"weights": {}}),
        changed(after={"split": {"weights": {}, "bias": 0}}),
        changed(after={"split": {"weights": {}, "bias": 0, "tokens": math.inf}}),
        changed(after=[1]),
        changed(worth={"low": None}),
        "[" * 5_000,
    ],
)
def test_what_is_no_chooser_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="it is not a chooser"):
        read_chooser(text, "it")


@pytest.mark.parametrize("number", [1, 9, "2", None])
def test_another_version_is_named(number: object) -> None:
    with pytest.raises(ConfigError, match="it is of another version") as refused:
        read_chooser(json.dumps({**SMALL.as_dict(), "format": number}), "it")
    assert "chooser fit" in refused.value.remedy
