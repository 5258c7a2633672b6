"""The facts nearest to a query: by vectors, or by words where there is no encoder."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Container, Mapping, Sequence
from math import log
from typing import TYPE_CHECKING, Protocol

from hoptree.retrieval.encoders import Encoder
from hoptree.retrieval.few import Analysis
from hoptree.retrieval.vectors import Vectors
from hoptree.retrieval.window import Window

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ByVectors", "ByWords", "NearestFacts"]

_DECIMALS = 6
_K1, _B = 1.2, 0.75


class NearestFacts(Protocol):
    """Keys of facts with how near they are, best first, ties by key."""

    identity: str
    remote: bool
    by_meaning: bool

    async def nearest(self, query: str, k: int) -> list[tuple[int, float]]: ...

    async def aclose(self) -> None: ...


class ByVectors:
    """The cosine of the query's vector and the fact's; `known` are the facts that count."""

    by_meaning = True

    def __init__(self, vectors: Vectors, encoder: Encoder, known: Container[int]) -> None:
        self.identity, self.remote = f"{encoder.identity}:{vectors.dtype}", encoder.remote
        self._vectors, self._encoder, self._known = vectors, encoder, known
        self._encode = Window(self._encode_all)

    async def nearest(self, query: str, k: int) -> list[tuple[int, float]]:
        if k <= 0 or not query.strip():
            return []
        vector = await self._encode(query)
        return await asyncio.to_thread(self._nearest, vector, k) if vector.any() else []

    async def aclose(self) -> None:
        await self._encoder.aclose()

    async def _encode_all(self, queries: Sequence[str]) -> Sequence[NDArray[np.float32]]:
        return list(await self._encoder.encode(queries, role="query"))

    def _nearest(self, vector: NDArray[np.float32], k: int) -> list[tuple[int, float]]:
        """Look further until k of those found count."""
        wanted = k
        while True:
            hits = self._vectors.search(vector, wanted)
            found = [(key, score) for key, score in hits if score > 0 and key in self._known]
            if len(found) >= k or len(hits) < wanted:
                return found[:k]
            wanted *= 4


class ByWords:
    """BM25 over the words of facts; one that shares no word with the query is not near at all."""

    remote = by_meaning = False

    def __init__(self, texts: Mapping[int, str], language: str) -> None:
        self.identity = f"words:{language}"
        self._analysis = Analysis(language)
        self._having: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self._lengths: dict[int, int] = {}
        for key, text in texts.items():
            counts = self._analysis.words("", text).terms
            self._lengths[key] = sum(counts.values())
            for term, count in counts.items():
                self._having[term].append((key, count))
        self._average = sum(self._lengths.values()) / (len(self._lengths) or 1) or 1.0

    async def nearest(self, query: str, k: int) -> list[tuple[int, float]]:
        scores: Counter[int] = Counter()
        for term in self._analysis.sought(query).terms:
            having = self._having.get(term, ())
            rarity = log(1 + (len(self._lengths) - len(having) + 0.5) / (len(having) + 0.5))
            for key, count in having:
                damping = _K1 * (1 - _B + _B * self._lengths[key] / self._average)
                scores[key] += rarity * count * (_K1 + 1) / (count + damping)  # type: ignore[assignment]
        best = sorted(
            ((round(score, _DECIMALS), key) for key, score in scores.items()), key=lambda one: (-one[0], one[1])
        )
        return [(key, score) for score, key in best[: max(k, 0)]]

    async def aclose(self) -> None:
        return None
