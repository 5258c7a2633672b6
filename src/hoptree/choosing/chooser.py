"""The frozen model itself: weights of features, and what a further move is worth."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from hoptree.choosing.features import FEATURES, Features, may_weigh
from hoptree.errors import ConfigError

__all__ = ["Chooser", "Outlook", "Policy", "frozen_chooser", "read_chooser"]

FORMAT = 1
_FARTHEST = 30.0
"""Beyond this the logistic function is 0 or 1 for every purpose, and `exp` stays in bounds."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a move is worth: the share of the doubt that is left which it takes away, and the tokens that it costs."""

    settles: float
    tokens: float

    def gain(self, probability: float) -> float:
        """The gain in probability to be expected, for a thousand tokens."""
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
        return 1 / (1 + math.exp(-max(-_FARTHEST, min(_FARTHEST, total))))

    def reasons(self, chosen: Features, other: Features) -> list[tuple[str, float]]:
        """The features that speak for one answer rather than another, the weightiest first, with how much."""
        apart = ((name, self.weights[name] * (chosen.get(name, 0.0) - other.get(name, 0.0))) for name in self.weights)
        return sorted(((name, much) for name, much in apart if much > 0), key=lambda one: -one[1])

    def is_meant(self, name: str) -> bool:
        """Whether a feature weighs as what it says, and not against it."""
        return may_weigh(name, self.weights[name])

    def outlook(self, move: str, kind: str) -> Outlook | None:
        """What a move is worth for a kind of question; None where nothing is known of it."""
        return self.outlooks.get(f"{move}/{kind}") or self.outlooks.get(move)

    @property
    def digest(self) -> str:
        """What tells choosers with other numbers apart."""
        numbers = {name: value for name, value in self.as_dict().items() if name != "made_from"}
        return hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()[:16]

    def as_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "weights": dict(self.weights),
            "bias": self.bias,
            "outlooks": {name: [one.settles, one.tokens] for name, one in self.outlooks.items()},
            "policy": asdict(self.policy),
            "made_from": dict(self.made_from),
        }


@cache
def frozen_chooser() -> Chooser:
    """The one that comes with the package."""
    return read_chooser((files("hoptree") / "choosing" / "frozen.json").read_text(encoding="utf-8"), "frozen.json")


def read_chooser(text: str, name: str) -> Chooser:
    """The chooser in a file's text, if it is one of this version."""
    wrong = ConfigError(f"{name} is no chooser.", "hoptree chooser fit makes one.")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise wrong from None
    if not isinstance(value, dict) or not isinstance(value.get("weights"), dict):
        raise wrong
    if value.get("format") != FORMAT or (strange := sorted(value["weights"].keys() - FEATURES.keys())):
        said = f"it weighs {', '.join(strange)}" if value.get("format") == FORMAT else "its format is another"
        raise ConfigError(f"{name} is of another version: {said}.", "Fit it anew with hoptree chooser fit.")
    try:
        weights = {feature: _number(weight) for feature, weight in value["weights"].items()}
        outlooks = {move: Outlook(*map(_number, one)) for move, one in value.get("outlooks", {}).items()}
        policy = Policy(**{part: _number(said) for part, said in value.get("policy", {}).items()})
        return Chooser(weights, _number(value.get("bias")), outlooks, policy, dict(value.get("made_from") or {}))
    except (TypeError, ValueError, AttributeError):
        raise wrong from None


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError
    return float(value)
