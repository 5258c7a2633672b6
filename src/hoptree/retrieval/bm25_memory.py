"""BM25 over a few passages in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from hoptree.core.values import Passage
from hoptree.retrieval.index.tantivy_files import (
    analyzer_for,
    composed,
    inverse_document_frequency,
    pairs,
    without_asking,
)
from hoptree.text.names import sentences

_K1, _B = 1.2, 0.75  # those of tantivy
_TITLE_WEIGHT = 3
_DECIMALS = 4


@dataclass(frozen=True, slots=True)
class Words:
    """Counts of a text's terms, and of its character pairs in unspaced scripts."""

    terms: Mapping[str, int]
    pairs: Mapping[str, int]


class Analysis:
    """Splits texts of one language into terms."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._analyzer = analyzer_for(language)

    def words(self, title: str, text: str) -> Words:
        """Count the terms of a text with its title, which counts several times."""
        terms = Counter(self._terms(title) * _TITLE_WEIGHT + self._terms(text))
        return Words(terms, Counter(pairs(composed(f"{title} {text}"))))

    def query_words(self, query: str) -> Words:
        """Return the terms of a query, each once, without question words if it has others."""
        terms = self._terms(without_asking(query, self._language)) or self._terms(query)
        return Words(dict.fromkeys(terms, 1), dict.fromkeys(pairs(composed(query)), 1))

    def is_significant(self, word: str) -> bool:
        """Return whether a word is not a stop word."""
        return bool(self._terms(word))

    def _terms(self, text: str) -> list[str]:
        return list(self._analyzer.analyze(composed(text)))


def bm25(texts: Sequence[Words], query: Words) -> list[float]:
    """Return the score of each text for a query; 0 if they share no term."""
    by_terms = _scores([text.terms for text in texts], query.terms)
    by_pairs = _scores([text.pairs for text in texts], query.pairs)
    return [round(terms + pairs, _DECIMALS) for terms, pairs in zip(by_terms, by_pairs, strict=True)]


def best_sentences(query: str, passages: Sequence[Passage], *, keep: int) -> tuple[Passage, ...]:
    """Return the English sentences that match a query best, with their passages' ids."""
    each = {passage.id: passage for passage in passages}.values()
    cut = [replace(passage, text=text) for passage in each for text in dict.fromkeys(sentences(passage.text))]
    analysis = _english()
    scores = bm25([analysis.words(passage.title, passage.text) for passage in cut], analysis.query_words(query))
    places = sorted(range(len(cut)), key=lambda place: -scores[place])[:keep]
    return tuple(replace(cut[place], score=scores[place]) for place in places)


@cache
def _english() -> Analysis:
    return Analysis("english")


def _scores(texts: Sequence[Mapping[str, int]], query: Iterable[str]) -> list[float]:
    lengths = [sum(counts.values()) for counts in texts]
    average = sum(lengths) / (len(texts) or 1) or 1.0
    scores = [0.0] * len(texts)
    for term in query:
        having = [place for place, counts in enumerate(texts) if term in counts]
        rarity = inverse_document_frequency(len(texts), len(having))
        for place in having:
            scores[place] += term_score(rarity, texts[place][term], lengths[place], average)
    return scores


def term_score(rarity: float, count: int, length: int, average_length: float) -> float:
    """Return the BM25 score of a term, given its count and the text's length."""
    damping = _K1 * (1 - _B + _B * length / average_length)
    return rarity * count * (_K1 + 1) / (count + damping)
