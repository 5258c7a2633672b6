"""Answer metrics, as the data sets' own scripts define them."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

__all__ = ["contains", "exact_match", "normalise"]

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(text: str) -> str:
    """SQuAD's normal form: lower case, no punctuation, no articles, single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str, golds: Sequence[str]) -> bool:
    """Whether the answer is one of the accepted ones, in normal form."""
    return normalise(prediction) in {normalise(gold) for gold in golds}


def contains(prediction: str, golds: Sequence[str]) -> bool:
    """Whether an accepted answer occurs in the prediction as whole words ("no" does not occur in "know")."""
    said = f" {normalise(prediction)} "
    return any(f" {normal} " in said for gold in golds if (normal := normalise(gold)))
