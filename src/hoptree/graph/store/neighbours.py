"""The triples around a node, bounded in number and time, however many there are."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest

from hoptree.graph.facts import Qualifier
from hoptree.graph.oxigraph import Node, Object, ox
from hoptree.graph.store.names import Names
from hoptree.graph.vocabulary import predicate_role, step_iri

Row = tuple[Object, ox.NamedNode, Object]
_OTHERS = 2_000
"""Names and statements of a node that are passed by before it is taken for one with very many triples."""
_PROPERTIES = 2_000
"""Properties looked at around such a node: the most used ones."""


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
    """Facts with the graphs they are in, and whether they are all there are."""

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
    """The facts that begin (or end) at a node.

    Of more than the bound lets through, some of every property are taken: one of each in turn.
    """
    found = Neighbours()
    if _all(found, _triples(store, node, predicate, outward), bound):
        return found
    if predicate is None and not bound.late:
        found.rows.clear()
        _some_of_each(found, store, node, bound, outward, properties)
    found.complete = False
    return found


def _triples(store: ox.Store, node: ox.NamedNode, predicate: ox.NamedNode | None, outward: bool) -> Iterator[ox.Quad]:
    return iter(store.quads_for_pattern(node if outward else None, predicate, None if outward else node, None))


def _all(found: Neighbours, quads: Iterator[ox.Quad], bound: Bound) -> bool:
    """Take facts until there are no more (true) or too many (false)."""
    others = 0
    for quad in quads:
        if predicate_role(quad.predicate.value) != "fact":
            others += 1
        elif len(found.rows) >= bound.rows:
            return False
        else:
            found.take(quad)
        if others > _OTHERS or bound.late:
            return False
    return True


def _some_of_each(
    found: Neighbours, store: ox.Store, node: ox.NamedNode, bound: Bound, outward: bool, properties: Iterable[str]
) -> None:
    turns: deque[Iterator[ox.Quad]] = deque()
    for iri in _first(properties, _PROPERTIES):
        turns.append(_triples(store, node, ox.NamedNode(iri), outward))
    while turns and len(found.rows) < bound.rows and not bound.late:
        quads = turns.popleft()
        quad = next(quads, None)
        if quad is not None:
            found.take(quad)
            turns.append(quads)


def _first(properties: Iterable[str], count: int) -> Sequence[str]:
    return [iri for _, iri in zip(range(count), properties, strict=False)]


_LOOKED_AT = 1_000
"""Statements of a fact's subject, and as many of its value, and triples of one statement."""


class Qualifiers:
    """Looks up the qualifiers of the facts of one look-up; `complete` tells whether all of them were found."""

    def __init__(self, store: ox.Store, names: Names) -> None:
        self._store, self._names = store, names
        self.complete = True

    def of(self, row: Row, identifier: str) -> list[tuple[Qualifier, ...]]:
        """The qualifiers of each statement of a fact with this property; one empty group if it has none."""
        groups = dict.fromkeys(tuple(self._told(one)) for one in self._statements(row, identifier))
        return sorted(filter(None, groups), key=lambda group: [one.value.text for one in group]) or [()]

    def _statements(self, row: Row, identifier: str) -> list[Node]:
        """The statements that say a fact.

        They are looked for from both of its ends at once, until one side has no more: a subject may have thousands of
        one property, and so may a value.
        """
        subject, _, value = row
        assert not isinstance(subject, ox.Literal)
        claim, meaning = ox.NamedNode(step_iri("claim", identifier)), ox.NamedNode(step_iri("value", identifier))
        begun: list[Node] = []
        ended: list[Node] = []
        for number, (here, there) in enumerate(zip_longest(self._after(subject, claim), self._before(meaning, value))):
            if here is None or there is None:
                return begun if here is None else ended
            if number == _LOOKED_AT:
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

    def _told(self, statement: Node) -> list[Qualifier]:
        found: set[Qualifier] = set()
        quads = self._store.quads_for_pattern(statement, None, None, None)
        for quad in islice(quads, _LOOKED_AT):
            if predicate_role(quad.predicate.value) == "qualifier":
                found.add(Qualifier(self._names.term(quad.predicate), self._names.term(quad.object)))
        self.complete = self.complete and next(quads, None) is None
        return sorted(found, key=lambda one: (one.relation.text, one.value.text))
