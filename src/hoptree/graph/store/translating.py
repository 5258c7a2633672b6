"""Triples as files have them, as a graph keeps them: names that can be looked up, facts, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from hoptree.graph.naming import LONGEST, fold, wanted_language
from hoptree.graph.oxigraph import Node, Object, Triple, ox
from hoptree.graph.store.provenance import graph_of
from hoptree.graph.vocabulary import ABOUT, ALIAS, DATATYPE, DESCRIPTION, KEY, LABEL, PAGE, TYPE, WIKIBASE, WIKIDATA
from hoptree.graph.vocabulary import role as role_of

__all__ = ["Translator"]

_REMEMBERED = 50_000
_KEPT = ("fact", "claim", "value", "qualifier")
_PROPERTY_TYPE = f"{WIKIBASE}propertyType"


class Translator:
    """Lines of N-Quads for one source, which the store reads faster than terms of Python's.

    `left_out` counts what is dropped: names in other languages, and what dumps say of themselves.
    """

    def __init__(self, source: str, base: str, languages: tuple[str, ...]) -> None:
        self._source, self._base, self._languages = source, base, languages
        self._graphs: dict[tuple[str, ...], str] = {}
        self._seen: set[tuple[str, str, str]] = set()
        self.left_out = 0

    def lines(self, triples: Iterable[Triple]) -> Iterator[str]:
        for subject, predicate, value, places in triples:
            role = role_of(predicate.value)
            graph = self._graphs.get(places) or self._graph(places)
            if role in _KEPT:
                if predicate.value == TYPE and isinstance(value, ox.NamedNode) and value.value.startswith(WIKIBASE):
                    self.left_out += 1
                    continue
                yield f"{subject} {predicate} {value}{graph}"
            elif role in ("label", "alias", "description") and isinstance(value, ox.Literal):
                yield from self._name(subject, predicate.value, role, value, graph)
            else:
                yield from self._other(subject, predicate.value, value, graph)

    def _graph(self, places: tuple[str, ...]) -> str:
        """What stands behind the object in a line: the graph, if it is not the default one, and the end."""
        if len(self._graphs) > _REMEMBERED:
            self._graphs.clear()
        graph = graph_of(self._source, places, self._base)
        end = self._graphs[places] = f" {graph} .\n" if isinstance(graph, ox.NamedNode) else " .\n"
        return end

    def _name(self, subject: Node, predicate: str, role: str, value: ox.Literal, graph: str) -> Iterator[str]:
        # Wikidata's dumps tell every label three times.
        repeated = predicate != LABEL and role == "label" and subject.value.startswith(WIKIDATA)
        if repeated or not wanted_language(value.language or "", self._languages):
            self.left_out += 1
            return
        text = value.value
        if not text.strip() or self._again((subject.value, predicate, text)):
            return
        kept = {"label": LABEL, "alias": ALIAS}.get(role, DESCRIPTION)
        yield f"{subject} <{kept}> {value}{graph}"
        if kept != DESCRIPTION and len(text) <= LONGEST and (key := fold(text)):
            yield f"{subject} <{KEY}> {ox.Literal(key)}{graph}"

    def _again(self, name: tuple[str, str, str]) -> bool:
        """Whether a name was seen lately: tables repeat it in every row."""
        if name in self._seen:
            return True
        if len(self._seen) >= _REMEMBERED:
            self._seen.clear()
        self._seen.add(name)
        return False

    def _other(self, subject: Node, predicate: str, value: Object, graph: str) -> Iterator[str]:
        if predicate == _PROPERTY_TYPE and isinstance(value, ox.NamedNode):
            yield f"{subject} <{DATATYPE}> {ox.Literal(value.value.removeprefix(WIKIBASE))}{graph}"
        elif predicate == DATATYPE and isinstance(value, ox.Literal):
            yield f"{subject} <{DATATYPE}> {value}{graph}"
        elif predicate == ABOUT and isinstance(value, ox.NamedNode) and (page := self._page(subject.value)):
            yield f"{value} <{PAGE}> {page}{graph}"
        else:
            self.left_out += 1

    def _page(self, address: str) -> ox.Literal | None:
        """The title of a Wikipedia article in a wanted language."""
        host, found, title = address.removeprefix("https://").partition(".wikipedia.org/wiki/")
        if not found or not title or "/" in host or not wanted_language(host, self._languages):
            return None
        try:
            return ox.Literal(unquote(title).replace("_", " "), language=host)
        except ValueError:  # not a tag of a language
            return None
