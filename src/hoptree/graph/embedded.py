"""A knowledge graph in a folder, open for reading and for SPARQL queries."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

from hoptree.core.errors import GraphError, HoptreeError, QueryTooLong
from hoptree.core.values import DEFAULT_MAX_FACTS
from hoptree.graph.facts import (
    BOOLEAN,
    DEFAULT_TIMEOUT_S,
    MAX_PROPERTIES,
    Candidates,
    Direction,
    Entity,
    Fact,
    Neighbourhood,
    OnIndexing,
    Property,
    SourceCount,
    Stats,
    Table,
    Value,
    half_of_each,
)
from hoptree.graph.folder import damage, damaged, open_generation, read_manifest, reading
from hoptree.graph.neighbours import Bound, Names, Neighbours, Qualifiers, find_neighbours
from hoptree.graph.oxigraph import node_of, ox, sources_of
from hoptree.graph.sparql import check_query, columns_in_order, prefixes_missing
from hoptree.graph.vocabulary import ALIAS, LABEL, entity_id, entity_iri

_PREFIXES = {
    "wd": "http://www.wikidata.org/entity/",
    "wdt": "http://www.wikidata.org/prop/direct/",
    "p": "http://www.wikidata.org/prop/",
    "ps": "http://www.wikidata.org/prop/statement/",
    "pq": "http://www.wikidata.org/prop/qualifier/",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "schema": "http://schema.org/",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "entity": "urn:hoptree:entity:",
    "property": "urn:hoptree:property:",
}
_SERVICE, _SILENT = (re.compile(word, re.IGNORECASE) for word in ("service", "silent"))
_MAX_CELL_CHARS = 10_000
_PLACE = re.compile(r"error at (\d{1,9}):(\d{1,9})")


async def run_query(generation: Path, sparql: str, languages: tuple[str, ...], *, limit: int, seconds: float) -> Table:
    """Return the first `limit` rows of a SELECT or ASK query."""
    check_query(sparql)
    if _asks_elsewhere(sparql):
        cause = "The query asks another server (SERVICE)."
        raise GraphError(cause, "Ask that server by itself: hoptree graph query … --graph URL")
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "hoptree.graph.embedded"),  # -P: no modules of the current folder
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    request = {"generation": str(generation), "query": sparql, "languages": languages, "limit": limit}
    try:
        async with asyncio.timeout(seconds + 1.0):  # a second for the process to start
            stdout, stderr = await child.communicate(json.dumps(request).encode())
    except TimeoutError as error:
        cause = f"The query did not end within {seconds:g} seconds."
        raise QueryTooLong(cause, "Make it narrower, or give it more time (--seconds).") from error
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return _table(stdout if child.returncode == 0 else b"", stderr, limit, generation.parent)


class _Ahead(NamedTuple):
    """What can be parsed from a position on.

    They build on each other: whitespace and a brace; the rest of an address and these; all that follows SERVICE.
    """

    brace: bool = False
    local_name: bool = False
    prefixed_name: bool = False
    variable: bool = False
    iri: bool = False
    address: bool = False
    service: bool = False


def _asks_elsewhere(query: str) -> bool:
    """Return whether a query has SERVICE followed by an address and a brace.

    Texts and names are searched too: the store's parser needs no space between words, and any difference from its
    reading would let a query reach other servers. The query is read once, backwards: a pattern would read from each
    "service" to the end.
    """
    services = {word.end() for word in _SERVICE.finditer(query)}
    silents = {word.end(): word.start() for word in _SILENT.finditer(query)}
    silent: set[int] = set()  # starts of SILENT with an address after it
    behind_line = after = second = nothing = _Ahead()
    for at in range(len(query) - 1 if services else -1, -1, -1):
        letter = query[at]
        space = letter.isspace()
        if letter in "\r\n":
            behind_line = after
        gap = after if space else behind_line if letter == "#" else nothing
        escaped = second if letter == "\\" and query[at + 1 : at + 2] != "\n" else nothing
        plain = nothing if space or letter in "{}()\\" else after
        brace = letter == "{" or gap.brace
        prefixed = letter == ":" and after.local_name
        prefixed = prefixed or escaped.prefixed_name or (plain.prefixed_name and letter not in "<>?$:#")
        opened = (letter == "<" and after.iri) or (letter in "?$" and after.variable)
        address = gap.address or prefixed or opened
        here = _Ahead(
            brace,
            brace or escaped.local_name or plain.local_name,
            prefixed,
            brace or (after.variable and not space and letter != "{"),
            (letter == ">" and after.brace) or (after.iri and letter > " " and letter not in "<>"),
            address,
            address or gap.service or at in silent,
        )
        if here.service and at in services:
            return True
        if here.address and at in silents:
            silent.add(silents[at])
        after, second = here, after
    return False


def _table(stdout: bytes, stderr: bytes, limit: int, folder: Path) -> Table:
    lines = [json.loads(line) for line in stdout.splitlines()]
    if not lines:
        last = stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise HoptreeError(f"The query ended without a result ({' '.join(last)[:300]}).", "Make it narrower.")
    for line in lines:
        if "damaged" in line:
            raise damaged(folder, line["damaged"])
    if "error" in lines[0]:
        raise GraphError(lines[0]["error"], "Correct the query; --help shows an example.")
    rows = [tuple(Value(*cell) for cell in line) for line in lines[1:]]
    return Table(tuple(lines[0]["columns"]), tuple(rows[:limit]), len(rows) <= limit)


def _run(request: dict[str, Any]) -> Iterator[Any]:
    store = ox.Store.read_only(request["generation"])
    try:
        result = store.query(request["query"], use_default_graph_as_union=True, prefixes=_PREFIXES)
    except SyntaxError as error:
        yield {"error": f"The query is not SPARQL: {_explain_syntax(str(error), request['query'])}."}
        return
    if isinstance(result, ox.QueryBoolean):
        yield {"columns": ["answer"]}
        yield [["", "yes" if result else "no", "true" if result else "false", BOOLEAN]]
    elif isinstance(result, ox.QuerySolutions):
        names = Names(store, tuple(request["languages"]))
        columns = columns_in_order(request["query"], [variable.value for variable in result.variables])
        yield {"columns": columns}
        for solution in islice(result, request["limit"] + 1):
            yield [_cell(names, solution[name]) for name in columns]


def _explain_syntax(message: str, query: str) -> str:
    """Rephrase the library's message, which lists every possible next token."""
    missing = prefixes_missing(query, _PREFIXES)
    if missing:
        return f"there is no prefix {missing[0]}: (declare it: PREFIX {missing[0]}: <IRI>)"
    place = _PLACE.match(message)
    if place is None:
        return " ".join(message.split())[:200].rstrip(".")
    line, column = int(place[1]), int(place[2])
    unread = "".join(query.splitlines()[line - 1 : line])[column - 1 :].strip()
    return f"it cannot be read at line {line}, column {column}, " + (
        f"from '{unread[:60]}' on" if unread else "its end"
    )


def _cell(names: Names, value: object) -> list[str]:
    if value is None or isinstance(value, ox.Triple):
        return ["", "" if value is None else str(value)[:_MAX_CELL_CHARS]]
    term = names.term(value)
    cell = [term.id, term.text[:_MAX_CELL_CHARS]]
    if isinstance(value, ox.Literal):
        return [*cell, value.value[:_MAX_CELL_CHARS], value.datatype.value, value.language or ""]
    return [*cell, value.value if isinstance(value, ox.NamedNode) else str(value)]


def _main() -> None:
    try:
        for line in _run(json.load(sys.stdin)):
            sys.stdout.write(f"{json.dumps(line)}\n")
    except (RuntimeError, OSError) as error:
        if (why := damage(error)) is None:
            raise
        sys.stdout.write(f"{json.dumps({'damaged': why})}\n")


if __name__ == "__main__":
    _main()


P = ParamSpec("P")
T = TypeVar("T")


class EmbeddedGraph:
    """A graph made by `load_graph`; it keeps its data while a change is written.

    Terms are passed to the store as terms, never as query text, so that no name can inject a query.
    """

    kind = "embedded"
    remote = False

    def __init__(self, folder: Path, *, languages: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.manifest = read_manifest(folder)
        try:
            self.store = open_generation(folder, self.manifest)
        except GraphError:
            # A writer may have switched to the next generation between the two steps.
            latest = read_manifest(folder)
            if latest.generation == self.manifest.generation:
                raise
            self.manifest, self.store = latest, open_generation(folder, latest)
        self.identity = f"graph:{self.manifest.uid}"
        self.names = Names(self.store, languages or self.manifest.languages)
        self._qualified = any(source.qualifiers for source in self.manifest.sources)
        self.on_indexing: OnIndexing = lambda done, total: None
        self._candidates: Candidates | None = None
        self._opening = threading.Lock()

    async def facts(
        self,
        entity: str,
        *,
        direction: Direction = "both",
        limit: int = DEFAULT_MAX_FACTS,
        seconds: float = DEFAULT_TIMEOUT_S,
    ) -> Neighbourhood:
        return await asyncio.to_thread(self.facts_now, entity, direction, limit, seconds)

    async def entities(self, name: str, *, limit: int = 10) -> tuple[Entity, ...]:
        return await asyncio.to_thread(self._read, self.names.entities, name, limit)

    async def entity(self, identifier: str) -> Entity | None:
        return self._read(self.names.entity, node_of(entity_iri(identifier)))

    async def properties(self) -> tuple[Property, ...]:
        return await asyncio.to_thread(self._read, self.names.properties, MAX_PROPERTIES)

    async def query(self, sparql: str, *, limit: int = 1_000, seconds: float = DEFAULT_TIMEOUT_S) -> Table:
        generation = self.folder / f"{self.manifest.generation:06}"
        return await run_query(generation, sparql, self.names.languages, limit=limit, seconds=seconds)

    async def stats(self) -> Stats:
        manifest = self.manifest
        counts = tuple(SourceCount(source.name, source.facts, source.names) for source in manifest.sources)
        details = {"folder": str(self.folder), "bytes": f"{manifest.bytes:,}", "triples": f"{manifest.triples:,}"}
        return Stats(manifest.facts, manifest.names, len(self._read(self.names.uses)), counts, details)

    async def aclose(self) -> None:
        """Do nothing: files are closed with the last reference to them."""

    def candidates(self) -> Candidates:
        """Return candidates by the index of names, built if needed."""
        with self._opening:
            if self._candidates is None:
                from hoptree.graph.entity_linking import open_candidates  # imports tantivy

                total = self.manifest.names
                self._candidates = open_candidates(self, on_progress=lambda done: self.on_indexing(done, total))
            return self._candidates

    def all_names(self) -> Iterator[tuple[str, str]]:
        """Yield ids and names, all labels before all aliases."""
        for predicate in (LABEL, ALIAS):
            quads = iter(self._read(self.store.quads_for_pattern, None, ox.NamedNode(predicate), None, None))
            while (quad := self._read(next, quads, None)) is not None:
                if isinstance(quad.subject, ox.NamedNode) and isinstance(quad.object, ox.Literal):
                    yield entity_id(quad.subject.value), quad.object.value

    def is_current(self) -> bool:
        """Return whether the folder still holds the same data."""
        return read_manifest(self.folder).uid == self.manifest.uid

    def entity_now(self, identifier: str) -> Entity | None:
        """Look an entity up in this thread."""
        return self.names.entity(node_of(entity_iri(identifier)))

    def relation_names(self, limit: int) -> Iterator[str]:
        """Yield the labels and aliases of the most used relations."""
        for relation in self.names.properties(limit):
            yield from (relation.label, *relation.aliases)

    def degree(self, identifier: str, limit: int) -> int:
        """Count the triples of an entity, up to `limit` in each direction."""
        node = node_of(entity_iri(identifier))
        outward = self.store.quads_for_pattern(node, None, None, None)
        inward = self.store.quads_for_pattern(None, None, node, None)
        return sum(1 for quads in (outward, inward) for _ in islice(quads, limit))

    def _read(self, look: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `look`, reporting damaged data."""
        with reading(self.folder):
            return look(*args, **kwargs)

    def facts_now(
        self,
        entity: str,
        direction: Direction = "both",
        limit: int = DEFAULT_MAX_FACTS,
        seconds: float = DEFAULT_TIMEOUT_S,
    ) -> Neighbourhood:
        return self._read(self._facts_around, entity, direction, limit, seconds)

    def _facts_around(self, entity: str, direction: Direction, limit: int, seconds: float) -> Neighbourhood:
        node = node_of(entity_iri(entity))
        bound = Bound.of(max(1, limit), seconds)
        sides = [
            find_neighbours(self.store, node, bound, outward=outward, properties=self.names.most_used())
            for outward in (True, False)
            if direction in ("both", "out" if outward else "in")
        ]
        if len(sides) == 2:  # a fact of the entity about itself is in both
            sides[1].rows = {row: graphs for row, graphs in sides[1].rows.items() if row not in sides[0].rows}
        outward, inward = ([*part.rows.items()] for part in (*sides, Neighbours())[:2])
        rows = half_of_each(outward, inward, bound.rows)
        cut = len(rows) < len(outward) + len(inward)
        facts: list[Fact] = []
        qualifiers = Qualifiers(self.store, self.names) if self._qualified else None
        for row, graphs in rows:
            sources = tuple(sorted({source for graph in graphs for source in sources_of(graph, self.manifest.base)}))
            subject, name, value = map(self.names.term, row)
            groups = qualifiers.of(row, name.id) if qualifiers else [()]
            facts += [Fact(subject, name, value, group, sources) for group in groups]
            if len(facts) > bound.rows or bound.late:  # a fact with several statements occurs several times
                cut = True
                break
        del facts[bound.rows :]
        facts.sort(key=lambda fact: (fact.subject.id != entity, fact.relation.text, fact.object.text, fact.text))
        label = self.names.label(node.value, entity)
        complete = not cut and all(part.complete for part in sides) and (qualifiers is None or qualifiers.complete)
        return Neighbourhood(Entity(entity_id(node.value), label), tuple(facts), complete)
