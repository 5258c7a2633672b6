"""BM25 over a handful of texts in memory, counted as the index on disk counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

from hoptree.retrieval.index.analysis import analyzer_for, composed, pairs, without_asking

_K1, _B = 1.2, 0.75
"""tantivy's, so that scores mean the same as those of an index."""
_TITLE_WEIGHT = 3
_DECIMALS = 4


@dataclass(frozen=True, slots=True)
class Words:
    """How often a text has each of its terms, and each pair of characters in scripts without spaces."""

    terms: Mapping[str, int]
    pairs: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Sought:
    """The terms and the pairs of characters that a query looks for."""

    terms: tuple[str, ...]
    pairs: tuple[str, ...] = ()


class Analysis:
    """From texts of one language to terms."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._analyzer = analyzer_for(language)

    def words(self, title: str, text: str) -> Words:
        """The terms of a text with its title, which counts several times."""
        terms = Counter(self._terms(title) * _TITLE_WEIGHT + self._terms(text))
        return Words(terms, Counter(pairs(composed(f"{title} {text}"))))

    def sought(self, query: str) -> Sought:
        """What a query looks for: the terms of words that do more than ask, if it has any."""
        terms = self._terms(without_asking(query, self._language)) or self._terms(query)
        return Sought(tuple(dict.fromkeys(terms)), tuple(dict.fromkeys(pairs(composed(query)))))

    def tells(self, word: str) -> bool:
        """Whether a word is more than a stop word."""
        return bool(self._terms(word))

    def _terms(self, text: str) -> list[str]:
        return list(self._analyzer.analyze(composed(text)))


def bm25(texts: Sequence[Words], sought: Sought) -> list[float]:
    """The score of each text for a query; 0 where it has nothing of it."""
    by_terms = _scores([text.terms for text in texts], sought.terms)
    by_pairs = _scores([text.pairs for text in texts], sought.pairs)
    return [round(one + other, _DECIMALS) for one, other in zip(by_terms, by_pairs, strict=True)]


def _scores(texts: Sequence[Mapping[str, int]], sought: Sequence[str]) -> list[float]:
    lengths = [sum(counts.values()) for counts in texts]
    average = sum(lengths) / (len(texts) or 1) or 1.0
    scores = [0.0] * len(texts)
    for term in sought:
        having = [place for place, counts in enumerate(texts) if term in counts]
        rarity = log(1 + (len(texts) - len(having) + 0.5) / (len(having) + 0.5))
        for place in having:
            count = texts[place][term]
            damping = _K1 * (1 - _B + _B * lengths[place] / average)
            scores[place] += rarity * count * (_K1 + 1) / (count + damping)
    return scores
