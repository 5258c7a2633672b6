"""Read files of triples: N-Triples, N-Quads, Turtle, TSV, JSON lines."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

from hoptree.core.errors import ConfigError, GraphError
from hoptree.graph.oxigraph import Object, Triple, ox
from hoptree.graph.triple_rows import (
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
    rest = iter(lines)
    while block := list(islice(rest, _LINES_PER_BLOCK)):
        yield from _parse_block(b"", block, form, name, broken, scope)


def _parse_block(
    header: bytes, block: list[Line], form: ox.RdfFormat, name: str, broken: BrokenPlaces, scope: str
) -> Iterator[Triple]:
    """Yield the triples of lines or statements behind a header: all at once, or one by one where that fails."""
    try:
        text = b"".join(line if line.endswith(b"\n") else line + b"\n" for _, line in block)
        yield from _parse(header + text, form, scope)
    except (SyntaxError, ValueError):
        for number, line in block:
            try:
                yield from _parse(header + line, form, scope)
            except (SyntaxError, ValueError) as error:
                broken.line(number, name, _reason(error))


def _parse(text: bytes, form: ox.RdfFormat, scope: str) -> list[Triple]:
    """Return all triples of a text; the library raises if it is broken."""
    rows: list[Triple] = [
        (quad.subject, quad.predicate, quad.object, ())
        for quad in ox.parse(text, format=form)
        if not isinstance(quad.subject, ox.Triple) and not isinstance(quad.object, ox.Triple)
    ]
    if b"_:" not in text and b"[" not in text:
        return rows
    # A blank node is the same only within one file, and would differ between batches: it becomes an IRI.
    where = hashlib.sha256(scope.encode("utf-8", "replace")).hexdigest()[:12]
    return [(_name_blank(s, where), p, _name_blank(o, where), sources) for s, p, o, sources in rows]  # type: ignore[misc]


def _name_blank(term: Object, where: str) -> Object:
    return ox.NamedNode(f"{BLANK}{where}:{term.value}") if isinstance(term, ox.BlankNode) else term


def _reason(error: Exception) -> str:
    """Return the parser's message without the position in the block."""
    message = _POSITION.sub("", str(error.args[0] if error.args else error))
    return message[:1].lower() + message[1:]


_DEFAULT_COLUMNS = ("s", "p", "o", "src")


def read_jsonl(lines: Iterable[Line], name: str, broken: BrokenPlaces) -> Iterator[Triple]:
    return _read(lines, name, broken, _json_row)


def read_tsv(lines: Iterable[Line], name: str, broken: BrokenPlaces) -> Iterator[Triple]:
    """Read rows of subject, property, object and optional source, or of the columns in a heading."""
    columns: tuple[str, ...] = _DEFAULT_COLUMNS
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


_MAX_STATEMENT_BYTES = 2**20
_STATEMENTS_PER_BLOCK = 200
_TOKEN = re.compile(
    rb"""(?P<long>\"\"\"|''')|"(?:[^"\\\n\r]|\\.)*"|'(?:[^'\\\n\r]|\\.)*'|(?P<iri><[^<>"{}|^`\\\x00-\x20]*>)|"""
    rb"""(?P<comment>\#[^\n]*)|\\.|(?P<end>\.(?=[\s#<"'\[(@}]|$))""",
    re.VERBOSE,
)
_ENDS = {b'"""': re.compile(rb'(?:[^"\\]|\\.|"(?!""))*"""', re.DOTALL)}
_ENDS[b"'''"] = re.compile(rb"(?:[^'\\]|\\.|'(?!''))*'''", re.DOTALL)
_DIRECTIVE_CHARS = 64
_SPARQL_DIRECTIVE = re.compile(rb"\s*(?:prefix|base)(?=[\s<])", re.IGNORECASE)
_DIRECTIVE = re.compile(rb"\s*@?(?:prefix|base)(?=[\s<])", re.IGNORECASE)


class _Scan:
    """The statement that is being collected: first line, text, and the quotes of an open string."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.number, self.text, self.quotes = 0, bytearray(), b""


def statements(lines: Iterable[Line], name: str, broken: BrokenPlaces) -> Iterator[tuple[int, bytes]]:
    """Yield statements and directives with the numbers of their first lines."""
    scan = _Scan()
    for number, line in lines:
        yield from _cut(scan, number, line)
        if len(scan.text) > _MAX_STATEMENT_BYTES:
            broken.line(scan.number, name, f"what begins there does not end within {_MAX_STATEMENT_BYTES // 2**20} MiB")
            scan.begin()
    if scan.text.strip():
        yield scan.number, bytes(scan.text)


def _cut(scan: _Scan, number: int, line: bytes) -> Iterator[tuple[int, bytes]]:
    place = start = 0
    while place < len(line):
        if scan.quotes:
            closed = _ENDS[scan.quotes].match(line, place)
            if closed is None:
                break
            scan.quotes, place = b"", closed.end()
            continue
        token = _TOKEN.search(line, place)
        if token is None:
            break
        place = token.end()
        if token.lastgroup == "long":
            scan.quotes = token[0]
        elif token.lastgroup == "comment":
            scan.text += line[start : token.start()]
            start = place
        elif token.lastgroup in ("end", "iri"):
            beginning = bytes(scan.text[:_DIRECTIVE_CHARS]) + line[start:place][:_DIRECTIVE_CHARS]
            # A SPARQL directive ends without a full stop.
            if token.lastgroup == "end" or _SPARQL_DIRECTIVE.match(beginning):
                yield scan.number or number, bytes(scan.text) + line[start:place]
                scan.begin()
                start = place
    left = line[start:]
    if scan.text or left.strip():
        scan.number = scan.number or number
        scan.text += left


def read_turtle(lines: Iterable[Line], name: str, broken: BrokenPlaces, *, scope: str = "") -> Iterator[Triple]:
    """Yield the triples of Turtle lines; `scope` is as in `read_ntriples`."""
    header, form, scope = b"", ox.RdfFormat.TURTLE, scope or name
    block: list[Line] = []
    for number, text in statements(lines, name, broken):
        is_directive = _DIRECTIVE.match(text) is not None
        if not is_directive:
            block.append((number, text))
        if is_directive or len(block) >= _STATEMENTS_PER_BLOCK:
            yield from _parse_block(header, block, form, name, broken, scope)
            block = []
        if is_directive:
            try:
                list(ox.parse(header + text, format=form))
            except (SyntaxError, ValueError) as error:
                broken.line(number, name, _reason(error))
                continue
            if text.strip() not in header.split(b"\n"):
                header += text.strip() + b"\n"
    yield from _parse_block(header, block, form, name, broken, scope)


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
        lines: Iterable[Line] = read_lines(stream, path.name, broken)
        if form in ("nt", "nq"):
            yield from read_ntriples(lines, path.name, broken, quads=form == "nq", scope=scope)
        elif form == "ttl":
            yield from read_turtle(lines, path.name, broken, scope=scope)
        else:
            yield from (read_tsv if form == "tsv" else read_jsonl)(lines, path.name, broken)
