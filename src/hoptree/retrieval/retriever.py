"""The protocols of retrievers, and the filters that all of them understand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable
from unicodedata import normalize

from hoptree.core.values import Fact, Passage


class Retriever(Protocol):
    """Finds the best k passages for a query, best first, ties broken by passage id.

    `kind` names it in traces; `identity` is what determines its results: the kind, its settings and the digest of
    the passages. `remote` says that a search is worth caching and may fail for a moment. `where` keeps passages whose
    metadata have these values.
    """

    @property
    def kind(self) -> str: ...

    @property
    def identity(self) -> str: ...

    @property
    def remote(self) -> bool: ...

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]: ...

    async def aclose(self) -> None: ...


@runtime_checkable
class FactGuided(Protocol):
    """A retriever that can start from facts; `tells` names the signals it offers."""

    @property
    def tells(self) -> frozenset[str]: ...

    async def facts_near(self, query: str, *, k: int) -> tuple[Fact, ...]:
        """Return the facts nearest to a query, best first, with their nearness as confidence."""
        ...

    def guided(self, facts: Sequence[Fact]) -> Retriever:
        """Return the same retriever with every search starting from these facts; without any, its first ranking."""
        ...


@runtime_checkable
class RanksSentences(Protocol):
    """A retriever that was trained to tell which sentences matter."""

    def sentence_scores(self, query: str, passages: Sequence[Passage]) -> list[list[float]]:
        """Score each sentence of passages that are read together, as `hoptree.text.names.sentences` splits them."""
        ...


@runtime_checkable
class NameGuided(Protocol):
    """A retriever that can start from names of things."""

    def named(self, names: Sequence[str]) -> Retriever:
        """Return the same retriever with every search starting from these names; without any, its first ranking."""
        ...


def signals_of(retriever: Retriever | None) -> frozenset[str]:
    """Return the signals a retriever offers beside passages."""
    # An isinstance check of FactGuided takes far longer, and every search asks.
    signals: frozenset[str] = getattr(retriever, "tells", frozenset())
    return signals


def cache_lifetime(source: object) -> float:
    """Return for how many seconds results may be cached; for ever unless others change the source (`lasts`)."""
    seconds: float = getattr(source, "lasts", math.inf)
    return seconds


class PassageStore(Protocol):
    """Passages by their unsigned 64-bit key; `digest` is that of all of them."""

    @property
    def digest(self) -> str: ...

    def fetch(self, keys: Sequence[int]) -> dict[int, Passage]:
        """Return the passages with these keys; unknown keys are left out."""
        ...


DOCUMENT, TITLE = "document", "title"
"""Names in a filter for fields of a passage, not for its metadata."""


def fits(passage: Passage, where: Mapping[str, str] | None) -> bool:
    """Tell whether a passage has all the values of a filter, however their accents are written."""
    return all(_has(passage, name, value) for name, value in (where or {}).items())


def _has(passage: Passage, name: str, value: str) -> bool:
    name, value = _composed(name), _composed(value)
    if name == DOCUMENT:
        return value == _composed(passage.document or passage.id)
    if name == TITLE:
        title = _composed(passage.title)
        return title == value or title.startswith(f"{value} › ")  # a section of it
    return any((name, value) == (_composed(field), _composed(held)) for field, held in passage.metadata)


def _composed(text: str) -> str:
    return normalize("NFC", text)
