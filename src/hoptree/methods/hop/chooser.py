"""hop's frozen model: how likely an answer is right, and what a further move is worth for this question."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

from hoptree.core.errors import ConfigError

Effort = Literal["low", "medium", "high"]
EFFORTS: tuple[Effort, ...] = get_args(Effort)
Features = Mapping[str, float]
FORMAT = 2
MIN_SENTENCE_SHARE = 0.35
"""Below this share of the question's words, a split mended the answers of a 1.5B model on six of seven data sets."""
_MAX_LOGIT = 30.0
"""Beyond this the logistic function is 0 or 1 for every purpose, and `exp` stays in bounds."""


@dataclass(frozen=True, slots=True)
class Logistic:
    """The logistic function of a weighted sum of features; features without a weight count nothing."""

    weights: Features
    bias: float

    def __call__(self, features: Features) -> float:
        total = self.bias + math.fsum(weight * features.get(name, 0.0) for name, weight in self.weights.items())
        return 1 / (1 + math.exp(-max(-_MAX_LOGIT, min(_MAX_LOGIT, total))))

    def as_dict(self) -> dict[str, Any]:
        return {"weights": dict(self.weights), "bias": self.bias}


@dataclass(frozen=True, slots=True)
class Outlook:
    """The probability that the best answer is right after a move, and the tokens the move costs on average."""

    right: Logistic
    tokens: float

    def gain(self, features: Features, probability: float) -> float:
        """Return the expected gain in probability for a thousand tokens."""
        return 1000 * (self.right(features) - probability) / max(self.tokens, 1.0)


def is_doubtful(state: Features, effort: Effort) -> bool:
    """Return whether the best answer cannot be relied on whatever its probability, so that the question is split.

    There is none, or it only repeats the question, or is of another type than was asked for, or, but for low effort,
    the sentence behind it holds hardly anything of the question. Sentences do not say yes or no.
    """
    if state.get("nothing") or is_unfit(state):
        return True
    return effort != "low" and state.get("sentence", 1.0) < MIN_SENTENCE_SHARE and not state.get("yes_no")


def is_unfit(features: Features) -> bool:
    """Return whether something is no answer by its form: it is of another type, or only repeats the question.

    What a question compares is among its own words.
    """
    repeats = features.get("echo", 0.0) > 0 and not features.get("operated")
    return repeats or features.get("typed", 0.0) < 0


@dataclass(frozen=True, slots=True)
class Weights:
    """The numbers for models with log-probabilities, or for those without.

    `right` weighs an answer; `after` tells what a move leads to; `worth` is the least gain for a thousand tokens for
    which an effort makes a move.
    """

    right: Logistic
    after: Mapping[str, Outlook] = field(default_factory=dict)
    worth: Mapping[str, float] = field(default_factory=dict)

    def is_worth(self, move: str, state: Features, probability: float, effort: Effort) -> bool:
        """Return whether a move pays; high effort makes every move, and unknown moves are made by no other."""
        if effort == "high" or (move == "split" and is_doubtful(state, effort)):
            return True
        outlook = self.after.get(move)
        return outlook is not None and outlook.gain(state, probability) >= self.worth.get(effort, 0.0)

    def as_dict(self) -> dict[str, Any]:
        return {
            "right": self.right.as_dict(),
            "after": {move: {**o.right.as_dict(), "tokens": o.tokens} for move, o in self.after.items()},
            "worth": dict(self.worth),
        }


@dataclass(frozen=True, slots=True)
class Chooser:
    """Weights for models with and without log-probabilities; `made_from` tells where the numbers come from."""

    with_logprobs: Weights
    without_logprobs: Weights
    made_from: Mapping[str, Any] = field(default_factory=dict)

    def weights(self, *, logprobs: bool) -> Weights:
        return self.with_logprobs if logprobs else self.without_logprobs

    @property
    def digest(self) -> str:
        """The digest of its numbers."""
        numbers = {name: value for name, value in self.as_dict().items() if name != "made_from"}
        return hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()[:16]

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
    return read_chooser((files("hoptree.methods.hop") / "frozen.json").read_text(encoding="utf-8"), "frozen.json")


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
    """Read the chooser in a file's text, if it is one of this version."""
    wrong = ConfigError(f"{name} is no chooser.", "hoptree methods chooser fit makes one.")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise wrong from None
    if not isinstance(value, dict) or "format" not in value:
        raise wrong
    if value["format"] != FORMAT:
        raise ConfigError(f"{name} is of another version.", "Fit it anew with hoptree methods chooser fit.")
    try:
        sets = (_read_weights(value["with_logprobs"]), _read_weights(value["without_logprobs"]))
        return Chooser(*sets, dict(value.get("made_from") or {}))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise wrong from None


def _read_weights(value: Mapping[str, Any]) -> Weights:
    after = {
        move: Outlook(_read_logistic(outlook), _number(outlook["tokens"])) for move, outlook in value["after"].items()
    }
    worth = {effort: _number(least) for effort, least in value["worth"].items()}
    return Weights(_read_logistic(value["right"]), after, worth)


def _read_logistic(value: Mapping[str, Any]) -> Logistic:
    return Logistic({name: _number(weight) for name, weight in value["weights"].items()}, _number(value["bias"]))


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError
    return float(value)


@dataclass(frozen=True, slots=True)
class Boundary:
    """How often the model is right where it is sure, and whether it knows where its knowledge ends."""

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
        raise ConfigError(f"{path} is no measured boundary.", remedy)
    right = record["confident_correct"]
    known = isinstance(right, int | float) and not isinstance(right, bool) and 0 <= right <= 1
    return Boundary(float(right) if known else 0.0, known and record["usable"] is True)
