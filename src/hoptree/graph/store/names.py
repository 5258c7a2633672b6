"""Names of the entities and properties of a store."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from hoptree.core.errors import GraphError
from hoptree.graph.facts import Entity, Property, Term
from hoptree.graph.oxigraph import Node, ox
from hoptree.graph.rendering import render_literal, unit_of
from hoptree.graph.vocabulary import (
    ALIAS,
    DATATYPE,
    DESCRIPTION,
    KEY,
    LABEL,
    PAGE,
    QUANTITY,
    USES,
    entity_id,
    entity_iri,
    is_property,
    natural_key,
    property_entity,
    property_id,
    readable_name,
)
from hoptree.text.names import best_name, fold, language_rank

_MAX_NAMES = 500
"""Names of an entity that are read."""
_MAX_CANDIDATES, _MAX_READ = 2_000, 100
"""Entities of one name, and how many of them have their other names read."""
_MAX_CACHED = 50_000
_PROPERTIES = ("http://www.wikidata.org/prop/", "urn:hoptree:property:", "urn:hoptree:qualifier:")
_LABEL, _ALIAS, _DESCRIPTION = ox.NamedNode(LABEL), ox.NamedNode(ALIAS), ox.NamedNode(DESCRIPTION)
_KEY, _USES, _DATATYPE, _PAGE = ox.NamedNode(KEY), ox.NamedNode(USES), ox.NamedNode(DATATYPE), ox.NamedNode(PAGE)


class Names:
    """Looks up names in the given order of languages, with a cache."""

    def __init__(self, store: ox.Store, languages: tuple[str, ...]) -> None:
        self._store, self.languages = store, languages
        self._labels: dict[str, str] = {}
        self._terms: dict[str, Term] = {}
        self._uses: dict[str, int] | None = None

    def label(self, iri: str, identifier: str) -> str:
        """Return the label of an IRI, or a name made of its id."""
        known = self._labels.get(iri)
        if known is None:
            if len(self._labels) >= _MAX_CACHED:
                self._labels.clear()
            node = ox.NamedNode(iri)
            label = best_name(self._literals(node, _LABEL), self.languages)
            known = label or best_name(self._literals(node, _ALIAS), self.languages) or readable_name(identifier)
            self._labels[iri] = known
        return known

    def property_label(self, identifier: str) -> str:
        return self.label(property_entity(identifier), identifier)

    def term(self, value: object) -> Term:
        """Return a subject or object of a triple, readable."""
        if isinstance(value, ox.NamedNode):
            iri = value.value
            return self._terms.get(iri) or self._new_term(iri)
        if isinstance(value, ox.BlankNode):
            return Term("", "something unnamed")
        assert isinstance(value, ox.Literal)
        datatype = value.datatype.value
        unit = unit_of(value.value) if datatype == QUANTITY else ""
        return Term("", render_literal(value.value, datatype, self._unit(unit) if unit else ""))

    def _new_term(self, iri: str) -> Term:
        if len(self._terms) >= _MAX_CACHED:
            self._terms.clear()
        identifier = property_id(iri) if iri.startswith(_PROPERTIES) else entity_id(iri)
        named = property_entity(identifier) if iri.startswith(_PROPERTIES) else iri
        term = self._terms[iri] = Term(identifier, self.label(named, identifier))
        return term

    def _unit(self, identifier: str) -> str:
        try:
            return self.label(entity_iri(identifier), identifier)
        except (GraphError, ValueError):
            return identifier

    def entity(self, node: ox.NamedNode) -> Entity | None:
        """Return an entity with all names; None if it has none and is in no fact."""
        identifier = entity_id(node.value)
        label = self.label(node.value, identifier)
        labels = list(self._literals(node, _LABEL))
        aliases = [*self._literals(node, _ALIAS), *labels]
        aliases.sort(key=lambda pair: language_rank(pair[1], self.languages))
        if not aliases and not self._is_in_fact(node):
            return None
        others = tuple(dict.fromkeys(name for name, _ in aliases if name != label))
        description = best_name(self._literals(node, _DESCRIPTION), self.languages)
        return Entity(identifier, label, others, description, best_name(self._literals(node, _PAGE), self.languages))

    def _is_in_fact(self, node: ox.NamedNode) -> bool:
        return any(True for _ in self._store.quads_for_pattern(node, None, None, None)) or any(
            True for _ in self._store.quads_for_pattern(None, None, node, None)
        )

    def entities(self, name: str, limit: int) -> tuple[Entity, ...]:
        """Return the entities of a name: by label before by alias, then by the number in the id."""
        key = fold(name)
        if not key:
            return ()
        quads = self._store.quads_for_pattern(None, _KEY, ox.Literal(key), None)
        ids = {
            entity_id(quad.subject.value)
            for quad in islice(quads, _MAX_CANDIDATES)
            if isinstance(quad.subject, ox.NamedNode)
        }
        known = sorted((identifier for identifier in ids if not is_property(identifier)), key=natural_key)[
            : max(_MAX_READ, limit)
        ]
        entities = [
            entity for identifier in known if (entity := self.entity(ox.NamedNode(entity_iri(identifier)))) is not None
        ]
        entities.sort(key=lambda entity: (*_fit(entity, name, key), natural_key(entity.id)))
        return tuple(entities[:limit])

    def properties(self, limit: int) -> tuple[Property, ...]:
        uses = sorted(self.uses().items(), key=lambda pair: (-pair[1], pair[0]))
        return tuple(self._property(property_id(iri), count) for iri, count in uses[:limit])

    def _property(self, identifier: str, count: int) -> Property:
        node = ox.NamedNode(property_entity(identifier))
        label = self.property_label(identifier)
        names = [*self._literals(node, _LABEL), *self._literals(node, _ALIAS)]
        aliases = tuple(dict.fromkeys(name for name, _ in names if name != label))
        description = best_name(self._literals(node, _DESCRIPTION), self.languages)
        datatype = best_name(self._literals(node, _DATATYPE), self.languages)
        return Property(identifier, label, aliases, description, datatype, count)

    def uses(self) -> dict[str, int]:
        """Return the predicates of facts with their numbers of facts."""
        if self._uses is None:
            counted: dict[str, int] = {}
            for quad in self._store.quads_for_pattern(None, _USES, None, None):
                if isinstance(quad.subject, ox.NamedNode) and isinstance(quad.object, ox.Literal):
                    count = int(quad.object.value)
                    counted[quad.subject.value] = counted.get(quad.subject.value, 0) + count
            self._uses = counted
        return self._uses

    def _literals(self, node: Node, predicate: ox.NamedNode) -> Iterator[tuple[str, str]]:
        for quad in islice(self._store.quads_for_pattern(node, predicate, None, None), _MAX_NAMES):
            if isinstance(quad.object, ox.Literal):
                yield quad.object.value, quad.object.language or ""


def _fit(entity: Entity, name: str, key: str) -> tuple[int, ...]:
    if entity.label == name:
        return (0,)
    return (1,) if fold(entity.label) == key else (2,)
