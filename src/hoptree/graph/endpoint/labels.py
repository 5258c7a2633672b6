"""What the things in an endpoint's results are called, asked for many at once and remembered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hoptree.graph.endpoint.asking import Allowance, Asking
from hoptree.graph.endpoint.queries import Dialect, is_iri, names_query
from hoptree.graph.errors import GraphError
from hoptree.graph.facts import Term
from hoptree.graph.naming import best_name
from hoptree.graph.vocabulary import WIKIDATA, entity_id, property_entity, property_id, readable

__all__ = ["Called", "Labels", "carrier_of"]

_AT_ONCE = 150
"""Things whose labels one query asks for."""
_NAMES_EACH = 20
_REMEMBERED = 50_000
_FILES = (".jpg", ".png", ".svg", ".html")


class Called:
    """The labels of some IRIs, whatever is forgotten meanwhile."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels

    def text(self, iri: str) -> str:
        """What a person calls it; a name made of the IRI, where it has none."""
        return self._labels.get(iri) or readable(entity_id(iri))

    def entity(self, iri: str) -> Term:
        """A subject or object; what no query can ask about has no id, and is told as it is."""
        return Term(entity_id(iri), self.text(iri)) if is_iri(iri) else Term("", iri)

    def property(self, iri: str) -> Term:
        return Term(property_id(iri), self.text(carrier_of(iri)))


def carrier_of(predicate: str) -> str:
    """The IRI that carries the names of a property, by whichever of its IRIs."""
    try:
        return property_entity(property_id(predicate))
    except GraphError:
        return predicate


class Labels:
    """Asks an endpoint for labels in the languages and the order given, and remembers the last ones."""

    def __init__(self, asking: Asking, languages: tuple[str, ...], dialect: Dialect) -> None:
        self._asking, self._languages, self._dialect = asking, languages, dialect
        self._known: dict[str, str] = {}

    async def of(self, iris: Iterable[str], allowed: Allowance) -> Called:
        """The labels of things; those that have none are asked for once."""
        wanted = list(dict.fromkeys(iri for iri in iris if self._askable(iri)))
        found = {iri: self._known[iri] for iri in wanted if iri in self._known}
        missing = [iri for iri in wanted if iri not in found]
        for start in range(0, len(missing), _AT_ONCE):
            found |= await self._asked(missing[start : start + _AT_ONCE], allowed)
        return Called(found)

    def known(self, iris: Iterable[str]) -> Called:
        """What is remembered of things, without asking."""
        return Called({iri: self._known[iri] for iri in iris if iri in self._known})

    async def _asked(self, iris: list[str], allowed: Allowance) -> dict[str, str]:
        most = len(iris) * _NAMES_EACH
        query = names_query(iris, self._languages, all_names=False, limit=most)
        results = await self._asking.ask(query, allowed, most)
        said: dict[str, list[tuple[str, str]]] = {iri: [] for iri in iris}
        for row in results.rows:
            if "name" in row and "e" in row and row["e"].iri in said:
                said[row["e"].iri].append((row["name"].text, row["name"].language))
        found = {iri: best_name(names, self._languages) for iri, names in said.items()}
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        self._known |= found
        return found

    def _askable(self, iri: str) -> bool:
        """Whether a thing may have a label: web addresses and files have none, and cost a look each."""
        if self._dialect == "wikidata":
            return iri.startswith(WIKIDATA) and is_iri(iri)
        return is_iri(iri) and not iri.lower().endswith(_FILES)
