"""Check users' SPARQL before it runs: only SELECT and ASK, always with a LIMIT."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from hoptree.core.errors import GraphError

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
