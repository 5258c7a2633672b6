"""A knowledge graph behind a SPARQL endpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from hoptree.core.errors import GraphError, QueryTooLong
from hoptree.core.public_http import MAX_AGE_DAYS
from hoptree.core.values import DEFAULT_MAX_FACTS
from hoptree.graph import sparql as queries
from hoptree.graph import vocabulary as vocab
from hoptree.graph.facts import (
    DEFAULT_TIMEOUT_S,
    MAX_PROPERTIES,
    Direction,
    Entity,
    Fact,
    Neighbourhood,
    Property,
    Qualifier,
    Stats,
    Table,
    Term,
    Value,
    half_of_each,
    one_line,
    render_literal,
    render_time,
)
from hoptree.graph.sparql import Cell, Results, SparqlClient, TimeBudget
from hoptree.text.names import LANGUAGES, best_name, fold

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
        return self._labels.get(iri) or vocab.readable_name(vocab.entity_id(iri))

    def entity(self, iri: str) -> Term:
        """Return a subject or object; an invalid IRI becomes text without an id."""
        return Term(vocab.entity_id(iri), self.text(iri)) if queries.is_iri(iri) else Term("", iri)

    def property(self, iri: str) -> Term:
        return Term(vocab.property_id(iri), self.text(label_carrier(iri)))


def label_carrier(predicate: str) -> str:
    """Return the IRI with the names of a property, by any of its IRIs."""
    try:
        return vocab.property_entity(vocab.property_id(predicate))
    except GraphError:
        return predicate


class LabelLookup:
    """Looks up labels in the given order of languages, with a cache."""

    def __init__(self, client: SparqlClient, languages: tuple[str, ...], dialect: queries.Dialect) -> None:
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
        query = queries.names_query(iris, self._languages, all_names=False, limit=max_rows)
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
        """Return whether an IRI may have a label: web addresses and files have none."""
        if self._dialect == "wikidata":
            return iri.startswith(vocab.WIKIDATA) and queries.is_iri(iri)
        return queries.is_iri(iri) and not iri.lower().endswith(_FILE_ENDINGS)


_TIME_TYPES = ("dateTime", "date", "gYear", "gYearMonth")
_UNIT_ONE = "Q199"  # the unit of plain numbers
_Row = dict[str, Cell]


@dataclass(frozen=True, slots=True)
class _Written:
    """A value with its precision and unit, if known."""

    cell: Cell
    precision: str = ""
    unit: str = ""

    def iris(self) -> Iterator[str]:
        yield from filter(None, (self.cell.iri, self.unit))


@dataclass(frozen=True, slots=True)
class _Statement:
    """A statement about an entity, as subject (`outward`) or object, with qualifiers."""

    outward: bool
    predicate: str
    other: _Written
    qualifiers: tuple[tuple[str, _Written], ...] = ()

    def iris(self) -> Iterator[str]:
        """Yield all IRIs that need a label."""
        yield label_carrier(self.predicate)
        yield from self.other.iris()
        for predicate, value in self.qualifiers:
            yield label_carrier(predicate)
            yield from value.iris()

    def fact(self, here: Term, labels: KnownLabels, source: str) -> Fact:
        relation, other = labels.property(self.predicate), _term(self.other, labels)
        qualifiers = [Qualifier(labels.property(name), _term(value, labels)) for name, value in self.qualifiers]
        qualifiers.sort(key=lambda qualifier: (qualifier.relation.text, qualifier.value.text))
        subject, value = (here, other) if self.outward else (other, here)
        return Fact(subject, relation, value, tuple(dict.fromkeys(qualifiers)), (source,))


def _read_statements(rows: Iterable[_Row], *, outward: bool, but: str) -> list[_Statement]:
    """Read statements, except those with the entity `but` on the other side."""
    statements: dict[object, _Statement] = {}
    for number, row in enumerate(rows):
        predicate = row.get("p", Cell()).iri
        other = row.get("v" if outward else "s")
        if not predicate or other is None or (but and other.iri == but):
            continue
        if vocab.predicate_role(predicate) not in ("fact", "value"):
            continue
        key = row["st"].iri if "st" in row else number
        known = statements.setdefault(key, _Statement(outward, predicate, _written(row, other, "precision", "unit")))
        if "pq" in row and "q" in row:
            more = (row["pq"].iri, _written(row, row["q"], "qprecision", "qunit"))
            statements[key] = replace(known, qualifiers=tuple(dict.fromkeys((*known.qualifiers, more))))
    return list(dict.fromkeys(statements.values()))


def _written(row: _Row, cell: Cell, precision: str, unit: str) -> _Written:
    return _Written(cell, row.get(precision, Cell()).text, row.get(unit, Cell()).iri)


def _term(value: _Written, labels: KnownLabels) -> Term:
    """Return a readable value."""
    cell = value.cell
    if cell.iri:
        return labels.entity(cell.iri)
    kind = cell.datatype.rpartition("#")[2]
    if value.precision.isdecimal() and len(value.precision) < 3 and kind in _TIME_TYPES:
        return Term("", render_time(cell.text, int(value.precision), astronomical=True))
    text = render_literal(cell.text, cell.datatype)
    has_unit = value.unit and vocab.entity_id(value.unit) != _UNIT_ONE
    return Term("", f"{text} {labels.text(value.unit)}" if has_unit else text)


WIKIDATA_URL = "https://query.wikidata.org/sparql"


class SparqlEndpoint:
    """A graph behind a SPARQL endpoint.

    The wikidata `dialect` reads statements with precision, unit and qualifiers; for rdf every triple that is not a name
    is a fact. `seconds` limits look-ups of names.
    """

    kind = "sparql"
    remote = True
    cache_seconds = MAX_AGE_DAYS * 86_400

    def __init__(
        self,
        client: SparqlClient,
        *,
        dialect: queries.Dialect | None = None,
        languages: tuple[str, ...] = (),
        seconds: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self._client, self._seconds = client, seconds
        host = urlsplit(client.shown).hostname or ""
        self._dialect: queries.Dialect = dialect or ("wikidata" if host.endswith("wikidata.org") else "rdf")
        self._languages = languages or LANGUAGES
        self.identity = f"sparql:{client.shown}"
        self._labels = LabelLookup(client, self._languages, self._dialect)

    async def facts(
        self,
        entity: str,
        *,
        direction: Direction = "both",
        limit: int = DEFAULT_MAX_FACTS,
        seconds: float = DEFAULT_TIMEOUT_S,
    ) -> Neighbourhood:
        limit, budget, here = max(1, limit), TimeBudget(seconds), vocab.entity_iri(entity)
        statements: dict[Direction, list[_Statement]] = {"out": [], "in": []}
        complete = True
        sides: tuple[Direction, ...] = ("out", "in") if direction == "both" else (direction,)
        for side in sides:
            query = queries.facts_query(entity, side, self._dialect, limit + 1)
            rows = (await self._client.ask(query, budget, 10 * (limit + 1))).rows
            sources = {row["st"].iri if "st" in row else str(row) for row in rows}
            complete = complete and len(sources) <= limit and len(rows) < 10 * (limit + 1)
            # A fact about the entity itself comes from both sides.
            known = here if side == "in" and direction == "both" else ""
            statements[side] = _read_statements(rows, outward=side == "out", but=known)
        kept = half_of_each(statements["out"], statements["in"], limit)
        labels = await self._labels.of([here, *(iri for statement in kept for iri in statement.iris())], budget)
        here_term = Term(entity, labels.text(here))
        facts = [statement.fact(here_term, labels, self._client.shown) for statement in kept]
        facts.sort(key=lambda fact: (fact.subject.id != entity, fact.relation.text, fact.object.text, fact.text))
        complete = complete and len(kept) == sum(map(len, statements.values()))
        return Neighbourhood(Entity(entity, here_term.text), tuple(facts), complete)

    async def entities(self, name: str, *, limit: int = 10) -> tuple[Entity, ...]:
        name = " ".join(name.split())
        if not name or limit < 1:
            return ()
        query = queries.entities_query(name, self._languages, self._dialect, limit * 3)
        budget = TimeBudget(self._seconds)
        results = await self._client.ask(query, budget, limit * 3)
        by_label = {row["e"].iri: row.get("how", Cell()).text != "1" for row in reversed(results.rows) if "e" in row}
        named = await self._entities_of([iri for iri in by_label if queries.is_iri(iri)], budget)
        named.sort(key=lambda entity: (not by_label.get(vocab.entity_iri(entity.id), False), len(entity.id), entity.id))
        return tuple(sorted(named, key=lambda entity: fold(entity.label) != fold(name))[:limit])

    async def entity(self, identifier: str) -> Entity | None:
        entities = await self._entities_of([vocab.entity_iri(identifier)], TimeBudget(self._seconds))
        unnamed = vocab.readable_name(identifier)
        return next((entity for entity in entities if entity.aliases or entity.label != unnamed), None)

    async def _entities_of(self, iris: list[str], budget: TimeBudget) -> list[Entity]:
        if not iris:
            return []
        max_rows = len(iris) * _MAX_NAMES_PER_ENTITY * 5
        query = queries.names_query(iris, self._languages, all_names=True, limit=max_rows, dialect=self._dialect)
        results = await self._client.ask(query, budget, max_rows)
        return [self._entity(iri, results) for iri in iris]

    def _entity(self, iri: str, results: Results) -> Entity:
        names: dict[str, list[tuple[str, str]]] = {"0": [], "1": [], "2": [], "3": []}
        for row in results.rows:
            if row.get("e", Cell()).iri == iri and "name" in row:
                names.get(row.get("how", Cell()).text, []).append((row["name"].text, row["name"].language))
        label = best_name(names["0"], self._languages) or vocab.readable_name(vocab.entity_id(iri))
        others = tuple(dict.fromkeys(one_line(name) for name, _ in (*names["0"], *names["1"]) if name != label))
        description, page = (one_line(best_name(names[how], self._languages)) for how in "23")
        return Entity(vocab.entity_id(iri), label, others, description, page)

    async def properties(self) -> tuple[Property, ...]:
        query = queries.property_query(self._languages, self._dialect, MAX_PROPERTIES * 2)
        budget = TimeBudget(6 * DEFAULT_TIMEOUT_S)
        results = await self._client.ask(query, budget, MAX_PROPERTIES * 2)
        names: dict[str, list[tuple[str, str]]] = {}
        kinds: dict[str, str] = {}
        for row in results.rows:
            iri = row.get("e", Cell()).iri
            if iri and (self._dialect == "wikidata" or vocab.predicate_role(iri) == "fact"):
                name = row.get("name")
                names.setdefault(iri, []).extend([(name.text, name.language)] if name else [])
                kinds[iri] = row.get("kind", Cell()).iri.removeprefix(vocab.WIKIBASE)
        labels = await self._labels.of(names if self._dialect == "rdf" else (), budget)
        shown = {
            iri: best_name(names[iri], self._languages) or labels.text(iri) for iri in list(names)[:MAX_PROPERTIES]
        }
        return tuple(Property(vocab.property_id(iri), name, datatype=kinds[iri]) for iri, name in shown.items())

    async def query(self, sparql: str, *, limit: int = 1_000, seconds: float = DEFAULT_TIMEOUT_S) -> Table:
        """Run a query; if no time is left for labels, names are made of the ids."""
        budget = TimeBudget(seconds)
        results = await self._client.ask(queries.limit_rows(sparql, limit + 1), budget, limit + 1)
        kept = results.rows[:limit]
        iris = [cell.iri for row in kept for cell in row.values() if cell.iri]
        try:
            labels = await self._labels.of(iris, budget)
        except QueryTooLong:
            labels = self._labels.known(iris)
        rows = tuple(tuple(_value(row.get(name, Cell()), labels) for name in results.columns) for row in kept)
        return Table(results.columns, rows, len(results.rows) <= limit)

    async def stats(self) -> Stats:
        details = {"endpoint": self._client.shown, "dialect": self._dialect}
        try:
            results = await self._client.ask(queries.COUNT_QUERY, TimeBudget(DEFAULT_TIMEOUT_S), 1)
            count = results.rows[0].get("n", Cell()) if results.rows else Cell()
            details["triples"] = one_line(render_literal(count.text, count.datatype))
        except QueryTooLong:
            await self._client.reach(TimeBudget(DEFAULT_TIMEOUT_S))
            details["triples"] = "not counted: the endpoint takes too long for it"
        return Stats(0, 0, 0, (), details)

    async def aclose(self) -> None:
        await self._client.aclose()


def _value(cell: Cell, labels: KnownLabels) -> Value:
    shown = _term(_Written(cell), labels)
    return Value(shown.id, shown.text, cell.iri or cell.text, cell.datatype, cell.language)
