"""What is counted about an answer before it is believed."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["FEATURES", "Features", "in_words", "may_weigh"]

Features = Mapping[str, float]
"""The value of every feature, by name."""

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
"""Every feature with what speaks from a high value of it."""
_LESS = {"split": "it came of the question as a whole", "own": "something that was read says it"}
"""What speaks for an answer from a low value, where one can; `against` is the same for all answers to a question."""
_AGAINST, _EITHER = ("against", "own"), ("split",)
"""Features of which more speaks against an answer, and those of which more may speak for it or against."""


def may_weigh(name: str, weight: float) -> bool:
    """Whether a weight is in keeping with what its feature says: nothing speaks for an answer of another kind."""
    return name in _EITHER or (weight <= 0 if name in _AGAINST else weight >= 0)


def in_words(name: str, high: bool) -> str:
    """What a feature's value says for an answer."""
    return FEATURES[name] if high else _LESS[name]
