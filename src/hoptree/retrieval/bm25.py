"""BM25 over an index: the words of a query, weighed by how rare they are."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from hoptree.core.values import Passage
from hoptree.retrieval.index.folder import Index

WORTH_A_THREAD = 50_000
"""Passages of an index: below that a search takes less time than handing it to a thread."""


class BM25:
    """A retriever over an index."""

    kind = "bm25"
    remote = False

    def __init__(self, index: Index) -> None:
        self._texts = index.texts
        self._passages = index.manifest.passages
        self.identity = f"bm25:{index.identity}"

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        if self._passages < WORTH_A_THREAD:
            return self.search_now(query, k, where)
        return await asyncio.to_thread(self.search_now, query, k, where)

    async def aclose(self) -> None:
        return None

    def search_now(self, query: str, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        """Search in this thread."""
        return tuple(passage for _, _, passage in self._texts.search(query, k, where))
