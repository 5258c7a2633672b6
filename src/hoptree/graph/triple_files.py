"""A file of triples, whatever its form."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

from hoptree.core.errors import ConfigError, GraphError
from hoptree.graph.oxigraph import Object, Triple, ox
from hoptree.graph.triple_lines import BrokenPlaces, Line, OnBytes, open_unpacked, read_lines
from hoptree.graph.triple_rows import FIELDS, InvalidRow, RowReader
from hoptree.graph.vocabulary import BLANK

_LINES = 1_000
_WHERE = re.compile(r"^(?:Parser )?error at (?:line )?\d+.*?: ", re.IGNORECASE)


def read_ntriples(
    lines: Iterable[Line], name: str, broken: BrokenPlaces, *, quads: bool = False, scope: str = ""
) -> Iterator[Triple]:
    """The triples of the lines; the graph that a quad names is left out.

    `scope` is what tells the blank nodes of one file from those of all others; its `name` where nothing else is given.
    """
    form, scope = ox.RdfFormat.N_QUADS if quads else ox.RdfFormat.N_TRIPLES, scope or name
    rest = iter(lines)
    while block := list(islice(rest, _LINES)):
        try:
            text = b"".join(line if line.endswith(b"\n") else line + b"\n" for _, line in block)
            yield from parsed(text, form, scope)
        except (SyntaxError, ValueError):
            for number, line in block:
                try:
                    yield from parsed(line, form, scope)
                except (SyntaxError, ValueError) as error:
                    broken.line(number, name, why(error))


def parsed(text: bytes, form: ox.RdfFormat, scope: str) -> list[Triple]:
    """All triples of a text, or none: the errors of a text that is broken are the library's."""
    rows: list[Triple] = [
        (quad.subject, quad.predicate, quad.object, ())
        for quad in ox.parse(text, format=form)
        if not isinstance(quad.subject, ox.Triple) and not isinstance(quad.object, ox.Triple)
    ]
    if b"_:" not in text and b"[" not in text:
        return rows
    # A blank node is the same only within one file, and would be another in every batch: it becomes an IRI.
    where = hashlib.sha256(scope.encode("utf-8", "replace")).hexdigest()[:12]
    return [(_own(s, where), p, _own(o, where), sources) for s, p, o, sources in rows]  # type: ignore[misc]


def _own(term: Object, where: str) -> Object:
    return ox.NamedNode(f"{BLANK}{where}:{term.value}") if isinstance(term, ox.BlankNode) else term


def why(error: Exception) -> str:
    """What the parser found wrong, without the place in the block."""
    said = _WHERE.sub("", str(error.args[0] if error.args else error))
    return said[:1].lower() + said[1:]


_UNNAMED = ("s", "p", "o", "src")


def read_jsonl(lines: Iterable[Line], name: str, broken: BrokenPlaces) -> Iterator[Triple]:
    return _read(lines, name, broken, _json_row)


def read_tsv(lines: Iterable[Line], name: str, broken: BrokenPlaces) -> Iterator[Triple]:
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
        raise InvalidRow(f"it has {len(fields)} fields, not {len(columns) if columns != _UNNAMED else 3}")
    return {name: field for name, field in zip(columns, fields, strict=False) if field.strip()}


_LONGEST = 2**20
"""Bytes of a statement: one that does not end within them has lost its end."""
_BLOCK = 200
_TOKEN = re.compile(
    rb"""(?P<long>\"\"\"|''')|"(?:[^"\\\n\r]|\\.)*"|'(?:[^'\\\n\r]|\\.)*'|(?P<iri><[^<>"{}|^`\\\x00-\x20]*>)|"""
    rb"""(?P<comment>\#[^\n]*)|\\.|(?P<end>\.(?=[\s#<"'\[(@}]|$))""",
    re.VERBOSE,
)
_ENDS = {b'"""': re.compile(rb'(?:[^"\\]|\\.|"(?!""))*"""', re.DOTALL)}
_ENDS[b"'''"] = re.compile(rb"(?:[^'\\]|\\.|'(?!''))*'''", re.DOTALL)
_SPARQL_DIRECTIVE = re.compile(rb"\s*(?:prefix|base)(?=[\s<])", re.IGNORECASE)
_DIRECTIVE = re.compile(rb"\s*@?(?:prefix|base)(?=[\s<])", re.IGNORECASE)
_BEGINNING = 64


@dataclass(slots=True)
class _Scan:
    """The statement that is being collected: its first line, its text, and the quotes of a text that is open in it."""

    number: int = 0
    text: bytearray = field(default_factory=bytearray)
    quotes: bytes = b""

    def begin(self) -> None:
        self.number, self.text, self.quotes = 0, bytearray(), b""


def statements(lines: Iterable[Line], name: str, broken: BrokenPlaces) -> Iterator[tuple[int, bytes]]:
    """Statements and directives with the numbers of their first lines."""
    scan = _Scan()
    for number, line in lines:
        yield from _cut(scan, number, line)
        if len(scan.text) > _LONGEST:
            broken.line(scan.number, name, f"what begins there does not end within {_LONGEST // 2**20} MiB")
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
        elif token.lastgroup == "end" or (token.lastgroup == "iri" and _directive(scan, line[start:place])):
            text = bytes(scan.text) + line[start:place]
            yield scan.number or number, text
            scan.begin()
            start = place
    left = line[start:]
    if scan.text or left.strip():
        scan.number = scan.number or number
        scan.text += left


def _directive(scan: _Scan, text: bytes) -> bool:
    """Whether this is a directive as SPARQL writes it, which ends without a full stop."""
    beginning = bytes(scan.text[:_BEGINNING]) + text[:_BEGINNING]
    return _SPARQL_DIRECTIVE.match(beginning) is not None


def read_turtle(lines: Iterable[Line], name: str, broken: BrokenPlaces, *, scope: str = "") -> Iterator[Triple]:
    """The triples of the lines; directives hold from where they stand. `scope` is as in `read_ntriples`."""
    header, scope = b"", scope or name
    block: list[tuple[int, bytes]] = []
    for number, text in statements(lines, name, broken):
        if _DIRECTIVE.match(text):
            yield from _block(header, block, name, broken, scope)
            block = []
            header = _with(header, number, text, name, broken)
            continue
        block.append((number, text))
        if len(block) >= _BLOCK:
            yield from _block(header, block, name, broken, scope)
            block = []
    yield from _block(header, block, name, broken, scope)


def _with(header: bytes, number: int, text: bytes, name: str, broken: BrokenPlaces) -> bytes:
    try:
        list(ox.parse(header + text, format=ox.RdfFormat.TURTLE))
    except (SyntaxError, ValueError) as error:
        broken.line(number, name, why(error))
        return header
    return header if text.strip() in header.split(b"\n") else header + text.strip() + b"\n"


def _block(
    header: bytes, block: list[tuple[int, bytes]], name: str, broken: BrokenPlaces, scope: str
) -> Iterator[Triple]:
    if not block:
        return
    try:
        yield from parsed(header + b"\n".join(text for _, text in block), ox.RdfFormat.TURTLE, scope)
    except (SyntaxError, ValueError):
        for number, text in block:
            try:
                yield from parsed(header + text, ox.RdfFormat.TURTLE, scope)
            except (SyntaxError, ValueError) as error:
                broken.line(number, name, why(error))


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


def form_of(path: Path, said: str = "") -> Form:
    """The form a person named, or that the file's name tells (before .gz or .bz2)."""
    if said:
        known: tuple[Form, ...] = get_args(Form)
        if said not in known:
            raise ConfigError(f"There is no form '{said}' of triples.", f"Use one of {', '.join(known)}.")
        return known[known.index(said)]
    endings = [ending.lower() for ending in path.suffixes if ending.lower() not in (".gz", ".bz2")]
    if not endings or endings[-1] not in _ENDINGS:
        raise GraphError(
            f"The name of {path.name} does not tell its form.",
            "Name it .nt, .nq, .ttl, .tsv or .jsonl (.gz and .bz2 behind that), or give --form.",
        )
    return _ENDINGS[endings[-1]]


def scope_of(path: Path, source: str) -> str:
    """What tells the blank nodes of a file from those of all others: a name in it means nothing outside of it."""
    return f"{source}\n{path.resolve()}"


def read_triples(
    path: Path, form: Form, broken: BrokenPlaces, on_bytes: OnBytes | None = None, *, source: str = ""
) -> Iterator[Triple]:
    """The triples of a file of a source, in constant memory."""
    scope = scope_of(path, source)
    with open_unpacked(path, on_bytes) as stream:
        lines: Iterable[Line] = read_lines(stream, path.name, broken)
        if form in ("nt", "nq"):
            yield from read_ntriples(lines, path.name, broken, quads=form == "nq", scope=scope)
        elif form == "ttl":
            yield from read_turtle(lines, path.name, broken, scope=scope)
        else:
            reader = {"tsv": read_tsv, "jsonl": read_jsonl}[form]
            yield from reader(lines, path.name, broken)
