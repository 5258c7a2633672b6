"""Triples, qualifiers and names around an entity of a stored graph."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice, zip_longest
from typing import TypeGuard

from hoptree.core.errors import GraphError
from hoptree.graph import vocabulary as vocab
from hoptree.graph.facts import QUANTITY, Entity, Property, Qualifier, Term, render_literal
from hoptree.graph.oxigraph import Node, Object, ox
from hoptree.text.names import best_name, fold, language_rank

_MAX_NAMES = 500  # names of an entity that are read
_MAX_CANDIDATES, _MAX_READ = 2_000, 100  # entities of one name, and how many of them have their other names read
_MAX_CACHED = 50_000
_PROPERTIES = ("http://www.wikidata.org/prop/", "urn:hoptree:property:", "urn:hoptree:qualifier:")
_LABEL, _ALIAS, _DESCRIPTION = map(ox.NamedNode, (vocab.LABEL, vocab.ALIAS, vocab.DESCRIPTION))
_KEY, _USES, _DATATYPE, _PAGE = map(ox.NamedNode, (vocab.KEY, vocab.USES, vocab.DATATYPE, vocab.PAGE))


class Names:
    """Looks up names in the given order of languages, with a cache."""

    def __init__(self, store: ox.Store, languages: tuple[str, ...]) -> None:
        self._store, self.languages = store, languages
        self.label = lru_cache(_MAX_CACHED)(partial(_label, store, languages))  # of an IRI, or made of its id
        self._named_term = lru_cache(_MAX_CACHED)(partial(_named_term, self.label))
        self._uses: Counter[str] | None = None

    def term(self, value: object) -> Term:
        """Return a subject or object of a triple, readable."""
        if isinstance(value, ox.NamedNode):
            return self._named_term(value.value)
        if isinstance(value, ox.BlankNode):
            return Term("", "something unnamed")
        assert isinstance(value, ox.Literal)
        datatype = value.datatype.value
        unit = value.value.partition(" ")[2] if datatype == QUANTITY else ""
        if unit:
            with suppress(GraphError, ValueError):
                unit = self.label(vocab.entity_iri(unit), unit)
        return Term("", render_literal(value.value, datatype, unit))

    def entity(self, node: ox.NamedNode) -> Entity | None:
        """Return an entity with all names; None if it has none and is in no fact."""
        identifier = vocab.entity_id(node.value)
        label = self.label(node.value, identifier)
        labels = list(_literals(self._store, node, _LABEL))
        aliases = [*_literals(self._store, node, _ALIAS), *labels]
        aliases.sort(key=lambda pair: language_rank(pair[1], self.languages))
        sides = ((node, None, None, None), (None, None, node, None))
        if not aliases and not any(next(self._store.quads_for_pattern(*side), None) for side in sides):
            return None
        others = tuple(dict.fromkeys(name for name, _ in aliases if name != label))
        return Entity(identifier, label, others, self._best(node, _DESCRIPTION), self._best(node, _PAGE))

    def _best(self, node: ox.NamedNode, what: ox.NamedNode) -> str:
        return best_name(_literals(self._store, node, what), self.languages)

    def entities(self, name: str, limit: int) -> tuple[Entity, ...]:
        """Return the entities of a name: labels first, then by id."""
        key = fold(name)
        if not key:
            return ()
        quads = self._store.quads_for_pattern(None, _KEY, ox.Literal(key), None)
        ids = {
            vocab.entity_id(quad.subject.value)
            for quad in islice(quads, _MAX_CANDIDATES)
            if isinstance(quad.subject, ox.NamedNode)
        }
        known = sorted((each for each in ids if not vocab.is_property(each)), key=vocab.natural_key)
        nodes = (ox.NamedNode(vocab.entity_iri(each)) for each in known[: max(_MAX_READ, limit)])
        entities = [entity for node in nodes if (entity := self.entity(node)) is not None]
        entities.sort(key=lambda each: (each.label != name, fold(each.label) != key, vocab.natural_key(each.id)))
        return tuple(entities[:limit])

    def most_used(self) -> Iterator[str]:
        """Yield predicates, the most used first; sorted at the first one."""
        yield from sorted(self.uses(), key=lambda iri: (-self.uses()[iri], iri))

    def properties(self, limit: int) -> tuple[Property, ...]:
        properties = []
        for iri in islice(self.most_used(), limit):
            identifier = vocab.property_id(iri)
            node = ox.NamedNode(vocab.property_entity(identifier))
            label = self.label(node.value, identifier)
            names = [*_literals(self._store, node, _LABEL), *_literals(self._store, node, _ALIAS)]
            aliases = tuple(dict.fromkeys(name for name, _ in names if name != label))
            about, kind = self._best(node, _DESCRIPTION), self._best(node, _DATATYPE)
            properties.append(Property(identifier, label, aliases, about, kind, self.uses()[iri]))
        return tuple(properties)

    def uses(self) -> dict[str, int]:
        """Return the predicates of facts with their numbers of facts."""
        if self._uses is None:
            self._uses = Counter()
            for quad in self._store.quads_for_pattern(None, _USES, None, None):
                if isinstance(quad.subject, ox.NamedNode) and isinstance(quad.object, ox.Literal):
                    self._uses[quad.subject.value] += int(quad.object.value)
        return self._uses


def _literals(store: ox.Store, node: Node, predicate: ox.NamedNode) -> Iterator[tuple[str, str]]:
    for quad in islice(store.quads_for_pattern(node, predicate, None, None), _MAX_NAMES):
        if isinstance(quad.object, ox.Literal):
            yield quad.object.value, quad.object.language or ""


def _label(store: ox.Store, languages: tuple[str, ...], iri: str, identifier: str) -> str:
    names = (best_name(_literals(store, ox.NamedNode(iri), kind), languages) for kind in (_LABEL, _ALIAS))
    return next(filter(None, names), "") or vocab.readable_name(identifier)


def _named_term(label: Callable[[str, str], str], iri: str) -> Term:
    if iri.startswith(_PROPERTIES):
        identifier = vocab.property_id(iri)
        return Term(identifier, label(vocab.property_entity(identifier), identifier))
    identifier = vocab.entity_id(iri)
    return Term(identifier, label(iri, identifier))


Row = tuple[Object, ox.NamedNode, Object]
_MAX_OTHER_TRIPLES = 2_000  # names and statements of a node that are skipped before it counts as a hub
_MAX_PROPERTIES = 2_000  # properties that are read around a hub: the most used ones


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
    store: ox.Store, node: ox.NamedNode, bound: Bound, *, outward: bool, properties: Iterable[str]
) -> Neighbours:
    """Return the facts at a node; of too many, one of each property in turn."""
    neighbours = Neighbours()
    if _take_all(neighbours, _triples(store, node, None, outward), bound):
        return neighbours
    if not bound.late:
        neighbours.rows.clear()
        turns = deque(_triples(store, node, ox.NamedNode(iri), outward) for iri in islice(properties, _MAX_PROPERTIES))
        while turns and len(neighbours.rows) < bound.rows and not bound.late:
            quads = turns.popleft()
            if (quad := next(quads, None)) is not None:
                neighbours.take(quad)
                turns.append(quads)
    neighbours.complete = False
    return neighbours


def _triples(store: ox.Store, node: ox.NamedNode, predicate: ox.NamedNode | None, outward: bool) -> Iterator[ox.Quad]:
    return iter(store.quads_for_pattern(node if outward else None, predicate, None if outward else node, None))


def _take_all(neighbours: Neighbours, quads: Iterator[ox.Quad], bound: Bound) -> bool:
    """Take facts; return whether these are all."""
    others = 0
    for quad in quads:
        if vocab.predicate_role(quad.predicate.value) != "fact":
            others += 1
        elif len(neighbours.rows) >= bound.rows:
            return False
        else:
            neighbours.take(quad)
        if others > _MAX_OTHER_TRIPLES or bound.late:
            return False
    return True


_MAX_STATEMENTS = 1_000  # statements that are read from each end of a fact, and triples of one statement


def _is_node(term: object) -> TypeGuard[Node]:
    return isinstance(term, ox.NamedNode | ox.BlankNode)


class Qualifiers:
    """Reads the qualifiers of facts; `complete` says whether all were read."""

    def __init__(self, store: ox.Store, names: Names) -> None:
        self._store, self._names = store, names
        self.complete = True

    def of(self, row: Row, identifier: str) -> list[tuple[Qualifier, ...]]:
        """Return the qualifiers of each statement of a fact."""
        groups = dict.fromkeys(tuple(self._qualifiers_of(statement)) for statement in self._statements(row, identifier))
        return sorted(filter(None, groups), key=lambda group: [qualifier.value.text for qualifier in group]) or [()]

    def _statements(self, row: Row, identifier: str) -> list[Node]:
        """Return a fact's statements, searched from both ends until one is exhausted."""
        subject, _, value = row
        assert not isinstance(subject, ox.Literal)
        claim, meaning = (
            ox.NamedNode(vocab.step_iri("claim", identifier)),
            ox.NamedNode(vocab.step_iri("value", identifier)),
        )
        begun: list[Node] = []
        ended: list[Node] = []
        after = (quad.object for quad in self._store.quads_for_pattern(subject, claim, None, None))
        before = (quad.subject for quad in self._store.quads_for_pattern(None, meaning, value, None))
        sides = (filter(_is_node, nodes) for nodes in (after, before))
        for number, (here, there) in enumerate(zip_longest(*sides)):
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

    def _is_there(self, subject: Node, predicate: ox.NamedNode, value: Object) -> bool:
        return next(self._store.quads_for_pattern(subject, predicate, value, None), None) is not None

    def _qualifiers_of(self, statement: Node) -> list[Qualifier]:
        qualifiers: set[Qualifier] = set()
        quads = self._store.quads_for_pattern(statement, None, None, None)
        for quad in islice(quads, _MAX_STATEMENTS):
            if vocab.predicate_role(quad.predicate.value) == "qualifier":
                qualifiers.add(Qualifier(self._names.term(quad.predicate), self._names.term(quad.object)))
        self.complete = self.complete and next(quads, None) is None
        return sorted(qualifiers, key=lambda qualifier: (qualifier.relation.text, qualifier.value.text))
