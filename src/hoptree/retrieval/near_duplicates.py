"""Leaving out passages that say again what a better one says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hoptree.errors import ConfigError
from hoptree.retrieval.retriever import Retriever, lasting
from hoptree.values import Passage

__all__ = ["Distinct", "distinct"]

_WORD = re.compile(r"\w+")
_SHINGLE = 3
_ROOM = 2
_MORE = 8


class Distinct:
    """A retriever without near-duplicates: it fetches more until k passages are left or there are no more."""

    def __init__(self, retriever: Retriever, threshold: float = 0.9) -> None:
        if not 0 < threshold <= 1:
            raise ConfigError(f"Two passages cannot be alike to {threshold}.", "Give a threshold above 0, up to 1.")
        self.kind = retriever.kind
        self.identity = f"distinct:{threshold:g}:({retriever.identity})"
        self.remote = retriever.remote
        self.lasts = lasting(retriever)
        self._retriever = retriever
        self._threshold = threshold

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        if k <= 0:
            return ()
        wanted = k + _MORE
        while True:
            found = await self._retriever.search(query, k=wanted, where=where)
            kept = distinct(found, self._threshold, k)
            if len(kept) >= k or len(found) < wanted:
                return kept
            wanted *= _ROOM

    async def aclose(self) -> None:
        await self._retriever.aclose()


def distinct(passages: Sequence[Passage], threshold: float, most: int) -> tuple[Passage, ...]:
    """The first `most` passages that are unlike each one kept before them.

    Two are alike where their texts have the same words, or where they share so much of their runs of three words
    (Jaccard). The title counts only where there is no text: the same
    text under two titles is the same evidence.
    """
    kept: list[Passage] = []
    seen: list[frozenset[tuple[str, ...]]] = []
    for passage in passages:
        if len(kept) >= most:
            break
        runs = _runs(passage.text) or _runs(passage.title)
        if any(_alike(runs, other, threshold) for other in seen):
            continue
        kept.append(passage)
        seen.append(runs)
    return tuple(kept)


def _runs(text: str) -> frozenset[tuple[str, ...]]:
    words = _WORD.findall(text.casefold())
    if len(words) <= _SHINGLE:
        return frozenset((tuple(words),)) if words else frozenset()
    return frozenset(tuple(words[place : place + _SHINGLE]) for place in range(len(words) - _SHINGLE + 1))


def _alike(one: frozenset[tuple[str, ...]], other: frozenset[tuple[str, ...]], threshold: float) -> bool:
    if min(len(one), len(other)) < threshold * max(len(one), len(other)):  # they cannot share enough
        return False
    shared = len(one & other)
    return shared >= threshold * (len(one) + len(other) - shared)
