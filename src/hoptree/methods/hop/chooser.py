"""hop's frozen model: weights of features, what a further move is worth, and the measured boundary of knowledge."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from hoptree.core.errors import ConfigError

Features = Mapping[str, float]
FEATURES: dict[str, str] = {
    "agreement": "several ways came to it",
    "against": "other ways came to other answers",
    "confidence": "the model was sure of its words",
    "held": "it can be quoted from what was read",
    "covered": "what was read holds the names of the question",
    "typed": "it is of the kind that was asked for",
    "computed": "code concluded it from what was found",
    "supported": "its parts were answered from what was read",
    "split": "it came of parts of the question",
    "own": "only the model's own knowledge says it",
    "verified": "a check bore it out",
}
"""Every feature with what a high value of it says for an answer."""
_IF_LOW = {"split": "it came of the question as a whole", "own": "something that was read says it"}
"""What a low value says for an answer, where it can; `against` is the same for all answers to a question."""
_NEGATIVE, _EITHER_SIGN = ("against", "own"), ("split",)
"""Features of which more speaks against an answer, and those of which more may speak for it or against."""


def may_weigh(name: str, weight: float) -> bool:
    """Return whether a weight agrees with what its feature says."""
    return name in _EITHER_SIGN or (weight <= 0 if name in _NEGATIVE else weight >= 0)


def in_words(name: str, high: bool) -> str:
    """Say what a feature's value means for an answer."""
    return FEATURES[name] if high else _IF_LOW[name]


FORMAT = 1
_MAX_LOGIT = 30.0
"""Beyond this the logistic function is 0 or 1 for every purpose, and `exp` stays in bounds."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a move is worth: the share of the doubt that is left which it takes away, and the tokens that it costs."""

    settles: float
    tokens: float

    def gain(self, probability: float) -> float:
        """Return the expected gain in probability, for a thousand tokens."""
        return 1000 * self.settles * (1 - probability) / max(self.tokens, 1.0)


@dataclass(frozen=True, slots=True)
class Policy:
    """When to go on: not from the probability `sure` on, and not for a gain in probability under `worth`.

    The gain is that for a thousand tokens. Answers whose probabilities are less than `close` apart are close.
    """

    sure: float = 0.75
    worth: float = 0.02
    close: float = 0.1


@dataclass(frozen=True, slots=True)
class Chooser:
    """The probability that an answer is right, as the logistic function of a weighted sum of its features.

    `outlooks` are by move and kind of question ("split/compare"), or by move alone; `policy` is when it pays to go on.
    `made_from` tells where the numbers come from.
    """

    weights: Mapping[str, float]
    bias: float
    outlooks: Mapping[str, Outlook] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    made_from: Mapping[str, Any] = field(default_factory=dict)

    def probability(self, features: Features) -> float:
        total = self.bias + math.fsum(self.weights[name] * features.get(name, 0.0) for name in self.weights)
        return 1 / (1 + math.exp(-max(-_MAX_LOGIT, min(_MAX_LOGIT, total))))

    def reasons(self, chosen: Features, other: Features) -> list[tuple[str, float]]:
        """Return the features that speak for one answer rather than another, the weightiest first, with how much."""
        gaps = {name: weight * (chosen.get(name, 0.0) - other.get(name, 0.0)) for name, weight in self.weights.items()}
        return sorted(((name, gap) for name, gap in gaps.items() if gap > 0), key=lambda reason: -reason[1])

    def is_meant(self, name: str) -> bool:
        """Return whether a feature weighs as what it says, and not against it."""
        return may_weigh(name, self.weights[name])

    def outlook(self, move: str, kind: str) -> Outlook | None:
        """Return what a move is worth for a kind of question; None where nothing is known of it."""
        return self.outlooks.get(f"{move}/{kind}") or self.outlooks.get(move)

    @property
    def digest(self) -> str:
        """The digest of its numbers."""
        numbers = {name: value for name, value in self.as_dict().items() if name != "made_from"}
        return hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()[:16]

    def as_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "weights": dict(self.weights),
            "bias": self.bias,
            "outlooks": {name: [outlook.settles, outlook.tokens] for name, outlook in self.outlooks.items()},
            "policy": asdict(self.policy),
            "made_from": dict(self.made_from),
        }


@cache
def frozen_chooser() -> Chooser:
    """Return the chooser that comes with the package."""
    return read_chooser((files("hoptree.methods.hop") / "frozen.json").read_text(encoding="utf-8"), "frozen.json")


def read_chooser(text: str, name: str) -> Chooser:
    """Read the chooser in a file's text, if it is one of this version."""
    wrong = ConfigError(f"{name} is no chooser.", "hoptree methods chooser fit makes one.")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise wrong from None
    if not isinstance(value, dict) or not isinstance(value.get("weights"), dict):
        raise wrong
    if value.get("format") != FORMAT or (unknown := sorted(value["weights"].keys() - FEATURES.keys())):
        difference = f"it weighs {', '.join(unknown)}" if value.get("format") == FORMAT else "its format is another"
        raise ConfigError(
            f"{name} is of another version: {difference}.", "Fit it anew with hoptree methods chooser fit."
        )
    try:
        weights = {feature: _number(weight) for feature, weight in value["weights"].items()}
        outlooks = {move: Outlook(*map(_number, pair)) for move, pair in value.get("outlooks", {}).items()}
        policy = Policy(**{name: _number(limit) for name, limit in value.get("policy", {}).items()})
        return Chooser(weights, _number(value.get("bias")), outlooks, policy, dict(value.get("made_from") or {}))
    except (TypeError, ValueError, AttributeError):
        raise wrong from None


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError
    return float(value)


@dataclass(frozen=True, slots=True)
class Boundary:
    """How often the model is right where it is sure, whether it knows its bounds, and how often it is sure."""

    right_if_sure: float
    usable: bool
    sure: float = 0.0

    @property
    def settles(self) -> float:
        """The share of doubtful questions that asking the model itself is expected to answer rightly."""
        return self.right_if_sure * self.sure


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
    answered, questions = record.get("answered"), record.get("questions")
    share = 0.0
    if isinstance(answered, int) and isinstance(questions, int) and 0 <= answered <= questions:
        share = answered / max(questions, 1)
    return Boundary(float(right) if known else 0.0, known and record["usable"] is True, share)
