"""A knowledge graph behind a SPARQL endpoint."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from hoptree.graph.endpoint.asking import Asking
from hoptree.graph.endpoint.queries import (
    Dialect,
    count_query,
    entities_query,
    facts_query,
    names_query,
    property_query,
)
from hoptree.graph.endpoint.results import Cell, Results
from hoptree.graph.errors import QueryTooLong
from hoptree.graph.facts import (
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
from hoptree.graph.knowledge import FACTS, SECONDS
from hoptree.graph.naming import LANGUAGES, best_name, fold
from hoptree.graph.own_queries import bounded
from hoptree.graph.rendering import text_of, time
from hoptree.graph.vocabulary import (
    WIKIBASE,
    WIKIDATA,
    entity_id,
    entity_iri,
    property_entity,
    property_id,
    property_iri,
    readable,
    role,
)

__all__ = ["WIKIDATA_URL", "SparqlEndpoint"]

WIKIDATA_URL = "https://query.wikidata.org/sparql"
_AT_ONCE = 150
"""Things whose labels one query asks for."""
_NAMES_EACH = 20
_REMEMBERED = 50_000
_TIMES = ("dateTime", "date", "gYear", "gYearMonth")


class SparqlEndpoint:
    """Facts and names by queries. `dialect` wikidata reads statements with precision, unit and qualifiers; rdf takes
    every triple that is no name for a fact. `seconds` bound the requests for names."""

    kind = "sparql"
    remote = True

    def __init__(
        self,
        asking: Asking,
        *,
        dialect: Dialect | None = None,
        languages: tuple[str, ...] = (),
        seconds: float = SECONDS,
    ) -> None:
        self._asking, self._seconds = asking, seconds
        host = urlsplit(asking.shown).hostname or ""
        self._dialect: Dialect = dialect or ("wikidata" if host.endswith("wikidata.org") else "rdf")
        self._languages = languages or LANGUAGES
        self.identity = f"sparql:{asking.shown}"
        self._labels: dict[str, str] = {}

    async def facts(
        self,
        entity: str,
        *,
        direction: Direction = "both",
        relation: str = "",
        limit: int = FACTS,
        seconds: float = SECONDS,
    ) -> Neighbourhood:
        limit = max(1, limit)
        asked_for = [property_entity(property_id(property_iri(relation)))] if relation else []
        rows: list[tuple[bool, dict[str, Cell]]] = []
        complete = True
        sides: tuple[Direction, ...] = ("out", "in") if direction == "both" else (direction,)
        for side in sides:
            query = facts_query(entity, relation, side, self._dialect, limit + 1)
            found = await self._asking.ask(query, seconds, 10 * (limit + 1))
            sources = {row["st"].iri if "st" in row else str(row) for row in found.rows}
            complete = complete and len(sources) <= limit and len(found.rows) < 10 * (limit + 1)
            rows += [(side == "out", row) for row in found.rows]
        await self._learn([*asked_for, *_iris(rows, entity)], seconds)
        facts = self._facts(rows, entity, relation)
        kept = _half_each(facts, limit)
        label = self._called(entity_iri(entity))
        return Neighbourhood(Entity(entity, label), kept, complete and len(kept) == len(facts))

    def _facts(self, rows: list[tuple[bool, dict[str, Cell]]], entity: str, relation: str) -> list[tuple[bool, Fact]]:
        """Facts in the order they came; rows of one statement are one fact with several qualifiers."""
        here = Term(entity, self._called(entity_iri(entity)))
        collected: dict[object, tuple[bool, Fact]] = {}
        for number, (outward, row) in enumerate(rows):
            predicate = row["p"].iri if "p" in row else property_iri(relation)
            if role(predicate) not in ("fact", "value") or ("v" if outward else "s") not in row:
                continue
            identifier = property_id(predicate)
            told = Term(identifier, self._called(property_entity(identifier)))
            key = row["st"].iri if "st" in row else number
            other = self._term(row["v" if outward else "s"], row.get("precision"), row.get("unit"))
            fact = Fact(here, told, other) if outward else Fact(other, told, here)
            known = collected.get(key, (outward, fact))[1].qualifiers
            more = self._qualifier(row)
            qualifiers = known if more is None or more in known else (*known, more)
            ordered = tuple(sorted(qualifiers, key=lambda one: (one.relation.text, one.value.text)))
            source = (self._asking.shown,)
            collected[key] = (outward, Fact(fact.subject, told, fact.object, ordered, source))
        return list(dict.fromkeys(collected.values()))

    def _qualifier(self, row: dict[str, Cell]) -> Qualifier | None:
        if "pq" not in row or "q" not in row:
            return None
        identifier = property_id(row["pq"].iri)
        name = Term(identifier, self._called(property_entity(identifier)))
        return Qualifier(name, self._term(row["q"], row.get("qprecision"), row.get("qunit")))

    def _term(self, cell: Cell, precision: Cell | None = None, unit: Cell | None = None) -> Term:
        if cell.iri:
            return Term(entity_id(cell.iri), self._called(cell.iri))
        kind = cell.datatype.rpartition("#")[2]
        if precision and precision.text.isdecimal() and len(precision.text) < 3 and kind in _TIMES:
            return Term("", time(cell.text, int(precision.text), astronomical=True))
        text = text_of(cell.text, cell.datatype)
        if unit and unit.iri and entity_id(unit.iri) != "Q199":  # Q199 is "1": a mere number
            text = f"{text} {self._called(unit.iri)}"
        return Term("", text)

    async def entities(self, name: str, *, limit: int = 10) -> tuple[Entity, ...]:
        name = " ".join(name.split())
        if not name or limit < 1:
            return ()
        query = entities_query(name, self._languages, self._dialect, limit * 3)
        found = await self._asking.ask(query, self._seconds, limit * 3)
        by_label = {row["e"].iri: row.get("how", Cell()).text != "1" for row in reversed(found.rows) if "e" in row}
        named = await self._named([iri for iri in by_label if _askable(iri)])
        named.sort(key=lambda entity: (not by_label.get(entity_iri(entity.id), False), len(entity.id), entity.id))
        return tuple(sorted(named, key=lambda entity: fold(entity.label) != fold(name))[:limit])

    async def entity(self, identifier: str) -> Entity | None:
        found = await self._named([entity_iri(identifier)])
        return found[0] if found and (found[0].aliases or found[0].label != readable(identifier)) else None

    async def _named(self, iris: list[str]) -> list[Entity]:
        if not iris:
            return []
        most = len(iris) * _NAMES_EACH * 5
        query = names_query(iris, self._languages, all_names=True, limit=most)
        found = await self._asking.ask(query, self._seconds, most)
        return [self._entity(iri, found) for iri in iris]

    def _entity(self, iri: str, found: Results) -> Entity:
        names: dict[str, list[tuple[str, str]]] = {"0": [], "1": [], "2": []}
        for row in found.rows:
            if row.get("e", Cell()).iri == iri and "name" in row:
                names.get(row.get("how", Cell()).text, []).append((row["name"].text, row["name"].language))
        label = best_name(names["0"], self._languages) or readable(entity_id(iri))
        others = tuple(dict.fromkeys(name for name, _ in (*names["0"], *names["1"]) if name != label))
        return Entity(entity_id(iri), label, others, best_name(names["2"], self._languages))

    async def label(self, identifier: str) -> str:
        iri = entity_iri(identifier)
        await self._learn([iri], self._seconds)
        return self._called(iri)

    def _called(self, iri: str) -> str:
        return self._labels.get(iri) or readable(entity_id(iri))

    async def _learn(self, iris: Iterable[str], seconds: float) -> None:
        """Ask for the labels of what has none yet, many at once."""
        if len(self._labels) > _REMEMBERED:
            self._labels.clear()
        missing = [iri for iri in dict.fromkeys(iris) if iri not in self._labels and _askable(iri)]
        for start in range(0, len(missing), _AT_ONCE):
            some = missing[start : start + _AT_ONCE]
            most = len(some) * _NAMES_EACH
            query = names_query(some, self._languages, all_names=False, limit=most)
            found = await self._asking.ask(query, seconds, most)
            said: dict[str, list[tuple[str, str]]] = {iri: [] for iri in some}
            for row in found.rows:
                if "e" in row and "name" in row:
                    said.setdefault(row["e"].iri, []).append((row["name"].text, row["name"].language))
            self._labels |= {iri: best_name(names, self._languages) for iri, names in said.items()}

    async def properties(self, *, limit: int = 20_000) -> tuple[Property, ...]:
        query = property_query(self._languages, self._dialect, limit * 2)
        found = await self._asking.ask(query, 6 * SECONDS, limit * 2)
        names: dict[str, list[tuple[str, str]]] = {}
        kinds: dict[str, str] = {}
        for row in found.rows:
            iri = row.get("e", Cell()).iri
            if iri and (self._dialect == "wikidata" or role(iri) == "fact"):
                name = row.get("name")
                names.setdefault(iri, []).extend([(name.text, name.language)] if name else [])
                kinds[iri] = row.get("kind", Cell()).iri.removeprefix(WIKIBASE)
        if self._dialect == "rdf":
            await self._learn(names, SECONDS)
        return tuple(
            Property(property_id(iri), best_name(said, self._languages) or self._called(iri), datatype=kinds[iri])
            for iri, said in list(names.items())[:limit]
        )

    async def query(self, sparql: str, *, limit: int = 1_000, seconds: float = SECONDS) -> Table:
        found = await self._asking.ask(bounded(sparql, limit + 1), seconds, limit + 1)
        await self._learn((cell.iri for row in found.rows for cell in row.values() if cell.iri), seconds)
        rows = [tuple(self._value(row.get(name, Cell())) for name in found.columns) for row in found.rows]
        return Table(found.columns, tuple(rows[:limit]), len(rows) <= limit)

    def _value(self, cell: Cell) -> Value:
        term = self._term(cell)
        return Value(term.id, term.text, cell.iri or cell.text, cell.datatype, cell.language)

    async def stats(self) -> Stats:
        details = {"endpoint": self._asking.shown, "dialect": self._dialect}
        try:
            found = await self._asking.ask(count_query(), SECONDS, 1)
            details["triples"] = text_of(found.rows[0]["n"].text, found.rows[0]["n"].datatype) if found.rows else ""
        except QueryTooLong:
            details["triples"] = "not counted: the endpoint takes too long for it"
        return Stats(0, 0, 0, (), details)

    async def aclose(self) -> None:
        await self._asking.aclose()


def _iris(rows: list[tuple[bool, dict[str, Cell]]], entity: str) -> list[str]:
    found = [entity_iri(entity)]
    for _, row in rows:
        for name, cell in row.items():
            if name in ("p", "pq") and role(cell.iri) in ("fact", "value", "qualifier"):
                found.append(property_entity(property_id(cell.iri)))
            elif name in ("s", "v", "q", "unit", "qunit") and cell.iri:
                found.append(cell.iri)
    return found


def _askable(iri: str) -> bool:
    """Whether a thing may have a label: pages and files have none, and cost a look each."""
    return iri.startswith(WIKIDATA) or not iri.lower().endswith((".jpg", ".png", ".svg", ".html"))


def _half_each(facts: list[tuple[bool, Fact]], limit: int) -> tuple[Fact, ...]:
    out, into = [fact for outward, fact in facts if outward], [fact for outward, fact in facts if not outward]
    room = max(limit - len(into), (limit + 1) // 2)
    taken = out[:room]
    kept = [*taken, *into[: limit - len(taken)]]
    return tuple(sorted(kept, key=lambda fact: (fact not in out, fact.relation.text, fact.object.text, fact.text)))
