"""How sure a model was of a name that it wrote (MIND's Equation 4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hoptree.graph.naming import fold
from hoptree.models.model import Token
from hoptree.sentences import sentence_spans
from hoptree.uncertainty.scores import known, score_words
from hoptree.uncertainty.spans import Span
from hoptree.uncertainty.words import find_words, word_spans

__all__ = ["NEUTRAL", "confidence", "entity_confidence", "mentions"]

NEUTRAL = 0.5
"""The confidence of a name that the model did not write itself."""


def mentions(entity: str, text: str) -> tuple[Span, ...]:
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
        if (doubt := known(entropy)) is not None:
            paid = known(attention)
            found.append(gamma / (1 + doubt) + delta * (1.0 if paid is None else paid))
    return max(found, default=None)


def entity_confidence(
    entity: str, text: str, tokens: Sequence[Token], *, gamma: float = 1.0, delta: float = 0.2
) -> float | None:
    """The confidence of a name where the text first has it; None if it does not, or if nothing is known there.

    Later mentions copy the first and are sure of themselves. H and a are those of words, as in the scores of a sentence
    (the paper speaks of tokens, of which the last of nearly every name is sure).
    """
    found = mentions(entity, text)
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
