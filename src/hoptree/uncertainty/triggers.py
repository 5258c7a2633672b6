"""When a model needs help: MIND's and DRAGIN's sentence that is too unsure, and FLARE's improbable token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from hoptree.models.model import Token
from hoptree.sentences import sentence_spans
from hoptree.uncertainty.queries import answer_leads
from hoptree.uncertainty.scores import ScoredWord, mean, probability, score_words
from hoptree.uncertainty.spans import Span, token_spans
from hoptree.uncertainty.tagging import Tagger, content_words
from hoptree.uncertainty.words import find_words

__all__ = ["CEILING", "Dynamic", "Fixed", "Sentence", "Threshold", "improbable_sentence", "judge_sentences"]

CEILING = 1.5
"""The highest threshold in DRAGIN's published settings, which are 0.6 to 1.5 by model and data set."""


class Threshold(Protocol):
    """What the score of a word must exceed, given its sentence and all words judged before that."""

    def of(self, sentence: Sequence[ScoredWord], before: Sequence[ScoredWord]) -> float: ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """DRAGIN's: the same for every sentence."""

    theta: float = 1.0

    def of(self, sentence: Sequence[ScoredWord], before: Sequence[ScoredWord]) -> float:
        return self.theta


@dataclass(frozen=True, slots=True)
class Dynamic:
    """MIND's Equation 3: alpha mean(H over content words) + beta mean(a), over the sentence or all words so far.

    Since a has a mean of 1 over every sentence, beta is what is added everywhere. The paper names no values. What is
    unsure everywhere stays below it, whatever its entropy; a `ceiling`, which the paper has not, lets it trigger. The
    words of "So the answer is" are always sure, and do not count.
    """

    alpha: float = 1.5
    beta: float = 0.2
    over: Literal["sentence", "history"] = "sentence"
    ceiling: float = math.inf

    def of(self, sentence: Sequence[ScoredWord], before: Sequence[ScoredWord]) -> float:
        words = (*before, *sentence) if self.over == "history" else sentence
        entropy = mean(word.entropy for word in words if word.content and not word.announces)
        attention = mean(word.attention for word in words)
        return min(self.ceiling, self.alpha * (entropy or 0.0) + self.beta * (attention or 0.0))


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a draft as it was judged: `hits` are the numbers of the words whose score exceeds theta."""

    start: int
    end: int
    words: tuple[ScoredWord, ...]
    theta: float
    hits: tuple[int, ...]

    @property
    def triggers(self) -> bool:
        return bool(self.hits)

    @property
    def highest(self) -> float:
        return max((word.score for word in self.words), default=0.0)

    @property
    def hit_words(self) -> tuple[ScoredWord, ...]:
        return tuple(self.words[number] for number in self.hits)


def judge_sentences(
    text: str,
    tokens: Sequence[Token],
    tagger: Tagger,
    threshold: Threshold,
    *,
    before: Sequence[ScoredWord] = (),
) -> tuple[Sentence, ...]:
    """The sentences of a draft up to the first that triggers, which is then the last; all of them if none does.

    Only content words hit: where all that is unsure are words such as "the", nothing triggers. Neither do those of "So
    the answer is". `before` are the words of earlier drafts that were kept, for a threshold over the history.
    """
    words = find_words(text, [token.text for token in tokens])
    content = content_words(text, words, tagger)
    leads = answer_leads(text)
    history = list(before)
    judged: list[Sentence] = []
    at = 0
    for start, end in sentence_spans(text):
        first = at
        while at < len(words) and words[at].start < end:
            at += 1
        scored = tuple(
            replace(word, announces=_inside(word, leads))
            for word in score_words(words[first:at], tokens, content[first:at])
        )
        theta = threshold.of(scored, history)
        hits = tuple(number for number, word in enumerate(scored) if _hits(word, theta))
        judged.append(Sentence(start, end, scored, theta, hits))
        if hits:
            break
        history += scored
    return tuple(judged)


def improbable_sentence(text: str, tokens: Sequence[Token], *, theta: float = 0.8) -> Span | None:
    """FLARE's trigger: the first sentence with a token less probable than theta, if there is one.

    Tokens that wrote nothing visible (the end of the reply, say) do not count.
    """
    places = token_spans(text, [token.text for token in tokens])
    for start, end in sentence_spans(text):
        for token, place in zip(tokens, places, strict=True):
            if place and start <= place[0] < end and probability(token) < theta:
                return start, end
    return None


def _hits(word: ScoredWord, theta: float) -> bool:
    return word.content and not word.announces and word.entropy is not None and word.score > theta


def _inside(word: ScoredWord, leads: Sequence[Span]) -> bool:
    return any(first <= word.word.start and word.word.end <= last for first, last in leads)
