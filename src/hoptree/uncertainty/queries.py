"""What to search for when a model is unsure: FLARE's masked sentence, DRAGIN's and SeaKR's words."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Sequence

from hoptree.models.model import Attended, Token
from hoptree.uncertainty.scores import known, probability
from hoptree.uncertainty.spans import Span, token_spans
from hoptree.uncertainty.tagging import Tagger, content_words
from hoptree.uncertainty.words import find_words, word_spans

__all__ = ["answer_leads", "attended_query", "content_query", "masked_query", "sure_query"]

WORDS = 25
"""Words that DRAGIN keeps of those that were attended to."""
_LEAD = re.compile(
    r"\b(?:(?:so|thus|hence|therefore)\b,?\s{1,9})?(?:(?:the|my|our)\s{1,9})?(?:(?:final|correct|short)\s{1,9})?"
    r"answer\s{1,9}is\b[\s:]*+",
    re.IGNORECASE,
)


def answer_leads(text: str) -> tuple[Span, ...]:
    """Where "So the answer is:" stands, which tells nothing of what to search for."""
    return tuple(found.span() for found in _LEAD.finditer(text))


def masked_query(
    text: str, tokens: Sequence[Token], question: str, *, beta: float = 0.4, span: Span | None = None
) -> str:
    """FLARE's query: the text, or this span of it, without tokens less probable than beta; of nothing, the question.

    Of a span that says no more than "So the answer is", or stands behind it, the question goes before the answer.
    """
    start, end = span or (0, len(text))
    masked: set[int] = set()
    for token, place in zip(tokens, token_spans(text, [token.text for token in tokens]), strict=True):
        if place and probability(token) < beta:
            masked.update(range(*place))
    leads = [(first, last) for first, last in answer_leads(text) if first < end and start <= last]
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
        math.fsum(known(row[number]) or 0.0 for row in rows if number < len(row)) / max(1, len(rows))
        for number in range(len(attended.spans))
    ]
    ends = [end for _, end in attended.spans]
    candidates: list[tuple[float, int, str]] = []
    for start, end in regions:
        text = attended.text[start:end]
        spans, leads = word_spans(text), answer_leads(text)
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
        spans, leads = word_spans(text), answer_leads(text)
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
    leads = answer_leads(text)
    kept = []
    for word, content in zip(words, carries, strict=True):
        least = min((probability(tokens[at]) for at in word.tokens), default=0.0)
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
