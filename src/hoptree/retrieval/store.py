"""Where a retriever that knows only keys gets its passages from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hoptree.values import Passage

__all__ = ["PassageStore"]


class PassageStore(Protocol):
    """Passages by their unsigned 64-bit key; `digest` is that of all of them."""

    @property
    def digest(self) -> str: ...

    def fetch(self, keys: Sequence[int]) -> dict[int, Passage]:
        """The passages with these keys; a key that no passage has is left out."""
        ...
