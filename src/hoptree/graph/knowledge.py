"""What the floors above ask of a knowledge graph, wherever it is kept."""

from __future__ import annotations

from typing import Protocol

from hoptree.graph.facts import Direction, Entity, Neighbourhood, Property, Stats, Table

__all__ = ["FACTS", "SECONDS", "KnowledgeGraph"]

FACTS = 200
"""Facts of an entity that are given out unless more are asked for."""
SECONDS = 10.0


class KnowledgeGraph(Protocol):
    """Facts, names and counts. Every query ends after a number of rows and of seconds.

    `identity` is everything that determines what it answers, as far as that can be told; `remote` says that an answer
    may take a network, and is worth remembering.
    """

    kind: str
    remote: bool
    identity: str

    async def facts(
        self,
        entity: str,
        *,
        direction: Direction = "both",
        relation: str = "",
        limit: int = FACTS,
        seconds: float = SECONDS,
    ) -> Neighbourhood:
        """Facts with the entity of this id as subject, as object, or both; with one property only, if it is given.

        Of an entity with more facts than `limit`, those given out are spread over its properties where the graph allows
        to choose.
        """

    async def entities(self, name: str, *, limit: int = 10) -> tuple[Entity, ...]:
        """The entities with this label or alias, best first; capitals, accents and spaces need not agree."""

    async def entity(self, identifier: str) -> Entity | None:
        """The entity of an id, or None if the graph says nothing of it."""

    async def label(self, identifier: str) -> str:
        """What a person calls the entity or property of this id; the id itself where the graph has no name for it."""

    async def properties(self, *, limit: int = 20_000) -> tuple[Property, ...]:
        """The relations by name, the most used first where the graph counts them."""

    async def query(self, sparql: str, *, limit: int = 1_000, seconds: float = SECONDS) -> Table:
        """The first rows that a SPARQL query (SELECT or ASK) of a person's finds."""

    async def stats(self) -> Stats: ...

    async def aclose(self) -> None: ...
