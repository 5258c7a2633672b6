"""What is counted about an answer before it is believed."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["FEATURES", "Features", "in_words", "may_weigh"]

Features = Mapping[str, float]
"""The value of every feature, by name."""

FEATURES: dict[str, tuple[str, str]] = {
    "agreement": ("several ways came to it", "only one way came to it"),
    "against": ("other ways came to other answers", "no way came to another answer"),
    "confidence": ("the model was sure of its words", "the model was unsure of its words"),
    "held": ("it can be quoted from what was read", "it stands nowhere in what was read"),
    "covered": ("what was read holds the names of the question", "names of the question are missing in what was read"),
    "typed": ("it is of the kind that was asked for", "it is of another kind than was asked for"),
    "computed": ("code concluded it from what was found", "the question compares, and no code did"),
    "supported": ("its parts stand in what was read", "its parts do not stand in what was read"),
    "split": ("it came of parts of the question", "it came of the question as a whole"),
    "own": ("only the model's own knowledge says it", "something that was read says it"),
    "verified": ("a check bore it out", "a check spoke against it"),
}
"""Every feature with what speaks from a high value of it, and from a low one."""


_AGAINST, _EITHER = ("against", "own"), ("split",)
"""Features of which more speaks against an answer, and those of which more may speak for it or against."""


def may_weigh(name: str, weight: float) -> bool:
    """Whether a weight is in keeping with what its feature says: nothing speaks for an answer of another kind."""
    return name in _EITHER or (weight <= 0 if name in _AGAINST else weight >= 0)


def in_words(name: str, high: bool) -> str:
    """What a feature's value says."""
    return FEATURES[name][0 if high else 1]
