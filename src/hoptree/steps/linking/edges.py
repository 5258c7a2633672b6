"""The facts around entities, those of one relation together: the edges along which a graph is explored."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hoptree.graph.facts import Entity, Fact, Neighbourhood, Term

__all__ = ["Edge", "edges_in"]

_SAMPLE = 3
_LONG = 200
"""Characters of values in one line."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A relation of an entity with all its facts; `outward` where the entity is their subject."""

    entity: Entity
    relation: str
    outward: bool
    facts: tuple[Fact, ...]

    @property
    def ends(self) -> tuple[Term, ...]:
        """What stands at the other end of each fact."""
        return tuple(fact.object if self.outward else fact.subject for fact in self.facts)

    @property
    def line(self) -> str:
        """The edge in one line, whatever the number of its values."""
        more = f", and {len(self.facts) - _SAMPLE} more" if len(self.facts) > _SAMPLE else ""
        return self._line(", ".join(end.text for end in self.ends[:_SAMPLE])[:_LONG] + more)

    @property
    def open_line(self) -> str:
        """The edge in one line that does not tell where it leads."""
        return self._line("?")

    def _line(self, values: str) -> str:
        parts = (self.entity.label, self.relation, values)
        return " | ".join(parts if self.outward else parts[::-1])


def edges_in(found: Sequence[Neighbourhood], *, known: Collection[Fact] = ()) -> tuple[Edge, ...]:
    """The edges of several entities, without facts that are known already."""
    groups: dict[tuple[str, str, bool], tuple[Entity, list[Fact]]] = {}
    for around in found:
        for fact in around.facts:
            if fact not in known:
                outward = fact.subject.id == around.entity.id
                key = (around.entity.label, fact.relation.text, outward)
                groups.setdefault(key, (around.entity, []))[1].append(fact)
    return tuple(
        Edge(entity, relation, outward, tuple(facts)) for (_, relation, outward), (entity, facts) in groups.items()
    )
