"""When to retrieve, and with which query."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Literal, Protocol

from hoptree.core.values import Attended, Token
from hoptree.text.names import (
    MAX_NAME_CHARS,
    Tagger,
    content_words,
    fold,
    is_ordinary_start,
    name_spans,
    sentence_spans,
)
from hoptree.text.tokens import Span, find_words, overlaps, token_spans, word_spans
from hoptree.text.uncertainty import ScoredWord, answer_lead_spans, mean, score_words, token_probability, valid_value

_MAX_QUERY_WORDS = 25  # attended words that DRAGIN keeps


def masked_query(
    text: str, tokens: Sequence[Token], question: str, *, beta: float = 0.4, span: Span | None = None
) -> str:
    """Return FLARE's query: the text without improbable tokens, or the question."""
    start, end = span or (0, len(text))
    masked: set[int] = set()
    for token, place in zip(tokens, token_spans(text, [token.text for token in tokens]), strict=True):
        if place and token_probability(token) < beta:
            masked.update(range(*place))
    leads = [(first, last) for first, last in answer_lead_spans(text) if first < end and start <= last]
    masked.update(at for first, last in leads for at in range(first, last))

    def left(until: int) -> str:
        return "".join(text[at] for at in range(start, until) if at not in masked)

    query = " ".join(left(end).split())
    if not word_spans(query):
        return question
    return f"{question} {query}" if leads and not word_spans(left(leads[0][0])) else query


def attended_query(
    attended: Attended, regions: Sequence[Span], hits: Sequence[Span], tagger: Tagger, *, limit: int = _MAX_QUERY_WORDS
) -> str:
    """Return DRAGIN's query: the content words of `regions` that hits attend to most."""
    rows = attended.weights
    weights = [
        math.fsum(valid_value(row[number]) or 0.0 for row in rows if number < len(row)) / max(1, len(rows))
        for number in range(len(attended.spans))
    ]
    ends = [end for _, end in attended.spans]
    hits = sorted(hits)
    candidates: list[tuple[float, int, str]] = []
    for start, end in regions:
        text = attended.text[start:end]
        for first, last in _content_spans(text, tagger):
            word = (start + first, start + last)
            if not overlaps(word, hits):
                paid, at = 0.0, bisect_right(ends, word[0])
                while at < len(ends) and attended.spans[at][0] < word[1]:
                    paid, at = paid + weights[at], at + 1
                candidates.append((paid, word[0], text[first:last]))
    chosen = sorted(candidates, key=lambda word: -word[0])[:limit]
    return " ".join(word for _, _, word in sorted(chosen, key=lambda word: word[1]))


def content_query(texts: Sequence[str], hits: Sequence[str], tagger: Tagger, *, limit: int = _MAX_QUERY_WORDS) -> str:
    """Return DRAGIN's query without attention: the content words except the hits."""
    left_out = {hit.casefold() for hit in hits}
    words = (text[start:end] for text in texts for start, end in _content_spans(text, tagger))
    return " ".join(islice((word for word in words if word.casefold() not in left_out), limit))


def _content_spans(text: str, tagger: Tagger) -> Iterator[Span]:
    """Yield the spans of content words, without those of "So the answer is"."""
    spans, leads = word_spans(text), answer_lead_spans(text)
    for span, carries in zip(spans, tagger.content(text, spans), strict=True):
        if carries and not overlaps(span, leads):
            yield span


def sure_query(text: str, tokens: Sequence[Token], context: str, tagger: Tagger, *, doubt: float = 0.1) -> str:
    """Return SeaKR's query: the sure content words of a failed step."""
    words = find_words(text, [token.text for token in tokens])
    given = {context[start:end].casefold() for start, end in word_spans(context)}
    carries = content_words(text, words, tagger)
    leads = answer_lead_spans(text)
    kept = []
    for word, content in zip(words, carries, strict=True):
        least = min((token_probability(tokens[at]) for at in word.tokens), default=0.0)
        if (
            content
            and not overlaps((word.start, word.end), leads)
            and (word.text.casefold() in given or 1 - least <= doubt)
        ):
            kept.append(word.text)
    return " ".join(kept)


def sought_words(sentence: str, hits: Sequence[Span], tagger: Tagger) -> tuple[str, ...]:
    """Return the sure content words outside names: the relation sought."""
    names, hits = name_spans(sentence), sorted(hits)
    return tuple(
        sentence[start:end].removesuffix("'s").removesuffix("’s")
        for start, end in _content_spans(sentence, tagger)
        # A possessive "s" after a bracket or quotation mark is a word of its own.
        if not (sentence[start:end].casefold() == "s" and sentence[start - 1 : start] in ("'", "’"))
        and not overlaps((start, end), hits)
        and (is_ordinary_start(sentence, (start, end)) or not overlaps((start, end), names))
    )


def sub_query(names: Sequence[str], sought: Sequence[str], *, limit: int) -> str:
    """Join names and further words, each once, up to a limit."""
    parts: list[str] = []
    used: set[str] = set()
    for part in (*names, *sought):
        words = {fold(part[start:end]) for start, end in word_spans(part)}
        if not words <= used:
            parts.append(part)
            used |= words
    return " ".join(" ".join(parts).split()[:limit])


class Threshold(Protocol):
    """The least score of a hit, given its sentence and the words before it."""

    def of(self, sentence: Sequence[ScoredWord], before: Sequence[ScoredWord]) -> float: ...


@dataclass(frozen=True, slots=True)
class FixedThreshold:
    """DRAGIN's threshold: the same for every sentence."""

    theta: float = 1.0

    def of(self, sentence: Sequence[ScoredWord], before: Sequence[ScoredWord]) -> float:
        return self.theta


@dataclass(frozen=True, slots=True)
class DynamicThreshold:
    """MIND's Equation 3: alpha mean(H) + beta mean(a).

    a is the raw attention, as in Equation 2. With `scaled` it is DRAGIN's, whose mean over a sentence is 1, so that
    beta is a constant summand, as it is without attention. The paper gives no values. A sentence with the same doubt at
    every word stays below the threshold. The words of "So the answer is" do not count.
    """

    alpha: float = 1.5
    beta: float = 0.2
    over: Literal["sentence", "history"] = "sentence"
    scaled: bool = False

    def of(self, sentence: Sequence[ScoredWord], before: Sequence[ScoredWord]) -> float:
        words = (*before, *sentence) if self.over == "history" else sentence
        entropy = mean(word.entropy for word in words if word.content and not word.announces)
        attention = None if self.scaled else mean(word.raw for word in words)
        if attention is None:
            attention = mean(word.attention for word in words)
        return self.alpha * (entropy or 0.0) + self.beta * (attention or 0.0)


@dataclass(frozen=True, slots=True)
class JudgedSentence:
    """A sentence of a draft; `hits` are the words above theta."""

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
    text: str, tokens: Sequence[Token], tagger: Tagger, threshold: Threshold, *, before: Sequence[ScoredWord] = ()
) -> tuple[JudgedSentence, ...]:
    """Judge sentences up to the first with a content word above the threshold."""
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
            replace(word, announces=overlaps((word.word.start, word.word.end), leads))
            for word in score_words(words[first:at], tokens, content[first:at])
        )
        theta = threshold.of(scored, history)
        known = (number for number, word in enumerate(scored) if word.content and word.entropy is not None)
        hits = tuple(number for number in known if not scored[number].announces and scored[number].score > theta)
        judged.append(JudgedSentence(start, end, scored, theta, hits))
        if hits:
            break
        history += scored
    return tuple(judged)


def improbable_sentence(text: str, tokens: Sequence[Token], *, theta: float = 0.8) -> Span | None:
    """FLARE's trigger: the first sentence with an improbable token."""
    places = token_spans(text, [token.text for token in tokens])
    low = sorted(
        place[0] for token, place in zip(tokens, places, strict=True) if place and token_probability(token) < theta
    )
    spans = sentence_spans(text)
    return next(((start, end) for start, end in spans if bisect_left(low, start) < bisect_left(low, end)), None)


NEUTRAL_CONFIDENCE = 0.5  # default confidence for a name that the model did not write itself


def find_mentions(entity: str, text: str) -> tuple[Span, ...]:
    """Return where the words of a name occur in a row."""
    if len(entity) > MAX_NAME_CHARS:
        return ()
    wanted = [fold(entity[start:end]) for start, end in _bare_words(entity)]
    spans, words = _folded_words(text)
    return tuple(
        (spans[at][0], spans[at + len(wanted) - 1][1])
        for at in range(len(words) - len(wanted) + 1)
        if wanted and words[at] == wanted[0] and words[at : at + len(wanted)] == wanted
    )


@lru_cache(maxsize=8)
def _folded_words(text: str) -> tuple[list[Span], list[str]]:
    spans = _bare_words(text)
    return spans, [fold(text[start:end]) for start, end in spans]


def max_confidence(
    signals: Iterable[tuple[float | None, float | None]], *, gamma: float = 1.0, delta: float = 0.2
) -> float | None:
    """Return the maximum of gamma / (1 + H) + delta a."""
    confidences = []
    for entropy, attention in signals:
        if (doubt := valid_value(entropy)) is not None:
            paid = valid_value(attention)
            confidences.append(gamma / (1 + doubt) + delta * (1.0 if paid is None else paid))
    return max(confidences, default=None)


def entity_confidence(
    entity: str, text: str, tokens: Sequence[Token], *, gamma: float = 1.0, delta: float = 0.2, scaled: bool = False
) -> float | None:
    """Return the confidence of a name at its first mention, or None.

    a is the raw attention, or DRAGIN's (`scaled`). H and a are those of words: of the paper's tokens, the last one of
    nearly every name is sure.
    """
    mention_spans = find_mentions(entity, text)
    if not mention_spans:
        return None
    first, last = mention_spans[0]
    start, end = next((span for span in sentence_spans(text) if span[0] <= first < span[1]), mention_spans[0])
    pieces = [token.text for token in tokens]
    inside = [word for word in find_words(text, pieces) if start <= word.start < end]
    scored = score_words(inside, tokens, [True] * len(inside))
    scaled = scaled or all(word.raw is None for word in scored)
    return max_confidence(
        (
            (scored_word.entropy, scored_word.attention if scaled else scored_word.raw or 0.0)
            for scored_word in scored
            if scored_word.word.start < last and first < scored_word.word.end
        ),
        gamma=gamma,
        delta=delta,
    )


def _bare_words(text: str) -> list[Span]:
    return [
        (start, end - 2) if end - start > 2 and text[end - 2 : end].casefold() in ("'s", "’s") else (start, end)
        for start, end in word_spans(text)
    ]
