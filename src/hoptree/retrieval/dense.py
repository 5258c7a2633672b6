"""Retrieval by meaning: the passages whose vectors are nearest to the query's."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hoptree.retrieval.encoders.encoder import Encoder
from hoptree.retrieval.filters import fits
from hoptree.retrieval.store import PassageStore
from hoptree.retrieval.vectors import Vectors
from hoptree.retrieval.window import Window
from hoptree.values import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Dense"]

_FIRST_FACTOR = 4
_MORE = 8
_MOST_TIES = 10_000


class Dense:
    """A retriever over the vectors of an index; queries that come almost at once are encoded together.

    `vectors` hold one vector for each passage of `store`, made by `encoder`. The caller closes the encoder where it has
    other uses; `aclose` closes it here.
    """

    kind = "dense"

    def __init__(self, store: PassageStore, vectors: Vectors, encoder: Encoder) -> None:
        self.identity = f"dense:{store.digest}:{encoder.identity}:{vectors.dtype}"
        self.remote = encoder.remote
        self._store = store
        self._vectors = vectors
        self._encoder = encoder
        self._encode = Window(self._encode_all)

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        if k <= 0 or not query.strip() or not len(self._vectors):
            return ()
        vector = await self._encode(query)
        return await asyncio.to_thread(self._search, vector, k, where or {})

    async def aclose(self) -> None:
        await self._encoder.aclose()

    async def _encode_all(self, queries: Sequence[str]) -> Sequence[NDArray[np.float32]]:
        return list(await self._encoder.encode(queries, role="query"))

    def _search(self, vector: NDArray[np.float32], k: int, where: Mapping[str, str]) -> tuple[Passage, ...]:
        """Fetch more and more until k of them pass the filter; ties at the cut are broken by id, not by key."""
        if not vector.any():
            return ()
        wanted = k * _FIRST_FACTOR if where else k + _MORE
        while True:
            nearest = self._vectors.search(vector, wanted)
            found = self._passages(nearest, where)
            everything = len(nearest) < wanted
            enough = len(found) >= k and (nearest[-1][1] < found[k - 1].score or wanted > _MOST_TIES + k)
            if everything or enough:
                return tuple(found[:k])
            wanted *= _FIRST_FACTOR

    def _passages(self, nearest: Sequence[tuple[int, float]], where: Mapping[str, str]) -> list[Passage]:
        stored = self._store.fetch([key for key, _ in nearest])
        found = [
            replace(passage, score=score, stages=(*passage.stages, (self.kind, score)))
            for key, score in nearest
            if (passage := stored.get(key)) is not None and fits(passage, where)
        ]
        found.sort(key=lambda passage: (-passage.score, passage.id))
        return found
