"""A generated sentence, the model's doubt of each word, and of the sentence."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hoptree.text.tokens import find_words, token_spans, word_spans

LEVELS = (0.25, 0.75, 1.5, 2.5)
"""The bounds, in nats, between the five levels of a word's doubt (0 to 4)."""

Measure = Literal["score", "probability", "disagreement", "spread"]
MEASURES: dict[Measure, str] = {
    "score": "S is a word's entropy times its share of attention, and θ what it must exceed",
    "probability": "p is the probability of a word's least probable token, and θ what it must not fall below",
    "disagreement": "Disagreement is how much samples of a sentence differ, and θ what it must exceed",
    "spread": "U is how far samples of a step are apart, and θ what it must exceed",
}
"""What is compared with a threshold before anything is looked up."""
_SIGNS: dict[Measure, str] = {"score": "S", "probability": "least p", "disagreement": "disagreement", "spread": "U"}


@dataclass(frozen=True, slots=True)
class WordView:
    """A word or punctuation mark of a sentence, and the model's doubt about it.

    `hit` marks the words that put the sentence in doubt; by entropy only words with `content` can.
    """

    text: str
    start: int
    end: int
    entropy: float | None = None
    attention: float | None = None
    score: float | None = None
    probability: float | None = None
    content: bool = True
    hit: bool = False

    @property
    def doubt(self) -> float | None:
        """The entropy, or else the surprisal, in nats."""
        if self.entropy is not None or self.probability is None:
            return self.entropy
        return -math.log(max(self.probability, 1e-9))

    @property
    def level(self) -> int:
        return 0 if self.doubt is None else bisect_right(LEVELS, self.doubt)

    @property
    def told(self) -> str:
        """All measures of the word, in one line."""
        parts = [
            *_labelled("entropy", self.entropy),
            *_labelled("attention share", self.attention),
            *_labelled("score", self.score),
            *_labelled("probability", self.probability),
        ]
        if self.entropy is not None and not self.content:
            parts.append("carries no content: does not count")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class SentenceView:
    """A sentence: its words, and the value that was compared with theta, if any."""

    text: str
    words: tuple[WordView, ...] = ()
    triggered: bool = False
    measure: Measure = "score"
    measured: float | None = None
    theta: float | None = None
    samples: tuple[str, ...] = ()

    @classmethod
    def by_scores(
        cls, text: str, rows: Sequence[Sequence[Any]], hits: Sequence[int], triggered: bool, highest: Any, theta: Any
    ) -> SentenceView:
        """Judge by words: rows of word, entropy, attention, score, has content."""
        return cls(text, _scored(text, rows, hits), triggered, "score", number(highest), number(theta))

    @classmethod
    def by_tokens(
        cls, text: str, rows: Sequence[Sequence[Any]], triggered: bool = False, theta: Any = None
    ) -> SentenceView:
        """Judge by the probability of tokens; rows of token and probability."""
        words = _probable(text, rows, number(theta) if triggered else None)
        least = min((word.probability for word in words if word.probability is not None), default=None)
        return cls(text, words, triggered, "probability", least, number(theta))

    @classmethod
    def by_spread(
        cls, text: str, rows: Sequence[Sequence[Any]], spread: Any, triggered: bool = False, theta: Any = None
    ) -> SentenceView:
        """Judge by how far samples of the step are apart; rows as for `by_tokens`."""
        return cls(text, _probable(text, rows, None), triggered, "spread", number(spread), number(theta))

    @classmethod
    def by_samples(
        cls, text: str, samples: Sequence[str], hits: Sequence[str], triggered: bool, highest: Any, theta: Any
    ) -> SentenceView:
        """Judge by samples of the sentence; `hits` are the words that most of them lack."""
        words = _rare(text, hits)
        return cls(text, words, triggered, "disagreement", number(highest), number(theta), tuple(map(str, samples)))

    @property
    def pieces(self) -> Iterator[tuple[str, WordView | None]]:
        """The whole text in order: words with their views, and the text between them."""
        at = 0
        for word in self.words:
            if word.start > at:
                yield self.text[at : word.start], None
            yield self.text[word.start : word.end], word
            at = word.end
        if at < len(self.text):
            yield self.text[at:], None

    @property
    def compared(self) -> str:
        """The measured value and its threshold: "S 3.00 > θ 1.65"."""
        if self.measured is None:
            return "no sample said anything" if self.measure == "spread" and self.triggered else ""
        value = f"{_SIGNS[self.measure]} {self.measured:.2f}"
        if self.theta is None:
            return value
        below = self.measure == "probability"
        sign = ("<" if below else ">") if self.triggered else ("≥" if below else "≤")
        return f"{value} {sign} θ {self.theta:.2f}"


def number(value: Any) -> float | None:
    """Return a number of a trace as float; None if it is not a finite number."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known else None


def _labelled(name: str, value: float | None) -> list[str]:
    return [] if value is None else [f"{name} {value:.2f}"]


def _scored(text: str, rows: Sequence[Sequence[Any]], hits: Sequence[int]) -> tuple[WordView, ...]:
    """Return scored words in their order, each at its next place in the text."""
    views: list[WordView] = []
    hit_places = frozenset(hits)
    at = 0
    for place, (word, entropy, attention, score, content) in enumerate(rows):
        start = text.find(word, at)
        if start < 0 or not word:
            continue
        at = start + len(word)
        numbers = (number(entropy), number(attention), number(score))
        views.append(WordView(word, start, at, *numbers, content=content is True, hit=place in hit_places))
    return tuple(views)


def _probable(text: str, rows: Sequence[Sequence[Any]], below: float | None) -> tuple[WordView, ...]:
    """Return words, and tokens outside words, with their least token probability."""
    pieces = [str(token) for token, _ in rows]
    probabilities = [number(value) for _, value in rows]
    spans = {(word.start, word.end): list(word.tokens) for word in find_words(text, pieces)}
    taken = {at for numbers in spans.values() for at in numbers}
    for at, place in enumerate(token_spans(text, pieces)):
        if place and at not in taken:
            spans.setdefault(place, []).append(at)
    views: list[WordView] = []
    end = 0
    for (start, stop), numbers in sorted(spans.items()):
        least = min((value for at in numbers if (value := probabilities[at]) is not None), default=None)
        if start < end or not numbers:
            continue
        hit = below is not None and least is not None and least < below
        views.append(WordView(text[start:stop], start, stop, probability=least, hit=hit))
        end = stop
    return tuple(views)


def _rare(text: str, hits: Sequence[str]) -> tuple[WordView, ...]:
    """Return the words that most samples lack."""
    left = list(hits)
    views: list[WordView] = []
    for start, end in word_spans(text):
        if left and text[start:end] == left[0]:
            views.append(WordView(left.pop(0), start, end, hit=True))
    return tuple(views)
