"""Turtle: cut into statements by a scanner that knows only where texts, IRIs and comments end, then parsed in blocks.

So a broken statement costs that statement and not the rest of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hoptree.graph.oxigraph import Triple, ox
from hoptree.graph.reading.broken import Broken
from hoptree.graph.reading.lines import Line
from hoptree.graph.reading.rdf import parsed, why

__all__ = ["read_turtle", "statements"]

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


def statements(lines: Iterable[Line], name: str, broken: Broken) -> Iterator[tuple[int, bytes]]:
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


def read_turtle(lines: Iterable[Line], name: str, broken: Broken, *, scope: str = "") -> Iterator[Triple]:
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


def _with(header: bytes, number: int, text: bytes, name: str, broken: Broken) -> bytes:
    try:
        list(ox.parse(header + text, format=ox.RdfFormat.TURTLE))
    except (SyntaxError, ValueError) as error:
        broken.line(number, name, why(error))
        return header
    return header if text.strip() in header.split(b"\n") else header + text.strip() + b"\n"


def _block(header: bytes, block: list[tuple[int, bytes]], name: str, broken: Broken, scope: str) -> Iterator[Triple]:
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
