"""Values of knowledge graphs (entities, properties, facts, tables) and their Protocols."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from hoptree.core.values import Fact as PlainFact

Direction = Literal["both", "out", "in"]


@dataclass(frozen=True, slots=True)
class Term:
    """A subject, relation or object: readable text and id ("" for literals)."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity; `page` is the title of its Wikipedia article, if known."""

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
    """A relation; `facts` counts the facts that use it, if the graph counts them."""

    id: str
    label: str
    aliases: tuple[str, ...] = ()
    description: str = ""
    datatype: str = ""
    facts: int = 0


@dataclass(frozen=True, slots=True)
class Qualifier:
    """A restriction of a fact: its time, role or source."""

    relation: Term
    value: Term


@dataclass(frozen=True, slots=True)
class Fact:
    """A statement, readable and with ids; `sources` names where it was loaded from."""

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
        """The fact in one line, with its qualifiers."""
        restricted = "; ".join(f"{qualifier.relation.text}: {qualifier.value.text}" for qualifier in self.qualifiers)
        return " | ".join(self.triple) + (f" ({restricted})" if restricted else "")

    def as_value(self) -> PlainFact:
        """Return the fact as the methods use it."""
        return PlainFact(self.subject.text, self.relation.text, self.object.text, passage_id=", ".join(self.sources))

    def as_dict(self) -> dict[str, Any]:
        """Return the fact for JSON without empty fields."""
        row: dict[str, Any] = {"s": self.subject.text, "p": self.relation.text, "o": self.object.text}
        ids = {"s_id": self.subject.id, "p_id": self.relation.id, "o_id": self.object.id}
        row |= {name: value for name, value in ids.items() if value}
        if self.qualifiers:
            row["qualifiers"] = [[pair.relation.text, pair.value.text] for pair in self.qualifiers]
        return row | ({"src": list(self.sources)} if self.sources else {})


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The facts one step around an entity; `complete` is false if the limit cut some off."""

    entity: Entity
    facts: tuple[Fact, ...]
    complete: bool = True


@dataclass(frozen=True, slots=True)
class SourceCount:
    """Facts and names (labels, aliases, descriptions) of one source."""

    name: str
    facts: int
    names: int


@dataclass(frozen=True, slots=True)
class Stats:
    """Size of a graph; a fact of two sources counts twice. `details` is for people."""

    facts: int
    names: int
    properties: int
    sources: tuple[SourceCount, ...] = ()
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Value:
    """A cell of a table: `text` and `id` for people, `value` (IRI or literal) for programs."""

    id: str = ""
    text: str = ""
    value: str = ""
    datatype: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """The result of a query; `complete` is false if the limit cut rows off."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    complete: bool = True


DEFAULT_MAX_FACTS = 200
DEFAULT_TIMEOUT_S = 10.0


class KnowledgeGraph(Protocol):
    """Facts, names and counts. Every query is limited in rows and seconds.

    `identity` is everything known that determines its answers; `remote` says that answers come over a network and are
    worth caching.
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
        """Return facts with this entity as subject, object, or both, optionally of one property.

        If there are more than `limit`, they are spread over the properties as far as the graph allows.
        """

    async def entities(self, name: str, *, limit: int = 10) -> tuple[Entity, ...]:
        """Return the entities with this label or alias, best first; case, accents and spaces may differ."""

    async def entity(self, identifier: str) -> Entity | None:
        """Return the entity of an id; None if it is unknown."""

    async def label(self, identifier: str) -> str:
        """Return the label of an entity or property; the id if it has none."""

    async def properties(self, *, limit: int = 20_000) -> tuple[Property, ...]:
        """Return the relations, the most used first if the graph counts them."""

    async def query(self, sparql: str, *, limit: int = 1_000, seconds: float = DEFAULT_TIMEOUT_S) -> Table:
        """Run a user's SPARQL query (SELECT or ASK)."""

    async def stats(self) -> Stats: ...

    async def aclose(self) -> None: ...


OnIndexing = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entity that may be meant; `score` (0 to 1) says how well one of its names fits."""

    entity: Entity
    score: float


class Candidates(Protocol):
    """Finds the entities that a name, or the names in a text, may mean; ids break ties."""

    async def of_mention(self, mention: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        """Return the entities of a name, exact or similar."""

    async def of_text(self, text: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        """Return the entities of all names in a text."""


@runtime_checkable
class NamesIndexed(Protocol):
    """A graph with an index of its names; building it may take long.

    `on_indexing` receives how many names of how many are indexed.
    """

    on_indexing: OnIndexing

    def candidates(self) -> Candidates: ...
