"""Run users' SPARQL over a store in a child process, since the library cannot abort a query.

This module is both sides: `run_query` starts it as a program and reads its output, a JSON value a line.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from hoptree.core.errors import GraphError, HoptreeError, QueryTooLong
from hoptree.graph.facts import Table, Value
from hoptree.graph.oxigraph import ox
from hoptree.graph.sparql_guard import blank_literals, check_query, columns_in_order, prefixes_missing
from hoptree.graph.store.folder import damage, damaged
from hoptree.graph.store.names import Names

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
_SERVICE = re.compile(r"(?<![?$\w:])service(?![\w:])", re.IGNORECASE)
_MAX_CELL_CHARS = 10_000
_BOOLEAN = "http://www.w3.org/2001/XMLSchema#boolean"
_PLACE = re.compile(r"error at (\d{1,9}):(\d{1,9})")


async def run_query(generation: Path, sparql: str, languages: tuple[str, ...], *, limit: int, seconds: float) -> Table:
    """Return the first `limit` rows of a SELECT or ASK query."""
    check_query(sparql)
    if _SERVICE.search(blank_literals(sparql)):
        raise GraphError(
            "The query asks another server (SERVICE).", "Ask that server by itself: hoptree graph query … --graph URL"
        )
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "hoptree.graph.store.querying"),  # -P: no modules of the current folder
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    request = {"generation": str(generation), "query": sparql, "languages": languages, "limit": limit}
    try:
        async with asyncio.timeout(seconds + 1.0):  # a second for the process to begin
            stdout, stderr = await child.communicate(json.dumps(request).encode())
    except TimeoutError as error:
        raise QueryTooLong(
            f"The query did not end within {seconds:g} seconds.", "Make it narrower, or give it more time (--seconds)."
        ) from error
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return _table(stdout if child.returncode == 0 else b"", stderr, limit, generation.parent)


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
        yield {"error": f"The query is no SPARQL: {_explain_syntax(str(error), request['query'])}."}
        return
    if isinstance(result, ox.QueryBoolean):
        yield {"columns": ["answer"]}
        yield [["", "yes" if result else "no", "true" if result else "false", _BOOLEAN]]
    elif isinstance(result, ox.QuerySolutions):
        names = Names(store, tuple(request["languages"]))
        columns = columns_in_order(request["query"], [variable.value for variable in result.variables])
        yield {"columns": columns}
        for solution in islice(result, request["limit"] + 1):
            yield [_cell(names, solution[name]) for name in columns]


def _explain_syntax(message: str, query: str) -> str:
    """Put the library's message, which lists all that could come next, in words."""
    missing = prefixes_missing(query, _PREFIXES)
    if missing:
        return f"there is no prefix {missing[0]}: (declare it: PREFIX {missing[0]}: <IRI>)"
    place = _PLACE.match(message)
    if place is None:
        return " ".join(message.split())[:200].rstrip(".")
    line, column = int(place[1]), int(place[2])
    rest = "".join(query.splitlines()[line - 1 : line])[column - 1 :].strip()
    return f"it cannot be read at line {line}, column {column}, " + (f"from '{rest[:60]}' on" if rest else "its end")


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
