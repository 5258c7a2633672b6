"""A knowledge graph behind a SPARQL endpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from hoptree.core.errors import QueryTooLong
from hoptree.core.http_cache import MAX_AGE_DAYS
from hoptree.graph.facts import (
    DEFAULT_MAX_FACTS,
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
)
from hoptree.graph.rendering import render_literal, render_time
from hoptree.graph.sparql_client import Cell, Results, SparqlClient, TimeBudget
from hoptree.graph.sparql_guard import limit_rows
from hoptree.graph.sparql_queries import (
    Dialect,
    KnownLabels,
    LabelLookup,
    count_query,
    entities_query,
    facts_query,
    is_iri,
    label_carrier,
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

_TIMES = ("dateTime", "date", "gYear", "gYearMonth")
_NUMBER_ONE = "Q199"
"""As a unit: there is none."""
Row = dict[str, Cell]


@dataclass(frozen=True, slots=True)
class Written:
    """A value with its precision and unit, where these are told."""

    cell: Cell
    precision: str = ""
    unit: str = ""

    def iris(self) -> Iterator[str]:
        yield from filter(None, (self.cell.iri, self.unit))


@dataclass(frozen=True, slots=True)
class Statement:
    """What is said of an entity, as the subject (`outward`) or as the object; qualifiers are properties and values."""

    outward: bool
    predicate: str
    other: Written
    qualifiers: tuple[tuple[str, Written], ...] = ()

    def iris(self) -> Iterator[str]:
        """All that has to have a label before the statement can be told."""
        yield label_carrier(self.predicate)
        yield from self.other.iris()
        for predicate, value in self.qualifiers:
            yield label_carrier(predicate)
            yield from value.iris()

    def fact(self, here: Term, called: KnownLabels, source: str) -> Fact:
        relation, other = called.property(self.predicate), term(self.other, called)
        qualifiers = [Qualifier(called.property(name), term(value, called)) for name, value in self.qualifiers]
        qualifiers.sort(key=lambda one: (one.relation.text, one.value.text))
        subject, value = (here, other) if self.outward else (other, here)
        return Fact(subject, relation, value, tuple(dict.fromkeys(qualifiers)), (source,))


def read_statements(rows: Iterable[Row], relation: str, *, outward: bool, but: str = "") -> list[Statement]:
    """Statements in the order they came, without those that have the entity `but` on the other side.

    `relation` is the predicate where the query named it. Rows of one statement are one with several qualifiers.
    """
    found: dict[object, Statement] = {}
    for number, row in enumerate(rows):
        predicate = row["p"].iri if "p" in row else relation
        other = row.get("v" if outward else "s")
        if predicate_role(predicate) not in ("fact", "value") or other is None or (but and other.iri == but):
            continue
        key = row["st"].iri if "st" in row else number
        known = found.setdefault(key, Statement(outward, predicate, _written(row, other, "precision", "unit")))
        if "pq" in row and "q" in row:
            more = (row["pq"].iri, _written(row, row["q"], "qprecision", "qunit"))
            found[key] = replace(known, qualifiers=tuple(dict.fromkeys((*known.qualifiers, more))))
    return list(dict.fromkeys(found.values()))


def _written(row: Row, cell: Cell, precision: str, unit: str) -> Written:
    return Written(cell, row.get(precision, Cell()).text, row.get(unit, Cell()).iri)


def term(value: Written, called: KnownLabels) -> Term:
    """A value as it is told."""
    cell = value.cell
    if cell.iri:
        return called.entity(cell.iri)
    kind = cell.datatype.rpartition("#")[2]
    if value.precision.isdecimal() and len(value.precision) < 3 and kind in _TIMES:
        return Term("", render_time(cell.text, int(value.precision), astronomical=True))
    text = render_literal(cell.text, cell.datatype)
    return Term(
        "", f"{text} {called.text(value.unit)}" if value.unit and entity_id(value.unit) != _NUMBER_ONE else text
    )


def half_each(statements: Sequence[Statement], limit: int) -> list[Statement]:
    """At most `limit` statements, half of each direction where both have more."""
    out, into = [one for one in statements if one.outward], [one for one in statements if not one.outward]
    taken = out[: max(limit - len(into), (limit + 1) // 2)]
    return [*taken, *into[: limit - len(taken)]]


WIKIDATA_URL = "https://query.wikidata.org/sparql"
_NAMES_EACH = 20


class SparqlEndpoint:
    """Facts and names by queries. `dialect` wikidata reads statements with precision, unit and qualifiers; rdf takes
    every triple that is no name for a fact. `seconds` bound look-ups of names, as theirs do those of facts."""

    kind = "sparql"
    remote = True
    lasts = MAX_AGE_DAYS * 86_400

    def __init__(
        self,
        asking: SparqlClient,
        *,
        dialect: Dialect | None = None,
        languages: tuple[str, ...] = (),
        seconds: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self._asking, self._seconds = asking, seconds
        host = urlsplit(asking.shown).hostname or ""
        self._dialect: Dialect = dialect or ("wikidata" if host.endswith("wikidata.org") else "rdf")
        self._languages = languages or LANGUAGES
        self.identity = f"sparql:{asking.shown}"
        self._labels = LabelLookup(asking, self._languages, self._dialect)

    async def facts(
        self,
        entity: str,
        *,
        direction: Direction = "both",
        relation: str = "",
        limit: int = DEFAULT_MAX_FACTS,
        seconds: float = DEFAULT_TIMEOUT_S,
    ) -> Neighbourhood:
        limit, allowed, here = max(1, limit), TimeBudget(seconds), entity_iri(entity)
        predicate = property_iri(relation) if relation else ""
        found: list[Statement] = []
        complete = True
        sides: tuple[Direction, ...] = ("out", "in") if direction == "both" else (direction,)
        for side in sides:
            query = facts_query(entity, relation, side, self._dialect, limit + 1)
            rows = (await self._asking.ask(query, allowed, 10 * (limit + 1))).rows
            sources = {row["st"].iri if "st" in row else str(row) for row in rows}
            complete = complete and len(sources) <= limit and len(rows) < 10 * (limit + 1)
            # What the entity says of itself is found from both sides.
            known = here if side == "in" and direction == "both" else ""
            found += read_statements(rows, predicate, outward=side == "out", but=known)
        kept = half_each(found, limit)
        called = await self._labels.of([here, *(iri for one in kept for iri in one.iris())], allowed)
        told = Term(entity, called.text(here))
        facts = [one.fact(told, called, self._asking.shown) for one in kept]
        facts.sort(key=lambda fact: (fact.subject.id != entity, fact.relation.text, fact.object.text, fact.text))
        return Neighbourhood(Entity(entity, told.text), tuple(facts), complete and len(kept) == len(found))

    async def entities(self, name: str, *, limit: int = 10) -> tuple[Entity, ...]:
        name = " ".join(name.split())
        if not name or limit < 1:
            return ()
        query = entities_query(name, self._languages, self._dialect, limit * 3)
        allowed = TimeBudget(self._seconds)
        found = await self._asking.ask(query, allowed, limit * 3)
        by_label = {row["e"].iri: row.get("how", Cell()).text != "1" for row in reversed(found.rows) if "e" in row}
        named = await self._named([iri for iri in by_label if is_iri(iri)], allowed)
        named.sort(key=lambda entity: (not by_label.get(entity_iri(entity.id), False), len(entity.id), entity.id))
        return tuple(sorted(named, key=lambda entity: fold(entity.label) != fold(name))[:limit])

    async def entity(self, identifier: str) -> Entity | None:
        found = await self._named([entity_iri(identifier)], TimeBudget(self._seconds))
        return found[0] if found and (found[0].aliases or found[0].label != readable_name(identifier)) else None

    async def _named(self, iris: list[str], allowed: TimeBudget) -> list[Entity]:
        if not iris:
            return []
        most = len(iris) * _NAMES_EACH * 5
        query = names_query(iris, self._languages, all_names=True, limit=most, dialect=self._dialect)
        found = await self._asking.ask(query, allowed, most)
        return [self._entity(iri, found) for iri in iris]

    def _entity(self, iri: str, found: Results) -> Entity:
        names: dict[str, list[tuple[str, str]]] = {"0": [], "1": [], "2": [], "3": []}
        for row in found.rows:
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
        allowed = TimeBudget(6 * DEFAULT_TIMEOUT_S)
        found = await self._asking.ask(query, allowed, limit * 2)
        names: dict[str, list[tuple[str, str]]] = {}
        kinds: dict[str, str] = {}
        for row in found.rows:
            iri = row.get("e", Cell()).iri
            if iri and (self._dialect == "wikidata" or predicate_role(iri) == "fact"):
                name = row.get("name")
                names.setdefault(iri, []).extend([(name.text, name.language)] if name else [])
                kinds[iri] = row.get("kind", Cell()).iri.removeprefix(WIKIBASE)
        some = list(names.items())[:limit]
        called = await self._labels.of(names if self._dialect == "rdf" else (), allowed)
        return tuple(
            Property(property_id(iri), best_name(said, self._languages) or called.text(iri), datatype=kinds[iri])
            for iri, said in some
        )

    async def query(self, sparql: str, *, limit: int = 1_000, seconds: float = DEFAULT_TIMEOUT_S) -> Table:
        """As the Protocol says; where there is no time left for labels, rows are told with names made of the ids."""
        allowed = TimeBudget(seconds)
        found = await self._asking.ask(limit_rows(sparql, limit + 1), allowed, limit + 1)
        kept = found.rows[:limit]
        iris = [cell.iri for row in kept for cell in row.values() if cell.iri]
        try:
            called = await self._labels.of(iris, allowed)
        except QueryTooLong:
            called = self._labels.known(iris)
        rows = tuple(tuple(_value(row.get(name, Cell()), called) for name in found.columns) for row in kept)
        return Table(found.columns, rows, len(found.rows) <= limit)

    async def stats(self) -> Stats:
        details = {"endpoint": self._asking.shown, "dialect": self._dialect}
        try:
            found = await self._asking.ask(count_query(), TimeBudget(DEFAULT_TIMEOUT_S), 1)
            details["triples"] = (
                render_literal(found.rows[0]["n"].text, found.rows[0]["n"].datatype) if found.rows else ""
            )
        except QueryTooLong:
            await self._asking.reach(TimeBudget(DEFAULT_TIMEOUT_S))
            details["triples"] = "not counted: the endpoint takes too long for it"
        return Stats(0, 0, 0, (), details)

    async def aclose(self) -> None:
        await self._asking.aclose()


def _value(cell: Cell, called: KnownLabels) -> Value:
    told = term(Written(cell), called)
    return Value(told.id, told.text, cell.iri or cell.text, cell.datatype, cell.language)
