"""Read files of triples: N-Triples, N-Quads, Turtle, TSV, JSON lines."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, get_args

from hoptree.core.errors import ConfigError, GraphError
from hoptree.corpus.files import CountedFile
from hoptree.graph import vocabulary as vocab
from hoptree.graph.facts import QUANTITY, TIME
from hoptree.graph.oxigraph import Node, Object, Triple, ox

FIELDS = {
    "s": ("s", "subject", "head", "h"),
    "p": ("p", "predicate", "property", "relation", "r"),
    "o": ("o", "object", "tail", "t", "value"),
    "src": ("src", "source", "sources", "passage_id", "provenance"),
}
_IDS = {"s": ("s_id", "subject_id", "head_id"), "p": ("p_id", "property_id", "relation_id"), "o": ("o_id", "object_id")}
_ID = re.compile(r"[QP][1-9][0-9]*", re.ASCII)
_BRACKETED = re.compile(r"<([^<>\s]+)>")
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_LITERAL = re.compile(
    rf"[+-]?\d[\d.,]*(?:e[+-]?\d+)?(?:\s*%)?|[+-]?\d{{1,16}}-\d\d(?:-\d\d)?(?:T[\d:.]+Z?)?|"
    rf"(?:\d{{1,2}}(?:st|nd|rd|th)?\s+)?{_MONTH}(?:\s+\d{{1,2}})?,?\s+\d{{1,4}}(?:\s*BCE?)?|\d+(?:st|nd|rd|th) century",
    re.IGNORECASE,
)
_ENTITY_KINDS = ("wikibase-item", "wikibase-property", "wikibase-lexeme", "WikibaseItem", "WikibaseProperty")
_MAX_NAME_CHARS = 200
_node = ox.NamedNode


class InvalidRow(ValueError):
    """A row that is not a fact; the message names what is missing."""


class RowReader:
    """Turns rows into triples; rows of properties give the datatypes of values."""

    def __init__(self) -> None:
        self._datatypes: dict[str, str] = {}

    def triples(self, row: Any) -> Iterator[Triple]:
        if not isinstance(row, dict):
            raise InvalidRow("it is not an object")
        try:
            if any(field in row for field in (*FIELDS["s"], *_IDS["s"])):
                return iter(list(self._fact(row)))
            if "id" in row and ("label" in row or "aliases" in row):
                return iter(list(self._names(row)))
        except (GraphError, ValueError, TypeError, ArithmeticError) as error:
            raise InvalidRow(error.cause if isinstance(error, GraphError) else str(error)) from error
        raise InvalidRow("it has neither the fields s, p and o nor id and label")

    def _names(self, row: Mapping[str, Any]) -> Iterator[Triple]:
        identifier = _text(row["id"])
        node = ox.NamedNode(vocab.entity_iri(identifier))
        if label := _text(row.get("label") or ""):
            yield node, _node(vocab.LABEL), ox.Literal(label), ()
        aliases = row.get("aliases") or []
        for alias in aliases if isinstance(aliases, list) else [aliases]:
            yield node, _node(vocab.ALIAS), ox.Literal(_text(alias)), ()
        if description := _text(row.get("description") or ""):
            yield node, _node(vocab.DESCRIPTION), ox.Literal(description), ()
        if datatype := _text(row.get("datatype") or ""):
            self._datatypes[identifier] = datatype
            yield node, _node(vocab.DATATYPE), ox.Literal(datatype), ()

    def _fact(self, row: Mapping[str, Any]) -> Iterator[Triple]:
        parts = {name: _first(row, FIELDS[name]) for name in ("s", "p", "o")}
        ids = {name: _first(row, _IDS[name]) for name in _IDS}
        missing = [name for name in parts if parts[name] in (None, "") and not ids[name]]
        if missing:
            raise InvalidRow(f"it has no {' and no '.join(missing)}")
        given = _first(row, FIELDS["src"])
        several = given if isinstance(given, list) else [given]
        sources = tuple(sorted({text for item in several if item is not None and (text := _text(item))}))
        subject, labels = _entity(parts["s"], ids["s"], vocab.LABEL)
        identifier, names = _property(parts["p"], ids["p"])
        value, more = self._value(parts["o"], ids["o"], self._datatypes.get(identifier, ""))
        for node, predicate, name in (*labels, *names, *more):
            yield node, _node(predicate), ox.Literal(name), sources
        yield subject, _node(vocab.property_iri(identifier)), value, sources
        if row.get("qualifiers"):
            yield from self._qualified(subject, identifier, value, row["qualifiers"], sources)

    def _qualified(
        self, subject: Node, identifier: str, value: Object, qualifiers: Any, sources: tuple[str, ...]
    ) -> Iterator[Triple]:
        pairs = list(qualifiers.items()) if isinstance(qualifiers, dict) else [tuple(pair) for pair in qualifiers]
        if not all(len(pair) == 2 for pair in pairs):
            raise InvalidRow("its qualifiers are not pairs")
        digest = hashlib.sha256(repr((str(subject), identifier, str(value), pairs)).encode("utf-8", "replace"))
        statement = _node(f"urn:hoptree:statement:{digest.hexdigest()[:32]}")
        yield subject, _node(vocab.step_iri("claim", identifier)), statement, sources
        yield statement, _node(vocab.step_iri("value", identifier)), value, sources
        for name, values in pairs:
            of, names = _property(name, "")
            for item in values if isinstance(values, list) else [values]:
                qualifier, more = self._value(item, "", self._datatypes.get(of, ""))
                for node, predicate, text in (*names, *more):
                    yield node, _node(predicate), ox.Literal(text), sources
                yield statement, _node(vocab.step_iri("qualifier", of)), qualifier, sources

    def _value(self, value: Any, identifier: Any, datatype: str) -> tuple[Object, list[tuple[Node, str, str]]]:
        """Return the object of a fact, and its names."""
        if isinstance(value, dict):
            return _wikidata_value(value)
        if isinstance(value, bool | int | float) and not identifier:
            return ox.Literal(value), []
        literal = datatype not in _ENTITY_KINDS
        if not datatype:
            literal = isinstance(value, str) and bool(len(value) > _MAX_NAME_CHARS or _LITERAL.fullmatch(value.strip()))
        if not identifier and literal and not _ID.fullmatch(_text(value)):
            return ox.Literal(_text(value)), []
        return _entity(value, identifier, vocab.ALIAS)


def _wikidata_value(value: Mapping[str, Any]) -> tuple[Object, list[tuple[Node, str, str]]]:
    inner = value.get("value", value) if isinstance(value.get("value"), dict) else value
    if "time" in inner:
        precision = f"/{int(inner['precision'])}" if "precision" in inner else ""
        return ox.Literal(_text(inner["time"]) + precision, datatype=_node(TIME)), []
    if "amount" in inner:
        unit = _text(inner.get("unit") or "").removeprefix(vocab.WIKIDATA).replace(" ", "_")
        unit = "" if unit == "1" else unit
        return ox.Literal(f"{_text(inner['amount'])} {unit}".rstrip(), datatype=_node(QUANTITY)), []
    if "id" in inner:
        return _entity(inner.get("label", ""), inner["id"], vocab.ALIAS)
    if "text" in inner:
        return ox.Literal(_text(inner["text"]), language=_text(inner.get("language") or "mul")), []
    raise InvalidRow("its object is of no known kind")


def _entity(name_value: Any, identifier: Any, predicate: str) -> tuple[Node, list[tuple[Node, str, str]]]:
    """Return the node of a name with or without an id, and its name."""
    name = _text(name_value) if name_value not in (None, "") else ""
    if not identifier:
        bracketed = _BRACKETED.fullmatch(name)
        if bracketed or _ID.fullmatch(name):
            return _node(bracketed[1] if bracketed else vocab.entity_iri(name)), []
        node = _node(vocab.entity_iri(vocab.name_id(name)))
        return node, [(node, vocab.LABEL, " ".join(name.split()))]
    node = _node(vocab.entity_iri(_text(identifier)))
    return node, [(node, predicate, name)] if name else []


def _property(name_value: Any, identifier: Any) -> tuple[str, list[tuple[Node, str, str]]]:
    name = _text(name_value) if name_value not in (None, "") else ""
    if identifier:
        property_id = _text(identifier)
        return property_id, [(_node(vocab.property_entity(property_id)), vocab.LABEL, name)] if name else []
    bracketed = _BRACKETED.fullmatch(name)
    if bracketed or _ID.fullmatch(name):
        return bracketed[1] if bracketed else name, []
    return vocab.name_id(name), []


def _first(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if name in row), None)


def _text(value: Any) -> str:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise InvalidRow(f"it has {type(value).__name__} where a text belongs")
    text = str(value).encode("utf-8", "replace").decode().strip()
    return text.replace("\0", " ")


_MAX_SENTENCES = 20
_MAX_REASON_CHARS = 300


class BrokenPlaces:
    """Counts broken places up to `limit`; `cut` names truncated files."""

    def __init__(self, limit: int = 100) -> None:
        self.limit = limit
        self.count = 0
        self.cut: set[str] = set()
        self.sentences: list[str] = []

    def line(self, number: int, name: str, why: str) -> None:
        self.add(f"Line {number:,} of {name} is passed over: {' '.join(why.split())[:_MAX_REASON_CHARS].rstrip('. ')}.")

    def damaged(self, name: str, why: str) -> None:
        self.cut.add(name)
        self.add(f"{name} is damaged ({why}); what comes before is kept.")

    def add(self, sentence: str) -> None:
        self.count += 1
        if len(self.sentences) < _MAX_SENTENCES:
            self.sentences.append(sentence)
        if self.count <= self.limit:
            return
        if self.limit <= 0:
            raise GraphError(sentence, "Fix or remove it, or load with --skip-broken N to pass over N places.")
        cause = f"More than {self.limit:,} places of the files cannot be read. The last one: {sentence}"
        raise GraphError(cause, f"Fix them, or load with --skip-broken {self.limit * 10} to pass over more.")


Line = tuple[int, bytes]
OnBytes = Callable[[int], None]
_MAX_LINE_BYTES = 16 * 2**20
_BUFFER_BYTES = 2**18
DAMAGE = (EOFError, OSError, zlib.error)
_BOM = b"\xef\xbb\xbf"


@contextmanager
def open_unpacked(path: Path, on_bytes: OnBytes | None = None) -> Iterator[IO[bytes]]:
    """Open a file, decompressing gzip and bzip2 by their first bytes."""
    try:
        raw = path.open("rb", buffering=0)
    except OSError as error:
        raise GraphError(f"{path} cannot be read ({error.strerror}).", "Give a file of triples.") from error
    with raw:
        stream = io.BufferedReader(CountedFile(raw, on_bytes), _BUFFER_BYTES)
        head = stream.peek(3)[:3]
        if head[:2] == b"\x1f\x8b":
            yield io.BufferedReader(gzip.GzipFile(fileobj=stream), _BUFFER_BYTES)
        elif head == b"BZh":
            yield bz2.BZ2File(stream)
        else:
            if head == _BOM:
                stream.read(len(_BOM))
            yield stream


def read_lines(stream: IO[bytes], name: str, broken: BrokenPlaces) -> Iterator[Line]:
    """Yield lines; long or truncated ones are broken places."""
    number = 0
    try:
        while raw := stream.readline(_MAX_LINE_BYTES):
            number += 1
            if len(raw) == _MAX_LINE_BYTES and not raw.endswith(b"\n"):
                broken.line(number, name, f"it is longer than {_MAX_LINE_BYTES // 2**20} MiB")
                while raw and not raw.endswith(b"\n"):
                    raw = stream.readline(_MAX_LINE_BYTES)
                continue
            yield number, raw
    except DAMAGE as error:
        broken.damaged(name, f"behind line {number:,}: {error}")


_LINES_PER_BLOCK = 1_000
_POSITION = re.compile(r"^(?:Parser )?error at (?:line )?\d+.*?: ", re.IGNORECASE)


def read_ntriples(
    lines: Iterable[Line], name: str, broken: BrokenPlaces, *, quads: bool = False, scope: str = ""
) -> Iterator[Triple]:
    """Yield triples of N-Triples or N-Quads; blank nodes belong to `scope`."""
    form, scope = ox.RdfFormat.N_QUADS if quads else ox.RdfFormat.N_TRIPLES, scope or name
    unread = iter(lines)
    while block := list(islice(unread, _LINES_PER_BLOCK)):
        yield from _named_triples(_parse_block(block, form, name, broken), scope)


def _parse_block(block: list[Line], form: ox.RdfFormat, name: str, broken: BrokenPlaces) -> Iterator[ox.Quad]:
    """Yield the quads of lines, parsed together, or one by one if that fails."""
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
    prefix = f"{vocab.BLANK}{hashlib.sha256(scope.encode('utf-8', 'replace')).hexdigest()[:12]}:"
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
        raise InvalidRow(f"it is not JSON ({error.msg})") from error
    except (ValueError, RecursionError) as error:
        raise InvalidRow("it is not JSON in UTF-8, or is nested too deeply") from error


def _tsv_row(line: bytes, columns: tuple[str, ...]) -> dict[str, str]:
    try:
        fields = line.decode().rstrip("\r\n").split("\t")
    except UnicodeDecodeError as error:
        raise InvalidRow("it is not UTF-8 text") from error
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
        raise GraphError(cause, "Fix it; only in N-Triples can broken lines be passed over.") from error
    except (*DAMAGE, MemoryError) as error:  # the last: a literal of over 16 MiB
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
