"""Read files of triples: N-Triples, N-Quads, Turtle, TSV, JSON lines."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, get_args

from hoptree.core.errors import ConfigError, GraphError
from hoptree.graph.oxigraph import Triple, ox
from hoptree.graph.triple_rows import (
    DAMAGE,
    FIELDS,
    BrokenPlaces,
    InvalidRow,
    Line,
    OnBytes,
    RowReader,
    open_unpacked,
    read_lines,
)
from hoptree.graph.vocabulary import BLANK

_LINES_PER_BLOCK = 1_000
_POSITION = re.compile(r"^(?:Parser )?error at (?:line )?\d+.*?: ", re.IGNORECASE)


def read_ntriples(
    lines: Iterable[Line], name: str, broken: BrokenPlaces, *, quads: bool = False, scope: str = ""
) -> Iterator[Triple]:
    """Yield triples of N-Triples or N-Quads; `scope` tells blank nodes of files apart."""
    form, scope = ox.RdfFormat.N_QUADS if quads else ox.RdfFormat.N_TRIPLES, scope or name
    unread = iter(lines)
    while block := list(islice(unread, _LINES_PER_BLOCK)):
        yield from _named_triples(_parse_block(block, form, name, broken), scope)


def _parse_block(block: list[Line], form: ox.RdfFormat, name: str, broken: BrokenPlaces) -> Iterator[ox.Quad]:
    """Yield the quads of lines: all at once, or one by one where that fails."""
    try:
        yield from list(ox.parse(b"".join(line for _, line in block), format=form))
    except (SyntaxError, ValueError):
        for number, line in block:
            try:
                yield from list(ox.parse(line, format=form))
            except (SyntaxError, ValueError) as error:
                broken.line(number, name, _reason(error))


def _named_triples(quads: Iterable[ox.Quad], scope: str) -> Iterator[Triple]:
    """Yield triples with IRIs for the blank nodes of one file."""
    prefix = f"{BLANK}{hashlib.sha256(scope.encode('utf-8', 'replace')).hexdigest()[:12]}:"
    for quad in quads:
        subject, value = quad.subject, quad.object
        if isinstance(subject, ox.Triple) or isinstance(value, ox.Triple):
            continue
        if isinstance(subject, ox.BlankNode):
            subject = ox.NamedNode(prefix + subject.value)
        if isinstance(value, ox.BlankNode):
            value = ox.NamedNode(prefix + value.value)
        yield subject, quad.predicate, value, ()


def _reason(error: Exception) -> str:
    """Return the parser's message without the position in the block."""
    message = _POSITION.sub("", str(error.args[0] if error.args else error))
    return message[:1].lower() + message[1:]


_DEFAULT_COLUMNS = ("s", "p", "o", "src")


def read_jsonl(lines: Iterable[Line], name: str, broken: BrokenPlaces) -> Iterator[Triple]:
    return _read(lines, name, broken, _json_row)


def read_tsv(lines: Iterable[Line], name: str, broken: BrokenPlaces) -> Iterator[Triple]:
    """Read rows of subject, property, object and source, or by a heading."""
    columns: tuple[str, ...] = _DEFAULT_COLUMNS
    unread = (line for line in lines if not line[1].isspace())
    first = next(unread, None)
    if first is None:
        return
    fields = [field.strip().casefold() for field in first[1].decode("utf-8", "replace").rstrip("\r\n").split("\t")]
    known = {field for names in FIELDS.values() for field in names}
    if sum(field in known for field in fields) >= 3:
        columns = tuple(fields)
    else:
        yield from _read([first], name, broken, lambda line: _tsv_row(line, columns))
    yield from _read(unread, name, broken, lambda line: _tsv_row(line, columns))


def _read(lines: Iterable[Line], name: str, broken: BrokenPlaces, parse: Callable[[bytes], Any]) -> Iterator[Triple]:
    rows = RowReader()
    for number, line in lines:
        if line.isspace():
            continue
        try:
            triples = rows.triples(parse(line))
        except InvalidRow as error:
            broken.line(number, name, str(error))
            continue
        yield from triples


def _json_row(line: bytes) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise InvalidRow(f"it is no JSON ({error.msg})") from error
    except (ValueError, RecursionError) as error:
        raise InvalidRow("it is no JSON in UTF-8, or is nested too deeply") from error


def _tsv_row(line: bytes, columns: tuple[str, ...]) -> dict[str, str]:
    try:
        fields = line.decode().rstrip("\r\n").split("\t")
    except UnicodeDecodeError as error:
        raise InvalidRow("it is no UTF-8 text") from error
    if not 3 <= len(fields) <= max(3, len(columns)):
        raise InvalidRow(f"it has {len(fields)} fields, not {len(columns) if columns != _DEFAULT_COLUMNS else 3}")
    return {name: field for name, field in zip(columns, fields, strict=False) if field.strip()}


def read_turtle(stream: IO[bytes], name: str, broken: BrokenPlaces, *, scope: str = "") -> Iterator[Triple]:
    """Yield the triples of Turtle; a syntax error refuses the file.

    The end of a broken statement is unknown: skipping it might drop sound ones after it.
    """
    try:
        yield from _named_triples(ox.parse(stream, format=ox.RdfFormat.TURTLE), scope or name)
    except SyntaxError as error:
        cause = f"Line {error.lineno} of {name} cannot be read: {_reason(error)}"
        raise GraphError(cause, "Mend it; only in N-Triples can broken lines be passed over.") from error
    except (*DAMAGE, MemoryError) as error:  # the last: a text that does not end within 16 MiB
        broken.damaged(name, str(error))


Form = Literal["nt", "nq", "ttl", "tsv", "jsonl"]
_ENDINGS: dict[str, Form] = {
    ".nt": "nt",
    ".ntriples": "nt",
    ".nq": "nq",
    ".ttl": "ttl",
    ".turtle": "ttl",
    ".tsv": "tsv",
    ".txt": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


def form_of(path: Path, given: str = "") -> Form:
    """Return the given form, or the one of the file's ending (before .gz or .bz2)."""
    if given:
        known: tuple[Form, ...] = get_args(Form)
        if given not in known:
            raise ConfigError(f"There is no form '{given}' of triples.", f"Use one of {', '.join(known)}.")
        return known[known.index(given)]
    endings = [ending.lower() for ending in path.suffixes if ending.lower() not in (".gz", ".bz2")]
    if not endings or endings[-1] not in _ENDINGS:
        cause = f"The name of {path.name} does not tell its form."
        raise GraphError(cause, "Name it .nt, .nq, .ttl, .tsv or .jsonl (.gz and .bz2 behind that), or give --form.")
    return _ENDINGS[endings[-1]]


def scope_of(path: Path, source: str) -> str:
    """Return what distinguishes the blank nodes of a file from those of others."""
    return f"{source}\n{path.resolve()}"


def read_triples(
    path: Path, form: Form, broken: BrokenPlaces, on_bytes: OnBytes | None = None, *, source: str = ""
) -> Iterator[Triple]:
    """Yield the triples of a file in constant memory."""
    scope = scope_of(path, source)
    with open_unpacked(path, on_bytes) as stream:
        if form == "ttl":
            yield from read_turtle(stream, path.name, broken, scope=scope)
            return
        lines = read_lines(stream, path.name, broken)
        if form in ("nt", "nq"):
            yield from read_ntriples(lines, path.name, broken, quads=form == "nq", scope=scope)
        else:
            yield from (read_tsv if form == "tsv" else read_jsonl)(lines, path.name, broken)
