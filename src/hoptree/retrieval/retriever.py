"""What a retriever is to the rest of the house."""

from __future__ import annotations

from typing import Protocol

from hoptree.values import Passage

__all__ = ["Retriever"]


class Retriever(Protocol):
    """Finds the best k passages for a query, best first, ties broken by passage id.

    `kind` names it in traces; `identity` is what determines its results: the kind and the digest of the passages.
    """

    @property
    def kind(self) -> str: ...

    @property
    def identity(self) -> str: ...

    async def search(self, query: str, *, k: int) -> tuple[Passage, ...]: ...
