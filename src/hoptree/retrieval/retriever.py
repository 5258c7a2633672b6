"""What a retriever is to the rest of the house."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable
from unicodedata import normalize

from hoptree.core.values import Fact, Passage


class Retriever(Protocol):
    """Finds the best k passages for a query, best first, ties broken by passage id.

    `kind` names it in traces; `identity` is what determines its results: the kind, its settings and the digest of
    the passages. `remote` says that a search costs more than looking it up among remembered ones, and may fail for a
    moment. `where` keeps passages whose metadata have these values.
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
    """A retriever that can be told which facts to go out from.

    `tells` is what it has of that: `facts`, and `synonyms` where an encoder finds both, and not their words alone.
    """

    @property
    def tells(self) -> frozenset[str]: ...

    async def facts_near(self, query: str, *, k: int) -> tuple[Fact, ...]:
        """The facts nearest to a query, best first, with how near they are as their confidence."""
        ...

    def guided(self, facts: Sequence[Fact]) -> Retriever:
        """The same retriever with every search going out from these facts; without any, by its first ranking."""
        ...


def told_by(retriever: Retriever | None) -> frozenset[str]:
    """What a retriever tells beside passages; nothing, unless it is guided by facts."""
    # To ask whether it is a FactGuided takes far longer, and every search asks.
    told: frozenset[str] = getattr(retriever, "tells", frozenset())
    return told


class Changing(Protocol):
    """Something that others change without a word, such as Wikipedia: what it said counts for so many seconds."""

    lasts: float


def lasting(source: object) -> float:
    """For how many seconds what a source said may be remembered; for ever, where its identity tells what it holds."""
    seconds: float = getattr(source, "lasts", math.inf)
    return seconds


class PassageStore(Protocol):
    """Passages by their unsigned 64-bit key; `digest` is that of all of them."""

    @property
    def digest(self) -> str: ...

    def fetch(self, keys: Sequence[int]) -> dict[int, Passage]:
        """The passages with these keys; a key that no passage has is left out."""
        ...


DOCUMENT, TITLE = "document", "title"
"""Names of a filter that stand for fields of a passage, and not for its metadata."""


def fits(passage: Passage, where: Mapping[str, str] | None) -> bool:
    """Whether a passage has all the values that a filter asks for, however their accents are written."""
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
