"""The triples around a node, bounded in number and time, however many there are."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from hoptree.graph.oxigraph import Object, ox
from hoptree.graph.vocabulary import role

__all__ = ["Around", "Bound", "Row", "around"]

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
class Around:
    """Facts with the graphs they are in, and whether they are all there are."""

    rows: dict[Row, list[object]] = field(default_factory=dict)
    complete: bool = True

    def take(self, quad: ox.Quad) -> None:
        assert not isinstance(quad.subject, ox.Triple)
        assert not isinstance(quad.object, ox.Triple)
        self.rows.setdefault((quad.subject, quad.predicate, quad.object), []).append(quad.graph_name)


def around(
    store: ox.Store,
    node: ox.NamedNode,
    predicate: ox.NamedNode | None,
    bound: Bound,
    *,
    outward: bool,
    properties: Iterable[str],
) -> Around:
    """The facts that begin (or end) at a node.

    Of more than the bound lets through, some of every property are taken: one of each in turn.
    """
    found = Around()
    if _all(found, _triples(store, node, predicate, outward), bound):
        return found
    if predicate is None and not bound.late:
        found.rows.clear()
        _some_of_each(found, store, node, bound, outward, properties)
    found.complete = False
    return found


def _triples(store: ox.Store, node: ox.NamedNode, predicate: ox.NamedNode | None, outward: bool) -> Iterator[ox.Quad]:
    return iter(store.quads_for_pattern(node if outward else None, predicate, None if outward else node, None))


def _all(found: Around, quads: Iterator[ox.Quad], bound: Bound) -> bool:
    """Take facts until there are no more (true) or too many (false)."""
    others = 0
    for quad in quads:
        if role(quad.predicate.value) != "fact":
            others += 1
        elif len(found.rows) >= bound.rows:
            return False
        else:
            found.take(quad)
        if others > _OTHERS or bound.late:
            return False
    return True


def _some_of_each(
    found: Around, store: ox.Store, node: ox.NamedNode, bound: Bound, outward: bool, properties: Iterable[str]
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
