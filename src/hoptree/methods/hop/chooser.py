"""hop's chooser: a small frozen model that weighs answers and moves by their features."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from hoptree.core.errors import ConfigError

Effort = Literal["low", "medium", "high"]
EFFORTS: tuple[Effort, ...] = get_args(Effort)
Features = Mapping[str, float]
FORMAT = 2
MIN_SENTENCE_SHARE = 0.35  # below it, splitting improved the answers of a 1.5B model on six of seven sets
# From it on, two sentences answer, and further moves gained nothing (experiments/hop/results.md).
MIN_BRIDGE_SHARE = 0.5
_MAX_LOGIT = 30.0  # beyond it the logistic function is 0 or 1, and `exp` might overflow


@dataclass(frozen=True, slots=True)
class Logistic:
    """The logistic function of a weighted sum of features; others are ignored."""

    weights: Features
    bias: float

    def __call__(self, features: Features) -> float:
        total = self.bias + math.fsum(weight * features.get(name, 0.0) for name, weight in self.weights.items())
        return 1 / (1 + math.exp(-max(-_MAX_LOGIT, min(_MAX_LOGIT, total))))

    def as_dict(self) -> dict[str, Any]:
        return {"weights": dict(self.weights), "bias": self.bias}


@dataclass(frozen=True, slots=True)
class MovePrediction:
    """The probability of a right answer after a move, and its mean cost in tokens."""

    right: Logistic
    tokens: float

    def gain(self, features: Features, probability: float) -> float:
        """Return the expected gain in probability for a thousand tokens."""
        return 1000 * (self.right(features) - probability) / max(self.tokens, 1.0)


def is_doubtful(features: Features, effort: Effort) -> bool:
    """Return whether the answer is missing, unfit or unstated, so that splitting pays."""
    if features.get("nothing") or is_unfit(features):
        return True
    if features.get("bridge", 0.0) >= MIN_BRIDGE_SHARE and not features.get("operated"):
        return False
    return effort != "low" and features.get("sentence", 1.0) < MIN_SENTENCE_SHARE and not features.get("yes_no")


def is_unfit(features: Features) -> bool:
    """Return whether an answer is of the wrong type, or only repeats the question."""
    repeats = features.get("echo", 0.0) > 0 and not features.get("operated")
    return repeats or features.get("typed", 0.0) < 0


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights for models with log-probabilities, or for those without.

    `right` weighs an answer, `after` predicts the outcome of each move, and `min_gain` is the least gain for a thousand
    tokens at which each effort makes a move (`worth` in files).
    """

    right: Logistic
    after: Mapping[str, MovePrediction] = field(default_factory=dict)
    min_gain: Mapping[str, float] = field(default_factory=dict)

    def is_worth(self, move: str, features: Features, probability: float, effort: Effort) -> bool:
        """Return whether a move pays; high effort makes all moves, others only known ones."""
        if effort == "high" or (move == "split" and is_doubtful(features, effort)):
            return True
        prediction = self.after.get(move)
        return prediction is not None and prediction.gain(features, probability) >= self.min_gain.get(effort, 0.0)

    def as_dict(self) -> dict[str, Any]:
        return {
            "right": self.right.as_dict(),
            "after": {move: {**o.right.as_dict(), "tokens": o.tokens} for move, o in self.after.items()},
            "worth": dict(self.min_gain),
        }


@dataclass(frozen=True)  # without slots, since `cached_property` needs a __dict__
class Chooser:
    """Weights for models with and without log-probabilities, and their origin."""

    with_logprobs: Weights
    without_logprobs: Weights
    made_from: Mapping[str, Any] = field(default_factory=dict)

    def weights(self, *, logprobs: bool) -> Weights:
        return self.with_logprobs if logprobs else self.without_logprobs

    @cached_property
    def digest(self) -> str:
        """The digest of the weights."""
        numbers = {name: value for name, value in self.as_dict().items() if name != "made_from"}
        return hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()[:16]

    @cached_property
    def calibrated_on(self) -> str:
        """The questions that the probabilities were fitted to, in words."""
        runs = self.made_from.get("runs", ())
        sets = {str(run["name"]).rpartition(" on ")[2]: run.get("questions", 0) for run in runs}
        names = ", ".join(f"{count} of {name}" for name, count in sets.items())
        return f"questions: {names} (chooser {self.digest})" if names else ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "with_logprobs": self.with_logprobs.as_dict(),
            "without_logprobs": self.without_logprobs.as_dict(),
            "made_from": dict(self.made_from),
        }


@cache
def frozen_chooser() -> Chooser:
    """Return the chooser that comes with the package."""
    return read_chooser(Path(__file__).with_name("frozen.json").read_text(encoding="utf-8"), "frozen.json")


def effort_figures() -> list[str]:
    """Return lines with the measured cost and gain of each effort."""
    measured = frozen_chooser().made_from
    models = len({run["model"] for run in measured["runs"]})
    over = f"{measured['sets']} data sets and {models} models"
    lines = [f"effort: means over {over}, each set judged by weights fitted to the others"]
    for effort in EFFORTS:
        if figures := measured["efforts"].get(effort):
            gain = 100 * (figures["f1"] - figures["one_reading"])
            lines.append(f"  {effort:7} {figures['calls']:.1f} calls, F1 {gain:+.1f} on the first reading")
        else:
            lines.append(f"  {effort:7} not measured")
    return lines


def open_chooser(path: str) -> Chooser:
    """Return the chooser in a file, or the packaged one without a path."""
    if not path:
        return frozen_chooser()
    try:
        return read_chooser(Path(path).read_text(encoding="utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} cannot be read: {error}.", "Give chooser a file of hoptree methods chooser fit."
        ) from error


def read_chooser(text: str, name: str) -> Chooser:
    """Read a chooser of this version from a file's text."""
    try:
        value = json.loads(text)
        if value["format"] != FORMAT:
            raise ConfigError(f"{name} is of another version.", "Fit it anew with hoptree methods chooser fit.")
        sets = (_read_weights(value["with_logprobs"]), _read_weights(value["without_logprobs"]))
        return Chooser(*sets, dict(value.get("made_from") or {}))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise ConfigError(f"{name} is not a chooser.", "hoptree methods chooser fit makes one.") from None


def _read_weights(value: Mapping[str, Any]) -> Weights:
    after = {move: MovePrediction(_read_logistic(row), _number(row["tokens"])) for move, row in value["after"].items()}
    min_gain = {effort: _number(least) for effort, least in value["worth"].items()}
    return Weights(_read_logistic(value["right"]), after, min_gain)


def _read_logistic(value: Mapping[str, Any]) -> Logistic:
    return Logistic({name: _number(weight) for name, weight in value["weights"].items()}, _number(value["bias"]))


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError
    return float(value)


@dataclass(frozen=True, slots=True)
class Boundary:
    """How often the model is right if sure, and whether its sureness can be used."""

    right_if_sure: float
    usable: bool


def read_boundary(path: str) -> Boundary:
    """Read the boundary in a `boundary.json` of `hoptree eval boundary`."""
    remedy = "Give boundary a file boundary.json of hoptree eval boundary."
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.", remedy) from error
    if not isinstance(record, dict) or not {"confident_correct", "usable"} <= record.keys():
        raise ConfigError(f"{path} is not a measured boundary.", remedy)
    right = record["confident_correct"]
    known = isinstance(right, int | float) and not isinstance(right, bool) and 0 <= right <= 1
    return Boundary(float(right) if known else 0.0, known and record["usable"] is True)


def run_inputs(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the digests of the chooser and boundary that a run depends on."""
    inputs = {"chooser": open_chooser(str(options.get("chooser") or "")).digest}
    if path := str(options.get("boundary") or ""):
        inputs["boundary"] = str(read_boundary(path))
    return inputs
