"""What a knowledge graph says: entities, properties, and facts with where they come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from hoptree.core.values import Fact as PlainFact

Direction = Literal["both", "out", "in"]


@dataclass(frozen=True, slots=True)
class Term:
    """A place in a fact: what a person reads, and the id it stands for ("" for dates, numbers and other literals)."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Entity:
    """Something a graph knows by an id; `page` is the title of its Wikipedia article, where the source tells it."""

    id: str
    label: str
    aliases: tuple[str, ...] = ()
    description: str = ""
    page: str = ""

    @property
    def term(self) -> Term:
        return Term(self.id, self.label)


@dataclass(frozen=True, slots=True)
class Property:
    """A relation by its id; `facts` counts the facts that use it, where the graph can tell."""

    id: str
    label: str
    aliases: tuple[str, ...] = ()
    description: str = ""
    datatype: str = ""
    facts: int = 0


@dataclass(frozen=True, slots=True)
class Qualifier:
    """What restricts a fact: when it held, in which role, by whose count."""

    relation: Term
    value: Term


@dataclass(frozen=True, slots=True)
class Fact:
    """A statement, readable and with ids; `sources` names where it was loaded from, finest first told."""

    subject: Term
    relation: Term
    object: Term
    qualifiers: tuple[Qualifier, ...] = ()
    sources: tuple[str, ...] = ()

    @property
    def triple(self) -> tuple[str, str, str]:
        return self.subject.text, self.relation.text, self.object.text

    @property
    def text(self) -> str:
        """The fact in one line, qualifiers behind it."""
        restricted = "; ".join(f"{one.relation.text}: {one.value.text}" for one in self.qualifiers)
        return " | ".join(self.triple) + (f" ({restricted})" if restricted else "")

    def as_value(self) -> PlainFact:
        """The fact as the floors above pass facts around."""
        return PlainFact(self.subject.text, self.relation.text, self.object.text, passage_id=", ".join(self.sources))

    def as_dict(self) -> dict[str, Any]:
        """The fact for JSON; what it has not is left out."""
        row: dict[str, Any] = {"s": self.subject.text, "p": self.relation.text, "o": self.object.text}
        ids = {"s_id": self.subject.id, "p_id": self.relation.id, "o_id": self.object.id}
        row |= {name: value for name, value in ids.items() if value}
        if self.qualifiers:
            row["qualifiers"] = [[one.relation.text, one.value.text] for one in self.qualifiers]
        return row | ({"src": list(self.sources)} if self.sources else {})


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The facts one step around an entity; `complete` is false where there are more than the bound let through."""

    entity: Entity
    facts: tuple[Fact, ...]
    complete: bool = True


@dataclass(frozen=True, slots=True)
class SourceCount:
    """What one source brought: its facts, and its names (labels, aliases, descriptions)."""

    name: str
    facts: int
    names: int


@dataclass(frozen=True, slots=True)
class Stats:
    """What a graph holds; a fact that two sources tell counts once for each. `details` is for people."""

    facts: int
    names: int
    properties: int
    sources: tuple[SourceCount, ...] = ()
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Value:
    """A cell of a table: for people (`text`, `id`), and for programs as the graph has it (`value`: IRI or literal)."""

    id: str = ""
    text: str = ""
    value: str = ""
    datatype: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """What a query found; `complete` is false where there are more rows than the bound let through."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    complete: bool = True


DEFAULT_MAX_FACTS = 200
"""Facts of an entity that are given out unless more are asked for."""
DEFAULT_TIMEOUT_S = 10.0


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
        limit: int = DEFAULT_MAX_FACTS,
        seconds: float = DEFAULT_TIMEOUT_S,
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

    async def query(self, sparql: str, *, limit: int = 1_000, seconds: float = DEFAULT_TIMEOUT_S) -> Table:
        """The first rows that a SPARQL query (SELECT or ASK) of a person's finds."""

    async def stats(self) -> Stats: ...

    async def aclose(self) -> None: ...


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
