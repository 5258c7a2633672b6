"""N-Triples and N-Quads: a block of lines at a time, line by line where a block has a broken one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from itertools import islice

from hoptree.graph.oxigraph import Object, Triple, ox
from hoptree.graph.reading.broken import Broken
from hoptree.graph.reading.lines import Line
from hoptree.graph.vocabulary import BLANK

__all__ = ["parsed", "read_ntriples", "why"]

_LINES = 1_000
_WHERE = re.compile(r"^(?:Parser )?error at (?:line )?\d+.*?: ", re.IGNORECASE)


def read_ntriples(
    lines: Iterable[Line], name: str, broken: Broken, *, quads: bool = False, scope: str = ""
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
