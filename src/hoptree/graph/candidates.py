"""What it means to find the entities that words may mean; how that is done is a matter of `graph.linking`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from hoptree.graph.facts import Entity

__all__ = ["Candidate", "Candidates", "NamesIndexed", "OnIndexing"]

OnIndexing = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entity that may be meant, and how well one of its names fits: from 0 to 1, by words and their rarity."""

    entity: Entity
    score: float


class Candidates(Protocol):
    """Finds the entities that a name, or the names in a text, may mean; ties are broken by the id."""

    async def of_mention(self, mention: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        """Entities of a name, as it is or nearly so."""

    async def of_text(self, text: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        """Entities of all names in a text in which nobody marked them."""


@runtime_checkable
class NamesIndexed(Protocol):
    """A graph that keeps an index of its names; opening it, and making it the first time, may take long.

    `on_indexing` is told from time to time how many names of how many are in it by then.
    """

    on_indexing: OnIndexing

    def candidates(self) -> Candidates: ...
