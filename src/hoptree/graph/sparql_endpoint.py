"""A knowledge graph behind a SPARQL endpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from hoptree.core.errors import QueryTooLong
from hoptree.core.public_http import MAX_AGE_DAYS
from hoptree.core.values import DEFAULT_MAX_FACTS
from hoptree.graph.facts import (
    DEFAULT_TIMEOUT_S,
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
    render_literal,
    render_time,
)
from hoptree.graph.sparql_client import Cell, Results, SparqlClient, TimeBudget
from hoptree.graph.sparql_queries import (
    COUNT_QUERY,
    Dialect,
    KnownLabels,
    LabelLookup,
    entities_query,
    facts_query,
    is_iri,
    label_carrier,
    limit_rows,
    names_query,
    property_query,
)
from hoptree.graph.vocabulary import (
    WIKIBASE,
    entity_id,
    entity_iri,
    predicate_role,
    property_id,
    property_iri,
    readable_name,
)
from hoptree.text.names import LANGUAGES, best_name, fold

_TIME_TYPES = ("dateTime", "date", "gYear", "gYearMonth")
_UNIT_ONE = "Q199"
"""The unit of plain numbers."""
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


def _read_statements(rows: Iterable[_Row], relation: str, *, outward: bool, but: str = "") -> list[_Statement]:
    """Read statements, but for those with the entity `but` on the other side."""
    statements: dict[object, _Statement] = {}
    for number, row in enumerate(rows):
        predicate = row["p"].iri if "p" in row else relation
        other = row.get("v" if outward else "s")
        if predicate_role(predicate) not in ("fact", "value") or other is None or (but and other.iri == but):
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
    """Return a value for people."""
    cell = value.cell
    if cell.iri:
        return labels.entity(cell.iri)
    kind = cell.datatype.rpartition("#")[2]
    if value.precision.isdecimal() and len(value.precision) < 3 and kind in _TIME_TYPES:
        return Term("", render_time(cell.text, int(value.precision), astronomical=True))
    text = render_literal(cell.text, cell.datatype)
    return Term("", f"{text} {labels.text(value.unit)}" if value.unit and entity_id(value.unit) != _UNIT_ONE else text)


def _half_each(statements: Sequence[_Statement], limit: int) -> list[_Statement]:
    """Return at most `limit` statements, half of each direction if both have more."""
    out = [statement for statement in statements if statement.outward]
    into = [statement for statement in statements if not statement.outward]
    taken = out[: max(limit - len(into), (limit + 1) // 2)]
    return [*taken, *into[: limit - len(taken)]]


WIKIDATA_URL = "https://query.wikidata.org/sparql"
_MAX_NAMES_PER_ENTITY = 20


class SparqlEndpoint:
    """A graph behind a SPARQL endpoint.

    The wikidata `dialect` reads statements with precision, unit and qualifiers; for rdf every triple that is no name is
    a fact. `seconds` limits look-ups of names.
    """

    kind = "sparql"
    remote = True
    lasts = MAX_AGE_DAYS * 86_400

    def __init__(
        self,
        client: SparqlClient,
        *,
        dialect: Dialect | None = None,
        languages: tuple[str, ...] = (),
        seconds: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self._client, self._seconds = client, seconds
        host = urlsplit(client.shown).hostname or ""
        self._dialect: Dialect = dialect or ("wikidata" if host.endswith("wikidata.org") else "rdf")
        self._languages = languages or LANGUAGES
        self.identity = f"sparql:{client.shown}"
        self._labels = LabelLookup(client, self._languages, self._dialect)

    async def facts(
        self,
        entity: str,
        *,
        direction: Direction = "both",
        relation: str = "",
        limit: int = DEFAULT_MAX_FACTS,
        seconds: float = DEFAULT_TIMEOUT_S,
    ) -> Neighbourhood:
        limit, budget, here = max(1, limit), TimeBudget(seconds), entity_iri(entity)
        predicate = property_iri(relation) if relation else ""
        statements: list[_Statement] = []
        complete = True
        sides: tuple[Direction, ...] = ("out", "in") if direction == "both" else (direction,)
        for side in sides:
            query = facts_query(entity, relation, side, self._dialect, limit + 1)
            rows = (await self._client.ask(query, budget, 10 * (limit + 1))).rows
            sources = {row["st"].iri if "st" in row else str(row) for row in rows}
            complete = complete and len(sources) <= limit and len(rows) < 10 * (limit + 1)
            # A fact about the entity itself comes from both sides.
            known = here if side == "in" and direction == "both" else ""
            statements += _read_statements(rows, predicate, outward=side == "out", but=known)
        kept = _half_each(statements, limit)
        labels = await self._labels.of([here, *(iri for statement in kept for iri in statement.iris())], budget)
        here_term = Term(entity, labels.text(here))
        facts = [statement.fact(here_term, labels, self._client.shown) for statement in kept]
        facts.sort(key=lambda fact: (fact.subject.id != entity, fact.relation.text, fact.object.text, fact.text))
        return Neighbourhood(Entity(entity, here_term.text), tuple(facts), complete and len(kept) == len(statements))

    async def entities(self, name: str, *, limit: int = 10) -> tuple[Entity, ...]:
        name = " ".join(name.split())
        if not name or limit < 1:
            return ()
        query = entities_query(name, self._languages, self._dialect, limit * 3)
        budget = TimeBudget(self._seconds)
        results = await self._client.ask(query, budget, limit * 3)
        by_label = {row["e"].iri: row.get("how", Cell()).text != "1" for row in reversed(results.rows) if "e" in row}
        named = await self._entities_of([iri for iri in by_label if is_iri(iri)], budget)
        named.sort(key=lambda entity: (not by_label.get(entity_iri(entity.id), False), len(entity.id), entity.id))
        return tuple(sorted(named, key=lambda entity: fold(entity.label) != fold(name))[:limit])

    async def entity(self, identifier: str) -> Entity | None:
        entities = await self._entities_of([entity_iri(identifier)], TimeBudget(self._seconds))
        unnamed = readable_name(identifier)
        return next((entity for entity in entities if entity.aliases or entity.label != unnamed), None)

    async def _entities_of(self, iris: list[str], budget: TimeBudget) -> list[Entity]:
        if not iris:
            return []
        max_rows = len(iris) * _MAX_NAMES_PER_ENTITY * 5
        query = names_query(iris, self._languages, all_names=True, limit=max_rows, dialect=self._dialect)
        results = await self._client.ask(query, budget, max_rows)
        return [self._entity(iri, results) for iri in iris]

    def _entity(self, iri: str, results: Results) -> Entity:
        names: dict[str, list[tuple[str, str]]] = {"0": [], "1": [], "2": [], "3": []}
        for row in results.rows:
            if row.get("e", Cell()).iri == iri and "name" in row:
                names.get(row.get("how", Cell()).text, []).append((row["name"].text, row["name"].language))
        label = best_name(names["0"], self._languages) or readable_name(entity_id(iri))
        others = tuple(dict.fromkeys(name for name, _ in (*names["0"], *names["1"]) if name != label))
        description, page = (best_name(names[how], self._languages) for how in "23")
        return Entity(entity_id(iri), label, others, description, page)

    async def label(self, identifier: str) -> str:
        iri = entity_iri(identifier)
        return (await self._labels.of([iri], TimeBudget(self._seconds))).text(iri)

    async def properties(self, *, limit: int = 20_000) -> tuple[Property, ...]:
        query = property_query(self._languages, self._dialect, limit * 2)
        budget = TimeBudget(6 * DEFAULT_TIMEOUT_S)
        results = await self._client.ask(query, budget, limit * 2)
        names: dict[str, list[tuple[str, str]]] = {}
        kinds: dict[str, str] = {}
        for row in results.rows:
            iri = row.get("e", Cell()).iri
            if iri and (self._dialect == "wikidata" or predicate_role(iri) == "fact"):
                name = row.get("name")
                names.setdefault(iri, []).extend([(name.text, name.language)] if name else [])
                kinds[iri] = row.get("kind", Cell()).iri.removeprefix(WIKIBASE)
        labels = await self._labels.of(names if self._dialect == "rdf" else (), budget)
        return tuple(
            Property(property_id(iri), best_name(spellings, self._languages) or labels.text(iri), datatype=kinds[iri])
            for iri, spellings in list(names.items())[:limit]
        )

    async def query(self, sparql: str, *, limit: int = 1_000, seconds: float = DEFAULT_TIMEOUT_S) -> Table:
        """Run a query; if no time is left for labels, names are made of the ids."""
        budget = TimeBudget(seconds)
        results = await self._client.ask(limit_rows(sparql, limit + 1), budget, limit + 1)
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
            results = await self._client.ask(COUNT_QUERY, TimeBudget(DEFAULT_TIMEOUT_S), 1)
            details["triples"] = (
                render_literal(results.rows[0]["n"].text, results.rows[0]["n"].datatype) if results.rows else ""
            )
        except QueryTooLong:
            await self._client.reach(TimeBudget(DEFAULT_TIMEOUT_S))
            details["triples"] = "not counted: the endpoint takes too long for it"
        return Stats(0, 0, 0, (), details)

    async def aclose(self) -> None:
        await self._client.aclose()


def _value(cell: Cell, labels: KnownLabels) -> Value:
    shown = _term(_Written(cell), labels)
    return Value(shown.id, shown.text, cell.iri or cell.text, cell.datatype, cell.language)
