"""HippoRAG's retriever: facts near a query start a walk over the graph, and passages are ranked by where it leads."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hoptree.retrieval.filters import fits
from hoptree.retrieval.fusion import normalised
from hoptree.retrieval.hippo.graph import PhraseGraph
from hoptree.retrieval.hippo.nearest import NearestFacts
from hoptree.retrieval.hippo.phrases import fact_key, phrase_of
from hoptree.retrieval.index.ledger import key_of
from hoptree.retrieval.retriever import Retriever
from hoptree.retrieval.store import PassageStore
from hoptree.values import Fact, Passage

__all__ = ["Hippo", "Walk"]

_DECIMALS = 9
_FETCHED = 64
_LEAST = 1e-3
"""The share of the last one of the first ranking, so that it is found at all."""


@dataclass(frozen=True, slots=True)
class Walk:
    """How a walk starts and goes on; the values are those of HippoRAG 2."""

    facts: int = 5
    """Facts nearest to a query."""
    phrases: int = 5
    """Phrases of these facts that a walk starts from, those of most weight."""
    passages: int = 200
    """Passages by the first ranking that it starts from, too."""
    passage_weight: float = 0.05
    """What the best of these passages counts beside a phrase."""
    damping: float = 0.5
    """The chance to go on from a node, and not to start anew."""


class Hippo:
    """A retriever over an index with facts.

    `facts` are those of the passages that `graph` was made of, by key; `first` ranks passages by their own text (dense
    where the index has vectors, else BM25): its best are starts of little weight, and its ranking is the result where
    no fact is near. Both are closed with it.
    """

    kind = "hippo"

    def __init__(
        self,
        store: PassageStore,
        graph: PhraseGraph,
        facts: Mapping[int, Fact],
        nearest: NearestFacts,
        first: Retriever,
        *,
        digest: str,
        walk: Walk | None = None,
    ) -> None:
        self._store, self._graph, self._facts = store, graph, facts
        self._nearest, self._first = nearest, first
        self._walk = walk or Walk()
        self.identity = f"hippo:{digest}:{nearest.identity}:{self._walk}:({first.identity})"
        self.remote = nearest.remote or first.remote
        self.tells = frozenset(("facts", "synonyms") if nearest.by_meaning else ("facts",))

    async def facts_near(self, query: str, *, k: int) -> tuple[Fact, ...]:
        near = await self._nearest.nearest(query, k)
        return tuple(replace(self._facts[key], confidence=score) for key, score in near if key in self._facts)

    def guided(self, facts: Sequence[Fact]) -> Retriever:
        return _Guided(self, tuple(facts))

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        return await self.search_from(query, await self.facts_near(query, k=self._walk.facts), k=k, where=where)

    async def search_from(
        self, query: str, facts: Sequence[Fact], *, k: int, where: Mapping[str, str] | None = None
    ) -> tuple[Passage, ...]:
        """The k passages that a walk from these facts leads to most."""
        if k <= 0:
            return ()
        starts = self._starts(facts)
        if not starts:
            return await self._first.search(query, k=k, where=where)
        ranked = await self._first.search(query, k=self._walk.passages)
        if where:  # a walk may start from what does not fit, but what fits should be met
            ranked += await self._first.search(query, k=self._walk.passages, where=where)
        return await asyncio.to_thread(self._search, starts, ranked, k, where or {})

    async def aclose(self) -> None:
        await self._nearest.aclose()
        await self._first.aclose()

    def _starts(self, facts: Sequence[Fact]) -> dict[str, float]:
        """The phrases of the facts: the mean of how near their facts are (the nearest is 1), by how rare they are."""
        best = max((fact.confidence for fact in facts), default=0.0)
        scores: dict[str, list[float]] = {}
        for fact in facts:
            for phrase in dict.fromkeys(map(phrase_of, (fact.subject, fact.object))):
                if best > 0 and fact.confidence > 0 and self._graph.spread_of(phrase):
                    scores.setdefault(phrase, []).append(fact.confidence / best)
        weights = {name: sum(some) / len(some) / self._graph.spread_of(name) for name, some in scores.items()}
        kept = sorted(weights, key=lambda name: (-weights[name], name))[: self._walk.phrases]
        return {name: weights[name] for name in kept}

    def _search(
        self, starts: Mapping[str, float], ranked: Sequence[Passage], k: int, where: Mapping[str, str]
    ) -> tuple[Passage, ...]:
        shares = normalised([passage.score for passage in ranked])
        weight = self._walk.passage_weight
        texts = {key_of(one.id): max(share, _LEAST) * weight for one, share in zip(ranked, shares, strict=True)}
        met = self._graph.walk(starts, texts, damping=self._walk.damping)
        scores = {key: round(score, _DECIMALS) for key, score in met.items()}
        order = sorted((key for key, score in scores.items() if score > 0), key=lambda key: -scores[key])
        own = {key_of(passage.id): passage for passage in ranked}
        found: list[Passage] = []
        for start in range(0, len(order), _FETCHED):
            # One that ties with the k-th may come before it by its id.
            if len(found) >= k and scores[order[start]] < found[k - 1].score:
                break
            some = order[start : start + _FETCHED]
            passages = own | self._store.fetch([key for key in some if key not in own])
            for key in some:
                if key in passages and fits(passages[key], where):
                    stages = (*own[key].stages, (self.kind, scores[key])) if key in own else ((self.kind, scores[key]),)
                    found.append(replace(passages[key], score=scores[key], stages=stages))
            found.sort(key=lambda passage: (-passage.score, passage.id))
        return tuple(found[:k])


class _Guided:
    """A retriever whose searches go out from facts that somebody chose."""

    kind = "hippo"

    def __init__(self, whole: Hippo, facts: tuple[Fact, ...]) -> None:
        self._whole, self._facts = whole, facts
        chosen = ",".join(f"{fact_key(f.subject, f.relation, f.object)}:{f.confidence:.6f}" for f in facts)
        self.identity = f"{whole.identity}:{hashlib.sha256(chosen.encode()).hexdigest()[:16]}"
        self.remote = whole.remote

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        return await self._whole.search_from(query, self._facts, k=k, where=where)

    async def aclose(self) -> None:
        return None
