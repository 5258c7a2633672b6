"""Fuses rankings by reciprocal rank or weighted score, and leaves out near-duplicates."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from hoptree.core.errors import ConfigError
from hoptree.core.values import Passage
from hoptree.retrieval.retriever import Retriever, cache_lifetime

_DECIMALS = 6
_WORD = re.compile(r"\w+")
_SHINGLE_WORDS = 3
_EXTRA = 8
"""Passages fetched beyond k in place of duplicates; twice as many each time they are too few."""


class Fused:
    """Asks several retrievers at once and merges their rankings.

    `rrf` gives a passage weight / (c + rank) for each ranking that holds it. `weighted` gives weight times its score,
    normalised within its ranking. Each ranking goes down to `depth`, or to k if that is more.
    """

    kind = "fused"

    def __init__(
        self,
        retrievers: Sequence[Retriever],
        *,
        how: Literal["rrf", "weighted"] = "rrf",
        weights: Sequence[float] | None = None,
        depth: int = 100,
        c: int = 60,
    ) -> None:
        weights = [1.0] * len(retrievers) if weights is None else list(weights)
        if not retrievers:
            raise ConfigError("There is nothing to fuse.", "Give at least one retriever.")
        if len(weights) != len(retrievers):
            raise ConfigError(f"{len(retrievers)} retrievers have {len(weights)} weights.", "Give one for each.")
        if not all(math.isfinite(weight) and weight >= 0 for weight in weights) or not any(weights):
            raise ConfigError("A weight is negative or no number, or all are zero.", "Give weights from 0 up.")
        if how not in ("rrf", "weighted"):
            raise ConfigError(f"There is no fusion '{how}'.", "Use rrf or weighted.")
        if depth < 1 or c < 0:
            raise ConfigError("The depth of a fusion is at least 1 and its constant at least 0.", "Raise it.")
        self._retrievers = tuple(retrievers)
        self._weights = weights
        self._how = how
        self._depth = depth
        self._c = c
        parts = ",".join(
            f"{weight:g}*{retriever.identity}" for weight, retriever in zip(weights, retrievers, strict=True)
        )
        self.identity = f"fused:{how}:{depth}:{c}:({parts})"
        self.remote = any(retriever.remote for retriever in retrievers)
        self.lasts = min(map(cache_lifetime, retrievers))

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        if k <= 0:
            return ()
        depth = max(k, self._depth)
        searches = (retriever.search(query, k=depth, where=where) for retriever in self._retrievers)
        return self._merge(await asyncio.gather(*searches))[:k]

    async def aclose(self) -> None:
        for retriever in self._retrievers:
            await retriever.aclose()

    def _merge(self, rankings: Sequence[Sequence[Passage]]) -> tuple[Passage, ...]:
        passages: dict[str, Passage] = {}
        stages: dict[str, tuple[tuple[str, float], ...]] = {}
        totals: dict[str, float] = {}
        for ranking, weight in zip(rankings, self._weights, strict=True):
            for passage, share in zip(ranking, self._shares(ranking), strict=True):
                passages.setdefault(passage.id, passage)
                stages[passage.id] = stages.get(passage.id, ()) + passage.stages
                totals[passage.id] = totals.get(passage.id, 0.0) + weight * share
        fused = [
            replace(passage, score=score, stages=(*stages[name], (self._how, score)))
            for name, passage in passages.items()
            for score in (round(totals[name], _DECIMALS),)
        ]
        return tuple(sorted(fused, key=lambda passage: (-passage.score, passage.id)))

    def _shares(self, ranking: Sequence[Passage]) -> list[float]:
        if self._how == "rrf":
            return [1.0 / (self._c + rank) for rank in range(1, len(ranking) + 1)]
        return normalise_scores([passage.score for passage in ranking])


def normalise_scores(scores: Sequence[float]) -> list[float]:
    """Scale the scores to between 0 and 1; all are 1 if they are the same."""
    if not scores:
        return []
    low, high = min(scores), max(scores)
    return [(score - low) / (high - low) if high > low else 1.0 for score in scores]


class Distinct:
    """A retriever without near-duplicates: it fetches more until k passages remain or there are no more."""

    def __init__(self, retriever: Retriever, threshold: float = 0.9) -> None:
        if not 0 < threshold <= 1:
            raise ConfigError(f"Two passages cannot be alike to {threshold}.", "Give a threshold above 0, up to 1.")
        self.kind = retriever.kind
        self.identity = f"distinct:{threshold:g}:({retriever.identity})"
        self.remote = retriever.remote
        self.lasts = cache_lifetime(retriever)
        self._retriever = retriever
        self._threshold = threshold

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        if k <= 0:
            return ()
        wanted = k + _EXTRA
        while True:
            passages = await self._retriever.search(query, k=wanted, where=where)
            kept = drop_duplicates(passages, self._threshold, k)
            if len(kept) >= k or len(passages) < wanted:
                return kept
            wanted *= 2

    async def aclose(self) -> None:
        await self._retriever.aclose()


def drop_duplicates(passages: Sequence[Passage], threshold: float, most: int) -> tuple[Passage, ...]:
    """Return the first `most` passages that are no near-duplicate of an earlier one.

    Two are alike if the Jaccard similarity of their runs of three words reaches the threshold. The title counts only
    where there is no text: the same text under two titles is the same evidence.
    """
    kept: list[Passage] = []
    seen: list[frozenset[tuple[str, ...]]] = []
    for passage in passages:
        if len(kept) >= most:
            break
        shingles = _shingles(passage.text) or _shingles(passage.title)
        if any(_alike(shingles, other, threshold) for other in seen):
            continue
        kept.append(passage)
        seen.append(shingles)
    return tuple(kept)


def _shingles(text: str) -> frozenset[tuple[str, ...]]:
    words = _WORD.findall(text.casefold())
    if len(words) <= _SHINGLE_WORDS:
        return frozenset((tuple(words),)) if words else frozenset()
    return frozenset(tuple(words[place : place + _SHINGLE_WORDS]) for place in range(len(words) - _SHINGLE_WORDS + 1))


def _alike(left: frozenset[tuple[str, ...]], right: frozenset[tuple[str, ...]], threshold: float) -> bool:
    if min(len(left), len(right)) < threshold * max(len(left), len(right)):  # they cannot share enough
        return False
    shared = len(left & right)
    return shared >= threshold * (len(left) + len(right) - shared)
