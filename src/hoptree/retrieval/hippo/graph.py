"""The graph of phrases and passages, and the walk that starts from some of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from hoptree.retrieval.extras import library
from hoptree.retrieval.hippo.phrases import phrase_key, phrase_of
from hoptree.values import Fact

__all__ = ["PhraseGraph"]

_FEATURE = "Retrieval along facts"
_TOLERANCE, _ROUNDS = 1e-9, 1_000


class PhraseGraph:
    """Phrases, passages and what ties them, each tie going both ways with its weight.

    Two phrases are tied once for each passage that states a fact of them, and by their cosine where they are synonyms;
    a passage is tied to every phrase of its facts. So every node has a tie, and a walk never ends in one.
    """

    def __init__(self, facts: Iterable[tuple[int, int, Fact]], synonyms: Iterable[tuple[int, int, float]] = ()) -> None:
        self._phrases: dict[str, int] = {}
        self._passages: dict[int, int] = {}
        self._count = 0
        ties: Counter[tuple[int, int]] = Counter()
        held: set[tuple[int, int]] = set()
        for _, passage, fact in facts:
            ends = (self._phrase(phrase_of(fact.subject)), self._phrase(phrase_of(fact.object)))
            if passage not in self._passages:
                self._passages[passage] = self._next()
            held.update((self._passages[passage], end) for end in ends)
            if ends[0] != ends[1]:
                ties[min(ends), max(ends)] += 1
        self._held_by = Counter(phrase for _, phrase in held)
        weights: dict[tuple[int, int], float] = {**ties, **dict.fromkeys(held, 1.0)}
        numbers = {phrase_key(phrase): node for phrase, node in self._phrases.items()}
        for one, other, cosine in synonyms:
            if one in numbers and other in numbers:
                pair = (min(numbers[one], numbers[other]), max(numbers[one], numbers[other]))
                weights[pair] = weights.get(pair, 0.0) + cosine
        self._graph = self._made(weights)
        self.ties = len(weights)

    def _phrase(self, phrase: str) -> int:
        if phrase not in self._phrases:
            self._phrases[phrase] = self._next()
        return self._phrases[phrase]

    def _next(self) -> int:
        self._count += 1
        return self._count - 1

    def _made(self, weights: Mapping[tuple[int, int], float]) -> Any:
        rustworkx = library("rustworkx", _FEATURE, "graph")
        graph = rustworkx.PyDiGraph()
        graph.add_nodes_from([None] * self._count)
        graph.add_edges_from([(one, other, float(weight)) for (one, other), weight in weights.items()])
        graph.add_edges_from([(other, one, float(weight)) for (one, other), weight in weights.items()])
        return graph

    @property
    def phrases(self) -> int:
        return len(self._phrases)

    @property
    def passages(self) -> int:
        return len(self._passages)

    def spread_of(self, phrase: str) -> int:
        """How many passages state something of a phrase; 0 for one that is no node."""
        return self._held_by[self._phrases[phrase]] if phrase in self._phrases else 0

    def walk(self, phrases: Mapping[str, float], passages: Mapping[int, float], *, damping: float) -> dict[int, float]:
        """How often a walk is at each passage that starts anew, with `1 - damping`, from these by their weights.

        A passage without facts is tied to nothing: it is where a walk is only while it starts there.
        """
        whole = sum(phrases.values()) + sum(passages.values())
        if whole <= 0:
            return {}
        starts = {
            self._phrases[phrase]: weight / whole for phrase, weight in phrases.items() if phrase in self._phrases
        }
        starts |= {self._passages[key]: weight / whole for key, weight in passages.items() if key in self._passages}
        inside = sum(starts.values())
        found = {key: (1 - damping) * weight / whole for key, weight in passages.items() if key not in self._passages}
        if inside > 0:
            rank = library("rustworkx", _FEATURE, "graph").pagerank(
                self._graph,
                alpha=damping,
                weight_fn=float,
                personalization=starts,
                nstart=starts,  # so that what cannot be reached stays at nothing
                tol=_TOLERANCE / self._count,  # it is compared with the mean change of a node
                max_iter=_ROUNDS,
            )
            found |= {key: inside * rank[node] for key, node in self._passages.items()}
        return found
