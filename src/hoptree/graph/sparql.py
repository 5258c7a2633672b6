"""Build and check SPARQL queries, and send them to an endpoint."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlencode

from hoptree.core.errors import ConfigError, EndpointError, GraphError, QueryTooLong, UnusableReply
from hoptree.core.http_body import read_body
from hoptree.core.http_client import HttpClient
from hoptree.core.public_http import HttpCache, Throttle, unreachable_remedy, user_agent
from hoptree.graph import vocabulary as vocab
from hoptree.graph.facts import BOOLEAN, Direction

_MAX_IRI_CHARS = 8_000  # as of addresses; a longer one is shown as a text
_MAX_COLUMNS = 200  # of a reply: every row is shown with each of them


@dataclass(frozen=True, slots=True)
class Cell:
    """A term of a result: an IRI, or a text with its datatype or language."""

    iri: str = ""
    text: str = ""
    datatype: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class Results:
    """Rows by column; unbound cells are missing."""

    columns: tuple[str, ...]
    rows: tuple[dict[str, Cell], ...]


def _read_results(data: Any, shown: str, max_rows: int) -> Results:
    """Read the first `max_rows` rows of a reply of the endpoint `shown`."""
    try:
        if isinstance(data.get("boolean"), bool):
            answer = Cell(text="true" if data["boolean"] else "false", datatype=BOOLEAN)
            return Results(("answer",), ({"answer": answer},))
        if not isinstance(data["head"]["vars"], list):
            raise TypeError("columns that are not a list")
        columns = tuple(str(name) for name in data["head"]["vars"])
        if len(columns) > _MAX_COLUMNS:
            raise EndpointError(f"{shown} sent {len(columns):,} columns.", f"Name {_MAX_COLUMNS} at most in the query.")
        bindings = data["results"]["bindings"][:max_rows]
        rows = tuple({str(name): _cell(binding) for name, binding in row.items()} for row in bindings)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        cause = f"{shown} answered with something other than SPARQL results."
        raise UnusableReply(cause, "Check the URL of the graph.") from error
    return Results(columns, rows)


def _cell(binding: dict[str, Any]) -> Cell:
    value = binding["value"]
    if not isinstance(value, str):
        raise TypeError("a term without text")
    if binding["type"] == "uri" and len(value) <= _MAX_IRI_CHARS:
        return Cell(iri=value)
    if binding["type"] == "bnode":
        return Cell(text="something unnamed")
    return Cell(text=value, datatype=str(binding.get("datatype", "")), language=str(binding.get("xml:lang", "")))


_MAX_BODY_BYTES = 32 * 2**20
_TAIL_BYTES = 2**16
_HEADERS = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/sparql-results+json"}


@dataclass(slots=True)
class TimeBudget:
    """Seconds for all requests of a look-up together; waiting to send is not counted."""

    seconds: float
    spent: float = 0.0

    @property
    def left(self) -> float:
        return max(self.seconds - self.spent, 0.0)


class SparqlClient:
    """One endpoint, with limits on request rate, concurrency and waiting."""

    def __init__(
        self,
        url: str,
        *,
        contact: str = "",
        cache: HttpCache | None = None,
        per_second: float = 5.0,
        patience_s: float = 60.0,
    ) -> None:
        self._http = HttpClient(
            url,
            headers={"User-Agent": user_agent(contact)},
            url_source="the URL of the graph",
            max_body=_MAX_BODY_BYTES,
            unreachable_remedy=unreachable_remedy(url),
        )
        self.shown = self._http.shown
        self._cache = cache
        self._throttle = Throttle(per_second=per_second, patience_s=patience_s)
        self.sent = 0

    async def ask(self, query: str, budget: TimeBudget, max_rows: int) -> Results:
        """Return the first `max_rows` rows within the time left."""
        cached = self._cache.get(self._http.url, query) if self._cache else None
        if cached is not None:
            return _read_results(await read_body(self._http.parse, cached), self.shown, max_rows)
        body, data = await self._throttle.send(lambda: self._send(query, budget))
        results = _read_results(data, self.shown, max_rows)
        if self._cache:
            self._cache.put(self._http.url, query, body)
        return results

    async def reach(self, budget: TimeBudget) -> None:
        """Fail if the endpoint does not answer a minimal query now; the cache is not used."""
        await self._throttle.send(lambda: self._send("ASK { ?s ?p ?o }", budget))

    async def _send(self, query: str, budget: TimeBudget) -> tuple[bytes, Any]:
        """Return a reply, and the JSON in it; a long one takes a second to parse."""
        form = urlencode({"query": query, "format": "json"}, errors="replace").encode()
        seconds, began = budget.seconds, time.monotonic()
        if not budget.left:
            raise self._too_long(seconds)
        self.sent += 1
        try:
            async with asyncio.timeout(budget.left):
                status, headers, body = await self._http.send("POST", "", content=form, headers=_HEADERS)
        except TimeoutError as error:
            raise self._too_long(seconds) from error
        except UnusableReply as error:  # not retryable: a second reply would be as long
            cause = f"{self.shown} sent more than {_MAX_BODY_BYTES / 2**20:.0f} MB."
            raise EndpointError(cause, "Ask for fewer rows.") from error
        finally:
            budget.spent += time.monotonic() - began
        # Wikidata reports it in the error, or after half of the results.
        timed_out = b"TimeoutException" in body[-_TAIL_BYTES:]
        if status == 504 or (timed_out and status >= 400):
            raise self._too_long(seconds)
        if status == 403:
            remedy = "Set HOPTREE_CONTACT to an e-mail address or page of yours: Wikidata wants to know who asks."
            raise EndpointError(f"{self.shown} turned the request away (HTTP 403).", remedy, status=status, exit_code=2)
        if status == 400:
            reason = " ".join(body[:300].decode("utf-8", "replace").split())
            raise EndpointError(f"{self.shown} does not understand the query: {reason}", "Correct it.", exit_code=2)
        if not 200 <= status < 300:
            raise self._http.failure(status, headers, body)
        try:
            return body, await read_body(self._http.parse, body)  # a web page in place of results may be temporary
        except UnusableReply:
            if timed_out:
                raise self._too_long(seconds) from None
            raise

    def _too_long(self, seconds: float) -> QueryTooLong:
        cause = f"{self.shown} did not finish the query in time ({seconds:g} seconds)."
        return QueryTooLong(cause, "Ask for less, or try again later; the commands of hoptree graph take --seconds.")

    async def aclose(self) -> None:
        await self._http.aclose()
        if self._cache:
            self._cache.close()


Dialect = Literal["wikidata", "rdf"]
_LANGUAGE = re.compile(r"[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*", re.ASCII)
_SAFE_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\\x7f-\x9f\ud800-\udfff]+")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
COUNT_QUERY = "SELECT (COUNT(*) AS ?n) WHERE { ?s ?p ?o }"
_PART, _TITLE = "http://schema.org/isPartOf", "http://schema.org/name"


def is_iri(value: str) -> bool:
    """Return whether a query can hold this IRI; endpoints also return invalid ones."""
    return _SAFE_IRI.fullmatch(value) is not None


def iri(value: str) -> str:
    """Put an IRI in angle brackets; refuse characters that could end them."""
    if not is_iri(value):
        raise GraphError(f"'{value[:200]}' is not an IRI.", "IRIs have no spaces, quotes, brackets or backslashes.")
    return f"<{value}>"


def literal(text: str, language: str = "") -> str:
    """Quote a text as a SPARQL literal; control characters become spaces."""
    escaped = "".join(_ESCAPES.get(letter) or _CONTROL.sub(" ", letter) for letter in text)
    return f'"{escaped}"' + (f"@{_tag(language)}" if language else "")


def _tag(language: str) -> str:
    if _LANGUAGE.fullmatch(language) is None:
        raise ConfigError(f"'{language}' is not a language tag.", "Tags are like en or pt-br.")
    return language


def _predicates(iris: Iterable[str]) -> str:
    return "|".join(map(iri, sorted(iris)))


def _in_languages(variable: str, languages: Sequence[str]) -> str:
    tags = ", ".join(literal(_tag(tag) if tag else "") for tag in languages)
    return f"FILTER(LANG({variable}) IN ({tags}))"


def _begins(variable: str, prefix: str) -> str:
    return f"FILTER(STRSTARTS(STR({variable}), {literal(prefix)}))"


def entities_query(name: str, languages: Sequence[str], dialect: Dialect, limit: int) -> str:
    """Query for the entities of a name; ?how is 1 for an alias."""
    spellings = dict.fromkeys((name, name[:1].upper() + name[1:]))
    names = " ".join(literal(spelling, tag) for spelling in spellings for tag in languages)
    only = _begins("?e", f"{vocab.WIKIDATA}Q") if dialect == "wikidata" else "FILTER(ISIRI(?e))"
    labels, aliases = ([vocab.LABEL], [vocab.ALIAS]) if dialect == "wikidata" else (vocab.LABELS, vocab.ALIASES)
    return (
        f"SELECT DISTINCT ?e ?how WHERE {{ VALUES ?name {{ {names} }} "
        f"{{ ?e {_predicates(labels)} ?name . BIND(0 AS ?how) }} UNION "
        f"{{ ?e {_predicates(aliases)} ?name . BIND(1 AS ?how) }} {only} }} "
        f"LIMIT {limit:d}"
    )


def names_query(
    iris: Sequence[str], languages: Sequence[str], *, all_names: bool, limit: int, dialect: Dialect = "rdf"
) -> str:
    """Query for labels (?how 0), aliases, descriptions and titles."""
    things = " ".join(map(iri, iris))
    kinds = f"{{ ?e {_predicates(vocab.LABELS)} ?name . BIND(0 AS ?how) }}"
    if all_names:
        kinds += f" UNION {{ ?e {_predicates(vocab.ALIASES)} ?name . BIND(1 AS ?how) }}"
        kinds += f" UNION {{ ?e {_predicates(vocab.DESCRIPTIONS)} ?name . BIND(2 AS ?how) }}"
        wikis = " ".join(iri(f"https://{_tag(tag)}.wikipedia.org/") for tag in languages if tag not in ("", "mul"))
        if wikis and dialect == "wikidata":
            kinds += (
                f" UNION {{ VALUES ?wiki {{ {wikis} }} "
                f"?page {iri(vocab.ABOUT)} ?e ; {iri(_PART)} ?wiki ; {iri(_TITLE)} ?name . BIND(3 AS ?how) }}"
            )
    return (
        f"SELECT DISTINCT ?e ?how ?name WHERE {{ VALUES ?e {{ {things} }} {kinds} "
        f"{_in_languages('?name', languages)} }} LIMIT {limit:d}"
    )


def facts_query(entity: str, direction: Direction, dialect: Dialect, limit: int) -> str:
    """Query for facts, with several rows for qualifiers; `direction` is out or in."""
    node = iri(vocab.entity_iri(entity))
    outward = direction == "out"
    if outward and dialect == "wikidata":
        return _statements(node, limit)
    triple = f"{node} ?p ?v" if outward else f"?s ?p {node}"
    only = _begins("?p", f"{vocab.DIRECT}P") if dialect == "wikidata" else ""
    return f"SELECT * WHERE {{ {triple} . {only} }} LIMIT {limit:d}"


def _statements(node: str, limit: int) -> str:
    """Query for statements of the best rank, with precision, unit and qualifiers."""
    only = _begins("?claim", f"{vocab.CLAIMS}P")
    value, of_qualifier = f"{vocab.CLAIMS}statement/value/P", f"{vocab.CLAIMS}qualifier/value/P"
    best = iri(f"{vocab.WIKIBASE}BestRank")
    return (
        "SELECT ?st ?p ?v ?precision ?unit ?pq ?q ?qprecision ?qunit WHERE { "
        f"{{ SELECT ?st WHERE {{ {node} ?claim ?st . {only} ?st a {best} }} LIMIT {limit:d} }} "
        f"?st ?p ?v . {_begins('?p', vocab.CLAIMS + 'statement/P')} "
        f"OPTIONAL {{ ?st ?pv ?node . {_begins('?pv', value)} {_precise('?node', '?precision', '?unit')} }} "
        f"OPTIONAL {{ ?st ?pq ?q . {_begins('?pq', vocab.CLAIMS + 'qualifier/P')} "
        f"OPTIONAL {{ ?st ?pqv ?qnode . {_begins('?pqv', of_qualifier)} "
        f"FILTER(STRAFTER(STR(?pqv), {literal('/value/')}) = STRAFTER(STR(?pq), {literal('/qualifier/')})) "
        f"{_precise('?qnode', '?qprecision', '?qunit')} }} }} }} LIMIT {limit * 10:d}"
    )


def _precise(node: str, precision: str, unit: str) -> str:
    return (
        f"OPTIONAL {{ {node} {iri(vocab.WIKIBASE + 'timePrecision')} {precision} }} "
        f"OPTIONAL {{ {node} {iri(vocab.WIKIBASE + 'quantityUnit')} {unit} }}"
    )


def property_query(languages: Sequence[str], dialect: Dialect, limit: int) -> str:
    """Query for properties with their labels and datatypes."""
    if dialect == "rdf":
        return f"SELECT DISTINCT ?e WHERE {{ ?s ?e ?o }} LIMIT {limit:d}"
    kind, datatype = iri(f"{vocab.WIKIBASE}Property"), iri(f"{vocab.WIKIBASE}propertyType")
    return (
        f"SELECT ?e ?name ?kind WHERE {{ ?e a {kind} ; {datatype} ?kind . "
        f"OPTIONAL {{ ?e {iri(vocab.LABEL)} ?name {_in_languages('?name', languages)} }} }} LIMIT {limit:d}"
    )


_NOT_WORDS = re.compile(
    r"\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|\"(?:[^\"\\\n\r]|\\.)*\"|'(?:[^'\\\n\r]|\\.)*'|"
    r"<[^<>\"{}|^`\\\x00-\x20]*>|#[^\n\r]*",
    re.DOTALL,
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
        raise GraphError("The query is not SPARQL: it begins with neither SELECT nor ASK.", _EXAMPLE)
    return form


def limit_rows(sparql: str, rows: int) -> str:
    """Give the query a LIMIT of at most `rows`."""
    if check_query(sparql) == "ASK":
        return sparql
    places = {word: place for word, place in _outermost(sparql) if word in ("LIMIT", "VALUES")}
    if "LIMIT" in places:
        number = re.compile(r"\s*(\d+)").match(blank_literals(sparql), places["LIMIT"] + len("LIMIT"))
        if number is None or (len(number[1]) < 19 and int(number[1]) <= rows):
            return sparql  # without a number it is invalid, as the server will report
        return f"{sparql[: number.start(1)]}{rows:d}{sparql[number.end(1) :]}"
    if "VALUES" in places:  # it comes after LIMIT
        return f"{sparql[: places['VALUES']]}\nLIMIT {rows:d}\n{sparql[places['VALUES'] :]}"
    return f"{sparql}\nLIMIT {rows:d}"


def columns_in_order(sparql: str, columns: Sequence[str]) -> list[str]:
    """Sort the columns of `SELECT *` by first mention."""
    if _ALL.search(blank_literals(sparql)) is None:
        return list(columns)
    named = list(dict.fromkeys(_VARIABLE.findall(blank_literals(sparql))))
    return sorted(columns, key=lambda name: named.index(name) if name in named else len(named))


def prefixes_missing(sparql: str, known: Iterable[str]) -> list[str]:
    """Return the prefixes that a query uses without declaring them."""
    words = blank_literals(sparql)
    there = {*known, *_DECLARED.findall(words), "_"}
    return [prefix for prefix in dict.fromkeys(_USED.findall(words)) if prefix not in there]
