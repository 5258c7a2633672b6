"""The SPARQL that is sent to an endpoint.

Whatever comes from outside enters a query as one escaped literal or one checked IRI, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from hoptree.core.errors import ConfigError, GraphError
from hoptree.graph.facts import Direction, Term
from hoptree.graph.sparql_client import SparqlClient, TimeBudget
from hoptree.graph.vocabulary import (
    ABOUT,
    ALIASES,
    DESCRIPTIONS,
    LABELS,
    WIKIBASE,
    WIKIDATA,
    entity_id,
    entity_iri,
    property_entity,
    property_id,
    property_iri,
    readable_name,
    step_iri,
)
from hoptree.text.names import best_name

Dialect = Literal["wikidata", "rdf"]
_LANGUAGE = re.compile(r"[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*", re.ASCII)
_SAFE_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\\x7f-\x9f\ud800-\udfff]+")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_DIRECT = "http://www.wikidata.org/prop/direct/P"
_CLAIMS = "http://www.wikidata.org/prop/"
_PART, _TITLE = "http://schema.org/isPartOf", "http://schema.org/name"


def is_iri(value: str) -> bool:
    """Whether a query can speak of it: endpoints give out IRIs that are none."""
    return _SAFE_IRI.fullmatch(value) is not None


def iri(value: str) -> str:
    """An IRI in angle brackets; what could end them is refused, not escaped."""
    if not is_iri(value):
        raise GraphError(f"'{value[:200]}' is no IRI.", "IRIs have no spaces, quotes, brackets or backslashes.")
    return f"<{value}>"


def literal(text: str, language: str = "") -> str:
    """A text in quotes. Control characters become spaces: written as \\u… they would be read before the quotes are."""
    escaped = "".join(_ESCAPES.get(letter) or _CONTROL.sub(" ", letter) for letter in text)
    return f'"{escaped}"' + (f"@{_tag(language)}" if language else "")


def _tag(language: str) -> str:
    if _LANGUAGE.fullmatch(language) is None:
        raise ConfigError(f"'{language}' is no language tag.", "Tags are like en or pt-br.")
    return language


def _predicates(iris: Iterable[str]) -> str:
    return "|".join(map(iri, sorted(iris)))


def _in_languages(variable: str, languages: Sequence[str]) -> str:
    tags = ", ".join(literal(_tag(tag) if tag else "") for tag in languages)
    return f"FILTER(LANG({variable}) IN ({tags}))"


def _begins(variable: str, prefix: str) -> str:
    return f"FILTER(STRSTARTS(STR({variable}), {literal(prefix)}))"


def entities_query(name: str, languages: Sequence[str], dialect: Dialect, limit: int) -> str:
    """Entities of a name as given or with a first capital, with whether it is a label (0) or an alias (1)."""
    spellings = dict.fromkeys((name, name[:1].upper() + name[1:]))
    names = " ".join(literal(spelling, tag) for spelling in spellings for tag in languages)
    only = _begins("?e", f"{WIKIDATA}Q") if dialect == "wikidata" else "FILTER(ISIRI(?e))"
    labels, aliases = (
        (iri("http://www.w3.org/2000/01/rdf-schema#label"), iri("http://www.w3.org/2004/02/skos/core#altLabel"))
        if dialect == "wikidata"
        else (_predicates(LABELS), _predicates(ALIASES))
    )
    return (
        f"SELECT DISTINCT ?e ?how WHERE {{ VALUES ?name {{ {names} }} "
        f"{{ ?e {labels} ?name . BIND(0 AS ?how) }} UNION {{ ?e {aliases} ?name . BIND(1 AS ?how) }} {only} }} "
        f"LIMIT {limit:d}"
    )


def names_query(
    iris: Sequence[str], languages: Sequence[str], *, all_names: bool, limit: int, dialect: Dialect = "rdf"
) -> str:
    """Labels of things (0), or all their names (1), descriptions (2), and in Wikidata titles of Wikipedia (3)."""
    things = " ".join(map(iri, iris))
    kinds = f"{{ ?e {_predicates(LABELS)} ?name . BIND(0 AS ?how) }}"
    if all_names:
        kinds += f" UNION {{ ?e {_predicates(ALIASES)} ?name . BIND(1 AS ?how) }}"
        kinds += f" UNION {{ ?e {_predicates(DESCRIPTIONS)} ?name . BIND(2 AS ?how) }}"
        wikis = " ".join(iri(f"https://{_tag(tag)}.wikipedia.org/") for tag in languages if tag not in ("", "mul"))
        if wikis and dialect == "wikidata":
            kinds += (
                f" UNION {{ VALUES ?wiki {{ {wikis} }} "
                f"?page {iri(ABOUT)} ?e ; {iri(_PART)} ?wiki ; {iri(_TITLE)} ?name . BIND(3 AS ?how) }}"
            )
    return (
        f"SELECT DISTINCT ?e ?how ?name WHERE {{ VALUES ?e {{ {things} }} {kinds} "
        f"{_in_languages('?name', languages)} }} LIMIT {limit:d}"
    )


def facts_query(entity: str, relation: str, direction: Direction, dialect: Dialect, limit: int) -> str:
    """One row a fact, or several where it has qualifiers: `direction` is out or in."""
    node = iri(entity_iri(entity))
    outward = direction == "out"
    if outward and dialect == "wikidata":
        return _statements(node, relation, limit)
    predicate = iri(property_iri(relation)) if relation else "?p"
    triple = f"{node} {predicate} ?v" if outward else f"?s {predicate} {node}"
    only = _begins("?p", _DIRECT) if dialect == "wikidata" and not relation else ""
    return f"SELECT * WHERE {{ {triple} . {only} }} LIMIT {limit:d}"


def _statements(node: str, relation: str, limit: int) -> str:
    """Statements of the best rank, as the truthy facts are, with precision, unit and qualifiers."""
    claim = iri(step_iri("claim", relation)) if relation else "?claim"
    only = "" if relation else _begins("?claim", f"{_CLAIMS}P")
    value, of_qualifier = f"{_CLAIMS}statement/value/P", f"{_CLAIMS}qualifier/value/P"
    return (
        "SELECT ?st ?p ?v ?precision ?unit ?pq ?q ?qprecision ?qunit WHERE { "
        f"{{ SELECT ?st WHERE {{ {node} {claim} ?st . {only} ?st a {iri(WIKIBASE + 'BestRank')} }} LIMIT {limit:d} }} "
        f"?st ?p ?v . {_begins('?p', _CLAIMS + 'statement/P')} "
        f"OPTIONAL {{ ?st ?pv ?node . {_begins('?pv', value)} {_precise('?node', '?precision', '?unit')} }} "
        f"OPTIONAL {{ ?st ?pq ?q . {_begins('?pq', _CLAIMS + 'qualifier/P')} "
        f"OPTIONAL {{ ?st ?pqv ?qnode . {_begins('?pqv', of_qualifier)} "
        f"FILTER(STRAFTER(STR(?pqv), {literal('/value/')}) = STRAFTER(STR(?pq), {literal('/qualifier/')})) "
        f"{_precise('?qnode', '?qprecision', '?qunit')} }} }} }} LIMIT {limit * 10:d}"
    )


def _precise(node: str, precision: str, unit: str) -> str:
    return (
        f"OPTIONAL {{ {node} {iri(WIKIBASE + 'timePrecision')} {precision} }} "
        f"OPTIONAL {{ {node} {iri(WIKIBASE + 'quantityUnit')} {unit} }}"
    )


def property_query(languages: Sequence[str], dialect: Dialect, limit: int) -> str:
    """Properties with their labels, aliases and kinds of values."""
    if dialect == "rdf":
        return f"SELECT DISTINCT ?e WHERE {{ ?s ?e ?o }} LIMIT {limit:d}"
    label = iri("http://www.w3.org/2000/01/rdf-schema#label")
    return (
        f"SELECT ?e ?name ?kind WHERE {{ ?e a {iri(WIKIBASE + 'Property')} ; {iri(WIKIBASE + 'propertyType')} ?kind . "
        f"OPTIONAL {{ ?e {label} ?name {_in_languages('?name', languages)} }} }} LIMIT {limit:d}"
    )


def count_query() -> str:
    return "SELECT (COUNT(*) AS ?n) WHERE { ?s ?p ?o }"


_AT_ONCE = 150
"""Things whose labels one query asks for."""
_NAMES_EACH = 20
_REMEMBERED = 50_000
_FILES = (".jpg", ".png", ".svg", ".html")


class KnownLabels:
    """The labels of some IRIs, whatever is forgotten meanwhile."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels

    def text(self, iri: str) -> str:
        """What a person calls it; a name made of the IRI, where it has none."""
        return self._labels.get(iri) or readable_name(entity_id(iri))

    def entity(self, iri: str) -> Term:
        """A subject or object; what no query can ask about has no id, and is told as it is."""
        return Term(entity_id(iri), self.text(iri)) if is_iri(iri) else Term("", iri)

    def property(self, iri: str) -> Term:
        return Term(property_id(iri), self.text(label_carrier(iri)))


def label_carrier(predicate: str) -> str:
    """The IRI that carries the names of a property, by whichever of its IRIs."""
    try:
        return property_entity(property_id(predicate))
    except GraphError:
        return predicate


class LabelLookup:
    """Asks an endpoint for labels in the languages and the order given, and remembers the last ones."""

    def __init__(self, asking: SparqlClient, languages: tuple[str, ...], dialect: Dialect) -> None:
        self._asking, self._languages, self._dialect = asking, languages, dialect
        self._known: dict[str, str] = {}

    async def of(self, iris: Iterable[str], allowed: TimeBudget) -> KnownLabels:
        """The labels of things; those that have none are asked for once."""
        wanted = list(dict.fromkeys(iri for iri in iris if self._askable(iri)))
        found = {iri: self._known[iri] for iri in wanted if iri in self._known}
        missing = [iri for iri in wanted if iri not in found]
        for start in range(0, len(missing), _AT_ONCE):
            found |= await self._asked(missing[start : start + _AT_ONCE], allowed)
        return KnownLabels(found)

    def known(self, iris: Iterable[str]) -> KnownLabels:
        """What is remembered of things, without asking."""
        return KnownLabels({iri: self._known[iri] for iri in iris if iri in self._known})

    async def _asked(self, iris: list[str], allowed: TimeBudget) -> dict[str, str]:
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
