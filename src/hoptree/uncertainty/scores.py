"""How unsure a model was of each word of a sentence, and how much the rest hangs on it (DRAGIN's signal)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hoptree.models.model import Token
from hoptree.uncertainty.words import Word

__all__ = ["ScoredWord", "known", "mean", "mean_one", "probability", "score_words"]

_LARGEST = 1e6
"""More than any entropy or attention."""


@dataclass(frozen=True, slots=True)
class ScoredWord:
    """A word with H (None where unknown), a (1 where unknown) and whether it carries content.

    One that only `announces` the answer is no reason to search: its doubt is whether to end now.
    """

    word: Word
    entropy: float | None
    attention: float
    content: bool
    announces: bool = False

    @property
    def score(self) -> float:
        """S = H a s, 0 where there is nothing to tell it from."""
        if not self.content or self.announces or self.entropy is None:
            return 0.0
        return self.entropy * self.attention


def score_words(words: Sequence[Word], tokens: Sequence[Token], content: Sequence[bool]) -> tuple[ScoredWord, ...]:
    """The words of one sentence with H, the mean entropy of their tokens, and a, the attention paid to them.

    Attention is summed over the tokens of a word and then scaled to a mean of 1 over the words that have any; so a long
    sentence has no smaller values than a short one. A number that is written digit by digit gets what many tokens do,
    and so do rare names: that is DRAGIN's measure.
    """
    paid = [_total(tokens[number].attention for number in word.tokens) for word in words]
    return tuple(
        ScoredWord(word, mean(tokens[number].entropy for number in word.tokens), share, carries)
        for word, share, carries in zip(words, mean_one(paid), content, strict=True)
    )


def mean_one(values: Sequence[float | None]) -> tuple[float, ...]:
    """The values divided by their mean; 1 for each that is unknown, and for all where they are nothing."""
    values = [known(value) for value in values]
    average = mean(values)
    return tuple(1.0 if value is None or not average else value / average for value in values)


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of the values that are known; None of none."""
    counted = [value for value in map(known, values) if value is not None]
    return math.fsum(counted) / len(counted) if counted else None


def known(value: float | None) -> float | None:
    """The value if it can be one: NaN and what is too large tell nothing, and what rounding left below 0 is 0."""
    return max(0.0, value) if value is not None and abs(value) < _LARGEST else None


def probability(token: Token) -> float:
    """The probability of a token; one that is no number counts as 0."""
    return 0.0 if math.isnan(token.logprob) else math.exp(min(0.0, token.logprob))


def _total(values: Iterable[float | None]) -> float | None:
    counted = [value for value in map(known, values) if value is not None]
    return math.fsum(counted) if counted else None
