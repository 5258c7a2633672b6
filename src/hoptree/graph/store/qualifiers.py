"""The qualifiers of a fact: those of the statements that lie between its subject and its value."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, zip_longest

from hoptree.graph.facts import Qualifier
from hoptree.graph.oxigraph import Node, Object, ox
from hoptree.graph.store.names import Names
from hoptree.graph.store.neighbours import Row
from hoptree.graph.vocabulary import role, step_iri

__all__ = ["Qualifiers"]

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
            if role(quad.predicate.value) == "qualifier":
                found.add(Qualifier(self._names.term(quad.predicate), self._names.term(quad.object)))
        self.complete = self.complete and next(quads, None) is None
        return sorted(found, key=lambda one: (one.relation.text, one.value.text))
