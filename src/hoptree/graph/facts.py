"""Values of a knowledge graph, its Protocol, and rendering of literals."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from hoptree.core.lazy import lazy_re
from hoptree.core.values import DEFAULT_MAX_FACTS
from hoptree.text.quantities import MONTHS

Direction = Literal["both", "out", "in"]
T = TypeVar("T")
_MAX_TEXT_CHARS = 20_000  # of a term, as of a passage in a method
_CONTROL = lazy_re("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


def one_line(text: str) -> str:
    """Return a text without what could forge a line or command a terminal.

    Its author is unknown; programs get the original value in the rows of a query.
    """
    if len(text) > _MAX_TEXT_CHARS:
        text = f"{text[:_MAX_TEXT_CHARS]}…"
    return text if text.isprintable() else _CONTROL.sub(" ", text).strip()


@dataclass(frozen=True, slots=True)
class Term:
    """A subject, relation or object: readable text and id ("" for literals)."""

    id: str
    text: str

    def __post_init__(self) -> None:
        if not self.text.isprintable() or len(self.text) > _MAX_TEXT_CHARS:
            object.__setattr__(self, "text", one_line(self.text))


class _Named:
    """Keeps label and description on one line."""

    __slots__ = ()
    label: str
    description: str

    def __post_init__(self) -> None:
        for name in ("label", "description"):
            object.__setattr__(self, name, one_line(getattr(self, name)))


@dataclass(frozen=True, slots=True)
class Entity(_Named):
    """An entity; `page` is the title of its Wikipedia article, if known."""

    id: str
    label: str
    aliases: tuple[str, ...] = ()
    description: str = ""
    page: str = ""


@dataclass(frozen=True, slots=True)
class Property(_Named):
    """A relation; `facts` counts the facts that use it, if the graph counts them."""

    id: str
    label: str
    aliases: tuple[str, ...] = ()
    description: str = ""
    datatype: str = ""
    facts: int = 0


@dataclass(frozen=True, slots=True)
class Qualifier:
    """A restriction of a fact: its time, role or source."""

    relation: Term
    value: Term


@dataclass(frozen=True, slots=True)
class Fact:
    """A statement, readable and with ids; `sources` names where it was loaded from."""

    subject: Term
    relation: Term
    object: Term
    qualifiers: tuple[Qualifier, ...] = ()
    sources: tuple[str, ...] = ()

    @property
    def triple(self) -> tuple[str, str, str]:
        return self.subject.text, self.relation.text, self.object.text

    @property
    def text(self) -> str:
        """The fact in one line, with its qualifiers."""
        restricted = "; ".join(f"{qualifier.relation.text}: {qualifier.value.text}" for qualifier in self.qualifiers)
        return " | ".join(self.triple) + (f" ({restricted})" if restricted else "")

    def as_dict(self) -> dict[str, Any]:
        """Return the fact for JSON without empty fields."""
        row: dict[str, Any] = {"s": self.subject.text, "p": self.relation.text, "o": self.object.text}
        ids = {"s_id": self.subject.id, "p_id": self.relation.id, "o_id": self.object.id}
        row |= {name: value for name, value in ids.items() if value}
        if self.qualifiers:
            row["qualifiers"] = [[pair.relation.text, pair.value.text] for pair in self.qualifiers]
        return row | ({"src": list(self.sources)} if self.sources else {})


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The facts around an entity; `complete` unless cut off."""

    entity: Entity
    facts: tuple[Fact, ...]
    complete: bool = True


@dataclass(frozen=True, slots=True)
class SourceCount:
    """Facts and names (labels, aliases, descriptions) of one source."""

    name: str
    facts: int
    names: int


@dataclass(frozen=True, slots=True)
class Stats:
    """Size of a graph; a fact of two sources counts twice. `details` is for people."""

    facts: int
    names: int
    properties: int
    sources: tuple[SourceCount, ...] = ()
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Value:
    """A cell of a table: `id` and `text` to read, and the exact value."""

    id: str = ""
    text: str = ""
    value: str = ""
    datatype: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """The result of a query; `complete` is false if the limit cut rows off."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    complete: bool = True


def half_of_each(outward: Sequence[T], inward: Sequence[T], limit: int) -> list[T]:
    """Return at most `limit` items, half of each direction if both have more."""
    taken = outward[: max(limit - len(inward), (limit + 1) // 2)]
    return [*taken, *inward[: limit - len(taken)]]


DEFAULT_TIMEOUT_S = 10.0
MAX_PROPERTIES = 20_000


class KnowledgeGraph(Protocol):
    """Facts, names and counts. Every query is limited in rows and seconds.

    `identity` names all that determines its answers; `remote` says that they come over a network and are worth caching.
    """

    kind: str
    remote: bool
    identity: str

    async def facts(
        self,
        entity: str,
        *,
        direction: Direction = "both",
        limit: int = DEFAULT_MAX_FACTS,
        seconds: float = DEFAULT_TIMEOUT_S,
    ) -> Neighbourhood:
        """Return facts with this entity as subject, object, or both."""

    async def entities(self, name: str, *, limit: int = 10) -> tuple[Entity, ...]:
        """Return the entities with this label or alias, best first, ignoring case."""

    async def entity(self, identifier: str) -> Entity | None:
        """Return the entity of an id; None if it is unknown."""

    async def properties(self) -> tuple[Property, ...]:
        """Return up to MAX_PROPERTIES relations, the most used first if counted."""

    async def query(self, sparql: str, *, limit: int = 1_000, seconds: float = DEFAULT_TIMEOUT_S) -> Table:
        """Run a user's SPARQL query (SELECT or ASK)."""

    async def stats(self) -> Stats: ...

    async def aclose(self) -> None: ...


OnIndexing = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entity that may be meant; `score` (0 to 1) is its fit."""

    entity: Entity
    score: float


class Candidates(Protocol):
    """Finds the entities that a name or a text may mean."""

    async def of_mention(self, mention: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        """Return the entities of a name, exact or similar."""

    async def of_text(self, text: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        """Return the entities of all names in a text."""


@runtime_checkable
class NamesIndexed(Protocol):
    """A graph with an index of names; `on_indexing` gets how many of how many."""

    on_indexing: OnIndexing

    def candidates(self) -> Candidates: ...


XSD = "http://www.w3.org/2001/XMLSchema#"
BOOLEAN = f"{XSD}boolean"
WKT = "http://www.opengis.net/ont/geosparql#wktLiteral"
TIME = "urn:hoptree:time"  # datatype of Wikidata's times with precision: +1969-07-20T00:00:00Z/11
QUANTITY = "urn:hoptree:quantity"  # datatype of amounts with the id of their unit: +8848.86 Q11573
DAY, _MONTH, _YEAR, _DECADE, _CENTURY, _MILLENNIUM = 11, 10, 9, 8, 7, 6
_SECOND = 14
_DATE = lazy_re(
    r"([+-]?)(\d{1,16})(?:-(\d\d)(?:-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?)?)?)?(?:Z|[+-]\d\d:\d\d)?", re.ASCII
)
_POINT = lazy_re(r"(?:<[^>]*>\s*)?POINT\s*\(\s*([+-]?[\d.]+)\s+([+-]?[\d.]+)\s*\)", re.ASCII | re.IGNORECASE)
_MAX_NUMBER_CHARS = 60
_COMMAS_FROM = 10_000


def render_literal(value: str, datatype: str = "", unit: str = "") -> str:
    """Render a literal of a datatype (an IRI), or return it as is.

    Wikidata's truthy dumps give years as their first of January, so a first of January is rendered as the year.
    """
    kind = datatype.removeprefix(XSD)
    if datatype == TIME:
        moment, _, precision = value.partition("/")
        return render_time(moment, int(precision) if precision.isdecimal() and len(precision) < 3 else None)
    if datatype == QUANTITY:
        return render_quantity(value.partition(" ")[0], unit)
    if datatype == WKT:
        return render_coordinates(value)
    if kind == datatype:
        return value
    if kind in ("dateTime", "date", "gYear", "gYearMonth", "dateTimeStamp"):
        year_only = kind in ("dateTime", "dateTimeStamp") and re.search(r"-01-01T00:00:00", value)
        return render_time(value, _YEAR if year_only else None, astronomical=True)
    if kind in ("decimal", "integer", "double", "float", "int", "long", "nonNegativeInteger"):
        return render_number(value)
    if kind == "boolean":
        return {"true": "yes", "1": "yes", "false": "no", "0": "no"}.get(value, value)
    return value


def render_time(value: str, precision: int | None = None, *, astronomical: bool = False) -> str:
    """Render a time as "20 July 1969", or coarser by `precision` (0 to 14).

    `astronomical` years (RDF) have a year 0, which is 1 BC; otherwise (Wikidata's JSON) -44 is 44 BC.
    """
    date = _DATE.fullmatch(value.strip())
    if date is None:
        return value
    year = int(date[2])
    before = date[1] == "-" and year > 0
    if astronomical and (before or (year == 0)):
        year, before = year + 1, True
    month, day = int(date[3] or 0), int(date[4] or 0)
    if month > 12 or day > 31:
        return value
    precision = min(_SECOND if precision is None else precision, DAY if day else _MONTH if month else _YEAR, _SECOND)
    era = " BC" if before else ""
    if precision < _YEAR:
        return _coarse(year, precision) + era
    if precision == _YEAR or not month:
        return f"{year}{era}"
    if precision == _MONTH or not day:
        return f"{MONTHS[month - 1]} {year}{era}"
    clock = f", {date[5]}:{date[6]} UTC" if date[5] and (date[5], date[6], date[7]) != ("00", "00", "00") else ""
    return f"{day} {MONTHS[month - 1]} {year}{era}{clock}"


def _coarse(year: int, precision: int) -> str:
    if precision == _DECADE:
        return f"{year // 10 * 10}s"
    if precision == _CENTURY:
        return f"{_ordinal((year + 99) // 100)} century"
    if precision == _MILLENNIUM:
        return f"{_ordinal((year + 999) // 1000)} millennium"
    if year < 10**6:
        return f"about {render_number(str(year))}"
    return f"about {render_number(str(year // 10**6))} million years"


def _ordinal(count: int) -> str:
    ending = "th" if count // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{count}{ending}"


def render_number(value: str) -> str:
    """Render a number without trailing zeros, with commas from 10,000 on."""
    if len(value) > _MAX_NUMBER_CHARS:  # 1e999999 would be written out
        return value
    try:
        read = Decimal(value)
        if not read.is_finite() or abs(read.adjusted()) > _MAX_NUMBER_CHARS:
            return value
        plain = format(read, ",f" if abs(read) >= _COMMAS_FROM else "f")
    except (InvalidOperation, ValueError):
        return value
    plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
    return "0" if plain in ("-0", "") else plain


def render_quantity(amount: str, unit: str = "") -> str:
    return f"{render_number(amount)} {unit}".rstrip()


def render_coordinates(value: str) -> str:
    """Render a point as "52.5167° N, 13.3833° E"; WKT has the longitude first."""
    point = _POINT.fullmatch(value.strip())
    if point is None:
        return value
    try:
        longitude, latitude = float(point[1]), float(point[2])
    except ValueError:
        return value
    if value.lstrip().startswith("<") or abs(latitude) > 90:  # another globe than Earth, or no coordinates
        return value
    north, east = "S" if latitude < 0 else "N", "W" if longitude < 0 else "E"
    return f"{_degrees(latitude)}° {north}, {_degrees(longitude)}° {east}"


def _degrees(angle: float) -> str:
    return f"{abs(angle):.4f}".rstrip("0").rstrip(".")
