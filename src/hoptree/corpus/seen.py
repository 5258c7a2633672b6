"""Remembering passages by digests of eight bytes, so that memory stays small whatever their number."""

from __future__ import annotations

from hashlib import blake2b

__all__ = ["Seen", "digest_of"]


def digest_of(title: str, text: str) -> str:
    """A short name that a passage has from what it says."""
    return _digest(f"{title}\0{text}").hex()


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


class Seen:
    """The passages met so far, for files that repeat them or give them no ids."""

    def __init__(self) -> None:
        self._passages: set[int] = set()
        self._titles: set[int] = set()

    def first(self, title: str, text: str) -> bool:
        """Whether this passage is met for the first time."""
        key = int.from_bytes(_digest(f"{title}\0{text}"), "big")
        if key in self._passages:
            return False
        self._passages.add(key)
        return True

    def name_for(self, title: str, text: str) -> str:
        """The title, or if another passage has that name, the title with a digest of the passage."""
        key = int.from_bytes(_digest(title), "big")
        if title.strip() and key not in self._titles:
            self._titles.add(key)
            return title
        return f"{title} ({digest_of(title, text)})".strip()
