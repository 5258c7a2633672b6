"""The triples around a node, limited in number and time, and their qualifiers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, zip_longest

from hoptree.graph.facts import Qualifier
from hoptree.graph.oxigraph import Node, Object, ox
from hoptree.graph.store.names import Names
from hoptree.graph.vocabulary import predicate_role, step_iri

Row = tuple[Object, ox.NamedNode, Object]
_MAX_OTHER_TRIPLES = 2_000
"""Names and statements of a node that are skipped before it counts as a hub."""
_MAX_PROPERTIES = 2_000
"""Properties that are read around a hub: the most used ones."""


@dataclass(slots=True)
class Bound:
    """Rows and seconds that are left."""

    rows: int
    until: float

    @classmethod
    def of(cls, rows: int, seconds: float) -> Bound:
        return cls(rows, time.monotonic() + seconds)

    @property
    def late(self) -> bool:
        return time.monotonic() >= self.until


@dataclass(slots=True)
class Neighbours:
    """Facts with their graphs; `complete` says whether these are all."""

    rows: dict[Row, list[object]] = field(default_factory=dict)
    complete: bool = True

    def take(self, quad: ox.Quad) -> None:
        assert not isinstance(quad.subject, ox.Triple)
        assert not isinstance(quad.object, ox.Triple)
        self.rows.setdefault((quad.subject, quad.predicate, quad.object), []).append(quad.graph_name)


def find_neighbours(
    store: ox.Store,
    node: ox.NamedNode,
    predicate: ox.NamedNode | None,
    bound: Bound,
    *,
    outward: bool,
    properties: Iterable[str],
) -> Neighbours:
    """Return the facts that begin (or end) at a node; of too many, one of each property in turn."""
    neighbours = Neighbours()
    if _take_all(neighbours, _triples(store, node, predicate, outward), bound):
        return neighbours
    if predicate is None and not bound.late:
        neighbours.rows.clear()
        _take_of_each(neighbours, store, node, bound, outward, properties)
    neighbours.complete = False
    return neighbours


def _triples(store: ox.Store, node: ox.NamedNode, predicate: ox.NamedNode | None, outward: bool) -> Iterator[ox.Quad]:
    return iter(store.quads_for_pattern(node if outward else None, predicate, None if outward else node, None))


def _take_all(neighbours: Neighbours, quads: Iterator[ox.Quad], bound: Bound) -> bool:
    """Take facts; return whether that were all."""
    others = 0
    for quad in quads:
        if predicate_role(quad.predicate.value) != "fact":
            others += 1
        elif len(neighbours.rows) >= bound.rows:
            return False
        else:
            neighbours.take(quad)
        if others > _MAX_OTHER_TRIPLES or bound.late:
            return False
    return True


def _take_of_each(
    neighbours: Neighbours, store: ox.Store, node: ox.NamedNode, bound: Bound, outward: bool, properties: Iterable[str]
) -> None:
    turns = deque(_triples(store, node, ox.NamedNode(iri), outward) for iri in islice(properties, _MAX_PROPERTIES))
    while turns and len(neighbours.rows) < bound.rows and not bound.late:
        quads = turns.popleft()
        quad = next(quads, None)
        if quad is not None:
            neighbours.take(quad)
            turns.append(quads)


_MAX_STATEMENTS = 1_000
"""Statements that are read from each end of a fact, and triples of one statement."""


class Qualifiers:
    """Reads the qualifiers of facts; `complete` says whether all were read."""

    def __init__(self, store: ox.Store, names: Names) -> None:
        self._store, self._names = store, names
        self.complete = True

    def of(self, row: Row, identifier: str) -> list[tuple[Qualifier, ...]]:
        """Return the qualifiers of each statement of a fact; one empty group if it has none."""
        groups = dict.fromkeys(tuple(self._qualifiers_of(statement)) for statement in self._statements(row, identifier))
        return sorted(filter(None, groups), key=lambda group: [qualifier.value.text for qualifier in group]) or [()]

    def _statements(self, row: Row, identifier: str) -> list[Node]:
        """Return the statements of a fact.

        They are searched from both ends at once until one side is exhausted: either may have thousands.
        """
        subject, _, value = row
        assert not isinstance(subject, ox.Literal)
        claim, meaning = ox.NamedNode(step_iri("claim", identifier)), ox.NamedNode(step_iri("value", identifier))
        begun: list[Node] = []
        ended: list[Node] = []
        for number, (here, there) in enumerate(zip_longest(self._after(subject, claim), self._before(meaning, value))):
            if here is None or there is None:
                return begun if here is None else ended
            if number == _MAX_STATEMENTS:
                self.complete = False
                return list(dict.fromkeys((*begun, *ended)))
            if self._is_there(here, meaning, value):
                begun.append(here)
            if self._is_there(subject, claim, there):
                ended.append(there)
        return begun

    def _after(self, subject: Node, claim: ox.NamedNode) -> Iterator[Node]:
        for quad in self._store.quads_for_pattern(subject, claim, None, None):
            if isinstance(quad.object, ox.NamedNode | ox.BlankNode):
                yield quad.object

    def _before(self, meaning: ox.NamedNode, value: Object) -> Iterator[Node]:
        for quad in self._store.quads_for_pattern(None, meaning, value, None):
            if isinstance(quad.subject, ox.NamedNode | ox.BlankNode):
                yield quad.subject

    def _is_there(self, subject: Node, predicate: ox.NamedNode, value: Object) -> bool:
        return next(self._store.quads_for_pattern(subject, predicate, value, None), None) is not None

    def _qualifiers_of(self, statement: Node) -> list[Qualifier]:
        qualifiers: set[Qualifier] = set()
        quads = self._store.quads_for_pattern(statement, None, None, None)
        for quad in islice(quads, _MAX_STATEMENTS):
            if predicate_role(quad.predicate.value) == "qualifier":
                qualifiers.add(Qualifier(self._names.term(quad.predicate), self._names.term(quad.object)))
        self.complete = self.complete and next(quads, None) is None
        return sorted(qualifiers, key=lambda qualifier: (qualifier.relation.text, qualifier.value.text))
