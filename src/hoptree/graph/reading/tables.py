"""JSON Lines and tab-separated facts, a row a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from hoptree.graph.oxigraph import Triple
from hoptree.graph.reading.broken import Broken
from hoptree.graph.reading.lines import Line
from hoptree.graph.reading.rows import FIELDS, NotARow, Rows

__all__ = ["read_jsonl", "read_tsv"]

_UNNAMED = ("s", "p", "o", "src")


def read_jsonl(lines: Iterable[Line], name: str, broken: Broken) -> Iterator[Triple]:
    return _read(lines, name, broken, _json_row)


def read_tsv(lines: Iterable[Line], name: str, broken: Broken) -> Iterator[Triple]:
    """Rows of subject, property, object and perhaps a source; or of other columns, if the first line names them."""
    columns: tuple[str, ...] = _UNNAMED
    rest = (line for line in lines if not line[1].isspace())
    first = next(rest, None)
    if first is None:
        return
    fields = [field.strip().casefold() for field in first[1].decode("utf-8", "replace").rstrip("\r\n").split("\t")]
    known = {field for names in FIELDS.values() for field in names}
    if sum(field in known for field in fields) >= 3:
        columns = tuple(fields)
    else:
        yield from _read([first], name, broken, lambda line: _tsv_row(line, columns))
    yield from _read(rest, name, broken, lambda line: _tsv_row(line, columns))


def _read(lines: Iterable[Line], name: str, broken: Broken, parse: Callable[[bytes], Any]) -> Iterator[Triple]:
    rows = Rows()
    for number, line in lines:
        if line.isspace():
            continue
        try:
            triples = rows.triples(parse(line))
        except NotARow as error:
            broken.line(number, name, str(error))
            continue
        yield from triples


def _json_row(line: bytes) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise NotARow(f"it is no JSON ({error.msg})") from error
    except (ValueError, RecursionError) as error:
        raise NotARow("it is no JSON in UTF-8, or is nested too deeply") from error


def _tsv_row(line: bytes, columns: tuple[str, ...]) -> dict[str, str]:
    try:
        fields = line.decode().rstrip("\r\n").split("\t")
    except UnicodeDecodeError as error:
        raise NotARow("it is no UTF-8 text") from error
    if not 3 <= len(fields) <= max(3, len(columns)):
        raise NotARow(f"it has {len(fields)} fields, not {len(columns) if columns != _UNNAMED else 3}")
    return {name: field for name, field in zip(columns, fields, strict=False) if field.strip()}
