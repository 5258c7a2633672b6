"""From the rows of an endpoint's results to statements, before anybody knows what things in them are called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hoptree.graph.endpoint.labels import Called, carrier_of
from hoptree.graph.endpoint.results import Cell
from hoptree.graph.facts import Fact, Qualifier, Term
from hoptree.graph.rendering import text_of, time
from hoptree.graph.vocabulary import entity_id, role

__all__ = ["Statement", "Written", "half_each", "read_statements", "term"]

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
        yield carrier_of(self.predicate)
        yield from self.other.iris()
        for predicate, value in self.qualifiers:
            yield carrier_of(predicate)
            yield from value.iris()

    def fact(self, here: Term, called: Called, source: str) -> Fact:
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
        if role(predicate) not in ("fact", "value") or other is None or (but and other.iri == but):
            continue
        key = row["st"].iri if "st" in row else number
        known = found.setdefault(key, Statement(outward, predicate, _written(row, other, "precision", "unit")))
        if "pq" in row and "q" in row:
            more = (row["pq"].iri, _written(row, row["q"], "qprecision", "qunit"))
            found[key] = replace(known, qualifiers=tuple(dict.fromkeys((*known.qualifiers, more))))
    return list(dict.fromkeys(found.values()))


def _written(row: Row, cell: Cell, precision: str, unit: str) -> Written:
    return Written(cell, row.get(precision, Cell()).text, row.get(unit, Cell()).iri)


def term(value: Written, called: Called) -> Term:
    """A value as it is told."""
    cell = value.cell
    if cell.iri:
        return called.entity(cell.iri)
    kind = cell.datatype.rpartition("#")[2]
    if value.precision.isdecimal() and len(value.precision) < 3 and kind in _TIMES:
        return Term("", time(cell.text, int(value.precision), astronomical=True))
    text = text_of(cell.text, cell.datatype)
    return Term(
        "", f"{text} {called.text(value.unit)}" if value.unit and entity_id(value.unit) != _NUMBER_ONE else text
    )


def half_each(statements: Sequence[Statement], limit: int) -> list[Statement]:
    """At most `limit` statements, half of each direction where both have more."""
    out, into = [one for one in statements if one.outward], [one for one in statements if not one.outward]
    taken = out[: max(limit - len(into), (limit + 1) // 2)]
    return [*taken, *into[: limit - len(taken)]]
