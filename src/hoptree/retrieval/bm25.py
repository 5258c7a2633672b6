"""The retriever `bm25`: BM25 over the words of an index."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from hoptree.core.values import Passage
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.retriever import search_distinct

_WORTH_A_THREAD = 50_000  # passages of an index: below that a search takes less time than handing it to a thread
_SEARCHES_KEPT = 256  # searches in the cache


class BM25:
    """Finds passages that share words with the query."""

    kind = "bm25"
    remote = False

    def __init__(self, index: Index) -> None:
        self._texts = index.texts
        self._passages = index.manifest.passages
        self.identity = f"{self.kind}:{index.identity}"
        self._found: dict[tuple[object, ...], tuple[Passage, ...]] = {}

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        """Return the best k; recent searches are cached, as sub-questions repeat them."""
        self._texts.refuse_damage()
        asked = (query, k, *sorted((where or {}).items()))
        if (hits := self._found.get(asked)) is None:
            if self._passages < _WORTH_A_THREAD:
                hits = self._search_distinct(query, k, where)
            else:
                hits = await asyncio.to_thread(self._search_distinct, query, k, where)
            if len(self._found) >= _SEARCHES_KEPT:
                self._found.clear()
            self._found[asked] = hits
        return hits

    async def aclose(self) -> None:
        return None

    def _search_distinct(self, query: str, k: int, where: Mapping[str, str] | None) -> tuple[Passage, ...]:
        return search_distinct(lambda wanted: self.search_now(query, wanted, where), query, k)

    def search_now(self, query: str, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        """Search in this thread."""
        return tuple(passage for _, _, passage in self._texts.search(query, k, where))
