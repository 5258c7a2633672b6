"""What a knowledge graph says: entities, properties, and facts with where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hoptree.values import Fact as PlainFact

__all__ = [
    "Direction",
    "Entity",
    "Fact",
    "Neighbourhood",
    "Property",
    "Qualifier",
    "SourceCount",
    "Stats",
    "Table",
    "Term",
    "Value",
]

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
