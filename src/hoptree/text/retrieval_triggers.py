"""When a model needs help: MIND's and DRAGIN's sentence that is too unsure, and FLARE's improbable token."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from hoptree.core.values import Attended, Token
from hoptree.text.names import fold
from hoptree.text.sentences import sentence_spans
from hoptree.text.tokens import Span, find_words, token_spans, word_spans
from hoptree.text.uncertainty import ScoredWord, answer_lead_spans, mean, score_words, token_probability, valid_value
from hoptree.text.word_classes import Tagger, content_words

WORDS = 25
"""Words that DRAGIN keeps of those that were attended to."""


def masked_query(
    text: str, tokens: Sequence[Token], question: str, *, beta: float = 0.4, span: Span | None = None
) -> str:
    """FLARE's query: the text, or this span of it, without tokens less probable than beta; of nothing, the question.

    Of a span that says no more than "So the answer is", or stands behind it, the question goes before the answer.
    """
    start, end = span or (0, len(text))
    masked: set[int] = set()
    for token, place in zip(tokens, token_spans(text, [token.text for token in tokens]), strict=True):
        if place and token_probability(token) < beta:
            masked.update(range(*place))
    leads = [(first, last) for first, last in answer_lead_spans(text) if first < end and start <= last]
    masked.update(at for first, last in leads for at in range(first, last))

    def left(until: int) -> str:
        return "".join(text[at] for at in range(start, until) if at not in masked)

    said = " ".join(left(end).split())
    if not word_spans(said):
        return question
    return f"{question} {said}" if leads and not word_spans(left(leads[0][0])) else said


def attended_query(
    attended: Attended, regions: Sequence[Span], hits: Sequence[Span], tagger: Tagger, *, limit: int = WORDS
) -> str:
    """DRAGIN's query: the content words of these regions that the hit words looked back at most, in their order.

    `attended` has a row of attention for each hit; the regions are where the question and the text so far stand in its
    text, and the hits, which are left out, where the unsure words do. What a word's tokens get is summed, and the mean
    is taken over the hits. "" if no content word is left, which is no reason to search.
    """
    rows = attended.weights
    weights = [
        math.fsum(valid_value(row[number]) or 0.0 for row in rows if number < len(row)) / max(1, len(rows))
        for number in range(len(attended.spans))
    ]
    ends = [end for _, end in attended.spans]
    candidates: list[tuple[float, int, str]] = []
    for start, end in regions:
        text = attended.text[start:end]
        spans, leads = word_spans(text), answer_lead_spans(text)
        for (first, last), carries in zip(spans, tagger.content(text, spans), strict=True):
            word = (start + first, start + last)
            if carries and not _meets(word, hits) and not _meets((first, last), leads):
                candidates.append((_paid(attended.spans, ends, weights, word), word[0], text[first:last]))
    chosen = sorted(candidates, key=lambda word: -word[0])[:limit]
    return " ".join(word for _, _, word in sorted(chosen, key=lambda word: word[1]))


def content_query(texts: Sequence[str], hits: Sequence[str], tagger: Tagger, *, limit: int = WORDS) -> str:
    """DRAGIN's query where no attention is known: the content words of question and sentence, but for the hits."""
    left_out = {hit.casefold() for hit in hits}
    found: list[str] = []
    for text in texts:
        spans, leads = word_spans(text), answer_lead_spans(text)
        for (start, end), carries in zip(spans, tagger.content(text, spans), strict=True):
            if carries and text[start:end].casefold() not in left_out and not _meets((start, end), leads):
                found.append(text[start:end])
    return " ".join(found[:limit])


def sure_query(text: str, tokens: Sequence[Token], context: str, tagger: Tagger, *, doubt: float = 0.1) -> str:
    """SeaKR's query: the content words of a failed step that the context holds too, or that are this sure.

    A word is as sure as its least probable token: 1 - p must not exceed `doubt`.
    """
    words = find_words(text, [token.text for token in tokens])
    given = {context[start:end].casefold() for start, end in word_spans(context)}
    carries = content_words(text, words, tagger)
    leads = answer_lead_spans(text)
    kept = []
    for word, content in zip(words, carries, strict=True):
        least = min((token_probability(tokens[at]) for at in word.tokens), default=0.0)
        if (
            content
            and not _meets((word.start, word.end), leads)
            and (word.text.casefold() in given or 1 - least <= doubt)
        ):
            kept.append(word.text)
    return " ".join(kept)


def _meets(word: Span, places: Sequence[Span]) -> bool:
    return any(first < word[1] and word[0] < last for first, last in places)


def _paid(spans: Sequence[Span], ends: Sequence[int], weights: Sequence[float], word: Span) -> float:
    """What the tokens get that have a part in a word."""
    total, at = 0.0, bisect_right(ends, word[0])
    while at < len(spans) and spans[at][0] < word[1]:
        total += weights[at]
        at += 1
    return total


MAX_THRESHOLD = 1.5
"""The highest threshold in DRAGIN's published settings, which are 0.6 to 1.5 by model and data set."""


class Threshold(Protocol):
    """What the score of a word must exceed, given its sentence and all words judged before that."""

    def of(self, sentence: Sequence[ScoredWord], before: Sequence[ScoredWord]) -> float: ...


@dataclass(frozen=True, slots=True)
class FixedThreshold:
    """DRAGIN's: the same for every sentence."""

    theta: float = 1.0

    def of(self, sentence: Sequence[ScoredWord], before: Sequence[ScoredWord]) -> float:
        return self.theta


@dataclass(frozen=True, slots=True)
class DynamicThreshold:
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
class JudgedSentence:
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
) -> tuple[JudgedSentence, ...]:
    """The sentences of a draft up to the first that triggers, which is then the last; all of them if none does.

    Only content words hit: where all that is unsure are words such as "the", nothing triggers. Neither do those of "So
    the answer is". `before` are the words of earlier drafts that were kept, for a threshold over the history.
    """
    words = find_words(text, [token.text for token in tokens])
    content = content_words(text, words, tagger)
    leads = answer_lead_spans(text)
    history = list(before)
    judged: list[JudgedSentence] = []
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
        judged.append(JudgedSentence(start, end, scored, theta, hits))
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
            if place and start <= place[0] < end and token_probability(token) < theta:
                return start, end
    return None


def _hits(word: ScoredWord, theta: float) -> bool:
    return word.content and not word.announces and word.entropy is not None and word.score > theta


def _inside(word: ScoredWord, leads: Sequence[Span]) -> bool:
    return any(first <= word.word.start and word.word.end <= last for first, last in leads)


NEUTRAL_CONFIDENCE = 0.5
"""The confidence of a name that the model did not write itself."""


def find_mentions(entity: str, text: str) -> tuple[Span, ...]:
    """Where the words of a name stand in a row, whatever their capitals and accents; a possessive is left out."""
    wanted = [fold(entity[start:end]) for start, end in _bare_words(entity)]
    spans = _bare_words(text)
    words = [fold(text[start:end]) for start, end in spans]
    return tuple(
        (spans[at][0], spans[at + len(wanted) - 1][1])
        for at in range(len(words) - len(wanted) + 1)
        if wanted and words[at : at + len(wanted)] == wanted
    )


def confidence(
    signals: Iterable[tuple[float | None, float | None]], *, gamma: float = 1.0, delta: float = 0.2
) -> float | None:
    """The maximum of gamma / (1 + H) + delta a, for pairs of H and a; a counts 1 where unknown."""
    found = []
    for entropy, attention in signals:
        if (doubt := valid_value(entropy)) is not None:
            paid = valid_value(attention)
            found.append(gamma / (1 + doubt) + delta * (1.0 if paid is None else paid))
    return max(found, default=None)


def entity_confidence(
    entity: str, text: str, tokens: Sequence[Token], *, gamma: float = 1.0, delta: float = 0.2
) -> float | None:
    """The confidence of a name where the text first has it; None if it does not, or if nothing is known there.

    Later mentions copy the first and are sure of themselves. H and a are those of words, as in the scores of a sentence
    (the paper speaks of tokens, of which the last of nearly every name is sure).
    """
    found = find_mentions(entity, text)
    if not found:
        return None
    first, last = found[0]
    start, end = next((span for span in sentence_spans(text) if span[0] <= first < span[1]), found[0])
    pieces = [token.text for token in tokens]
    inside = [word for word in find_words(text, pieces) if start <= word.start < end]
    scored = score_words(inside, tokens, [True] * len(inside))
    return confidence(
        ((one.entropy, one.attention) for one in scored if one.word.start < last and first < one.word.end),
        gamma=gamma,
        delta=delta,
    )


def _bare_words(text: str) -> list[Span]:
    return [
        (start, end - 2) if end - start > 2 and text[end - 2 : end].casefold() in ("'s", "’s") else (start, end)
        for start, end in word_spans(text)
    ]
