"""The SPARQL that is sent to an endpoint, and a guard for queries of users."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from hoptree.core.errors import ConfigError, GraphError
from hoptree.graph.facts import Direction, Term
from hoptree.graph.sparql_client import SparqlClient, TimeBudget
from hoptree.graph.vocabulary import (
    ABOUT,
    ALIAS,
    ALIASES,
    DESCRIPTIONS,
    LABEL,
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
COUNT_QUERY = "SELECT (COUNT(*) AS ?n) WHERE { ?s ?p ?o }"
_PART, _TITLE = "http://schema.org/isPartOf", "http://schema.org/name"


def is_iri(value: str) -> bool:
    """Whether a query can name it: endpoints return IRIs that are none."""
    return _SAFE_IRI.fullmatch(value) is not None


def iri(value: str) -> str:
    """Put an IRI in angle brackets; what could end them is refused."""
    if not is_iri(value):
        raise GraphError(f"'{value[:200]}' is no IRI.", "IRIs have no spaces, quotes, brackets or backslashes.")
    return f"<{value}>"


def literal(text: str, language: str = "") -> str:
    """Quote a text. Control characters become spaces: as \\u… they would be read before the quotes are."""
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
    """Entities of a name, also with a first capital; ?how is 0 for a label, 1 for an alias."""
    spellings = dict.fromkeys((name, name[:1].upper() + name[1:]))
    names = " ".join(literal(spelling, tag) for spelling in spellings for tag in languages)
    only = _begins("?e", f"{WIKIDATA}Q") if dialect == "wikidata" else "FILTER(ISIRI(?e))"
    labels, aliases = ([LABEL], [ALIAS]) if dialect == "wikidata" else (LABELS, ALIASES)
    return (
        f"SELECT DISTINCT ?e ?how WHERE {{ VALUES ?name {{ {names} }} "
        f"{{ ?e {_predicates(labels)} ?name . BIND(0 AS ?how) }} UNION "
        f"{{ ?e {_predicates(aliases)} ?name . BIND(1 AS ?how) }} {only} }} "
        f"LIMIT {limit:d}"
    )


def names_query(
    iris: Sequence[str], languages: Sequence[str], *, all_names: bool, limit: int, dialect: Dialect = "rdf"
) -> str:
    """Labels (?how 0); or also aliases (1), descriptions (2) and titles of Wikipedia (3)."""
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
    """Facts, one row each or several with qualifiers; `direction` is out or in."""
    node = iri(entity_iri(entity))
    outward = direction == "out"
    if outward and dialect == "wikidata":
        return _statements(node, relation, limit)
    predicate = iri(property_iri(relation)) if relation else "?p"
    triple = f"{node} {predicate} ?v" if outward else f"?s {predicate} {node}"
    only = _begins("?p", _DIRECT) if dialect == "wikidata" and not relation else ""
    return f"SELECT * WHERE {{ {triple} . {only} }} LIMIT {limit:d}"


def _statements(node: str, relation: str, limit: int) -> str:
    """Statements of the best rank with precision, unit and qualifiers."""
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
    """Properties with their labels and datatypes."""
    if dialect == "rdf":
        return f"SELECT DISTINCT ?e WHERE {{ ?s ?e ?o }} LIMIT {limit:d}"
    return (
        f"SELECT ?e ?name ?kind WHERE {{ ?e a {iri(WIKIBASE + 'Property')} ; {iri(WIKIBASE + 'propertyType')} ?kind . "
        f"OPTIONAL {{ ?e {iri(LABEL)} ?name {_in_languages('?name', languages)} }} }} LIMIT {limit:d}"
    )


_LABELS_PER_QUERY = 150
_MAX_NAMES_PER_ENTITY = 20
_MAX_CACHED_LABELS = 50_000
_FILE_ENDINGS = (".jpg", ".png", ".svg", ".html")


class KnownLabels:
    """Labels of some IRIs, independent of the cache."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels

    def text(self, iri: str) -> str:
        """Return the label, or a name made of the IRI."""
        return self._labels.get(iri) or readable_name(entity_id(iri))

    def entity(self, iri: str) -> Term:
        """Return a subject or object; what no query can name has no id."""
        return Term(entity_id(iri), self.text(iri)) if is_iri(iri) else Term("", iri)

    def property(self, iri: str) -> Term:
        return Term(property_id(iri), self.text(label_carrier(iri)))


def label_carrier(predicate: str) -> str:
    """Return the IRI with the names of a property, by any of its IRIs."""
    try:
        return property_entity(property_id(predicate))
    except GraphError:
        return predicate


class LabelLookup:
    """Looks up labels in the given order of languages, with a cache."""

    def __init__(self, client: SparqlClient, languages: tuple[str, ...], dialect: Dialect) -> None:
        self._client, self._languages, self._dialect = client, languages, dialect
        self._known: dict[str, str] = {}

    async def of(self, iris: Iterable[str], budget: TimeBudget) -> KnownLabels:
        """Return labels, fetching those that are not cached."""
        wanted = list(dict.fromkeys(iri for iri in iris if self._askable(iri)))
        labels = {iri: self._known[iri] for iri in wanted if iri in self._known}
        missing = [iri for iri in wanted if iri not in labels]
        for start in range(0, len(missing), _LABELS_PER_QUERY):
            labels |= await self._fetch(missing[start : start + _LABELS_PER_QUERY], budget)
        return KnownLabels(labels)

    def known(self, iris: Iterable[str]) -> KnownLabels:
        """Return cached labels only."""
        return KnownLabels({iri: self._known[iri] for iri in iris if iri in self._known})

    async def _fetch(self, iris: list[str], budget: TimeBudget) -> dict[str, str]:
        max_rows = len(iris) * _MAX_NAMES_PER_ENTITY
        query = names_query(iris, self._languages, all_names=False, limit=max_rows)
        results = await self._client.ask(query, budget, max_rows)
        names_by_iri: dict[str, list[tuple[str, str]]] = {iri: [] for iri in iris}
        for row in results.rows:
            if "name" in row and "e" in row and row["e"].iri in names_by_iri:
                names_by_iri[row["e"].iri].append((row["name"].text, row["name"].language))
        labels = {iri: best_name(names, self._languages) for iri, names in names_by_iri.items()}
        if len(self._known) > _MAX_CACHED_LABELS:
            self._known.clear()
        self._known |= labels
        return labels

    def _askable(self, iri: str) -> bool:
        """Whether an IRI may have a label: web addresses and files have none."""
        if self._dialect == "wikidata":
            return iri.startswith(WIKIDATA) and is_iri(iri)
        return is_iri(iri) and not iri.lower().endswith(_FILE_ENDINGS)


_NOT_WORDS = re.compile(
    r"\"\"\".*?\"\"\"|'''.*?'''|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|<[^<>\"{}|^`\\\s]*>|#[^\n]*", re.DOTALL
)
_WORD_OR_BRACE = re.compile(r"[{}]|(?<![?$\w:@.%-])[A-Za-z]+(?![\w:.-])")
_PROLOGUE = ("PREFIX", "BASE", "VERSION")
_UPDATES = ("INSERT", "DELETE", "DROP", "CLEAR", "LOAD", "CREATE", "ADD", "MOVE", "COPY", "WITH")
_TRIPLES = ("CONSTRUCT", "DESCRIBE")
_EXAMPLE = "Write a query such as SELECT ?film WHERE { ?film wdt:P57 wd:Q72717 }"
_ALL = re.compile(r"^[^{]*\bselect\s+(?:distinct\s+|reduced\s+)?\*", re.IGNORECASE)
_VARIABLE = re.compile(r"[?$](\w+)")
_DECLARED = re.compile(r"\bprefix\s+([\w.-]*):", re.IGNORECASE)
_USED = re.compile(r"(?<![\w?$:@.%-])([A-Za-z][\w.-]*|):")


def blank_literals(sparql: str) -> str:
    """Blank quoted texts, IRIs and comments; the length stays the same."""
    return _NOT_WORDS.sub(lambda match: " " * len(match[0]), sparql)


def _outermost(sparql: str) -> Iterator[tuple[str, int]]:
    """Yield words outside all braces in capitals, with their positions."""
    depth = 0
    for token in _WORD_OR_BRACE.finditer(blank_literals(sparql)):
        if token[0] in "{}":
            depth += 1 if token[0] == "{" else -1
        elif depth <= 0:
            yield token[0].upper(), token.start()


def check_query(sparql: str) -> str:
    """Return SELECT or ASK, whichever the query is; refuse anything else."""
    if not blank_literals(sparql).strip():
        raise GraphError("The query is empty.", _EXAMPLE)
    words = [word for word, _ in _outermost(sparql)]
    for word in words:
        if word in _UPDATES:
            raise GraphError(f"The query would change the graph ({word}); only SELECT and ASK are run.", _EXAMPLE)
    form = next((word for word in words if word not in _PROLOGUE), "")
    if form in _TRIPLES:
        raise GraphError(f"The query makes triples ({form}); only SELECT and ASK are run.", _EXAMPLE)
    if form not in ("SELECT", "ASK"):
        raise GraphError("The query is no SPARQL: it begins with neither SELECT nor ASK.", _EXAMPLE)
    return form


def limit_rows(sparql: str, rows: int) -> str:
    """Give the query a LIMIT of at most `rows`."""
    if check_query(sparql) == "ASK":
        return sparql
    places = {word: place for word, place in _outermost(sparql) if word in ("LIMIT", "VALUES")}
    if "LIMIT" in places:
        number = re.compile(r"\s*(\d+)").match(blank_literals(sparql), places["LIMIT"] + len("LIMIT"))
        if number is None or (len(number[1]) < 19 and int(number[1]) <= rows):
            return sparql  # without a number it is no SPARQL, as whoever runs it will say
        return f"{sparql[: number.start(1)]}{rows:d}{sparql[number.end(1) :]}"
    if "VALUES" in places:  # it stands behind the LIMIT
        return f"{sparql[: places['VALUES']]}\nLIMIT {rows:d}\n{sparql[places['VALUES'] :]}"
    return f"{sparql}\nLIMIT {rows:d}"


def columns_in_order(sparql: str, columns: Sequence[str]) -> list[str]:
    """Sort the columns of `SELECT *` by first mention; stores return them by the alphabet."""
    if _ALL.search(blank_literals(sparql)) is None:
        return list(columns)
    named = list(dict.fromkeys(_VARIABLE.findall(blank_literals(sparql))))
    return sorted(columns, key=lambda name: named.index(name) if name in named else len(named))


def prefixes_missing(sparql: str, known: Iterable[str]) -> list[str]:
    """Return the prefixes that a query uses without declaring them."""
    words = blank_literals(sparql)
    there = {*known, *_DECLARED.findall(words), "_"}
    return [prefix for prefix in dict.fromkeys(_USED.findall(words)) if prefix not in there]
