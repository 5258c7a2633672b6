"""N-Triples straight into the store: lines that are plain facts never become Python objects.

That takes a third of the time. Names and all else go the long way, and so does a batch with a broken line in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from hoptree.graph.oxigraph import ox
from hoptree.graph.reading.broken import Broken
from hoptree.graph.reading.files import scope_of
from hoptree.graph.reading.lines import Line
from hoptree.graph.reading.rdf import read_ntriples
from hoptree.graph.store.change import BATCH, Change
from hoptree.graph.store.provenance import graph_of
from hoptree.graph.store.translating import Translator
from hoptree.graph.vocabulary import TYPE, role

__all__ = ["load_lines"]

_PREDICATE = re.compile(rb"[ \t]*<[^<>\s]+>[ \t]+<([^<>\s\\]+)>[ \t]+(?!_)")
_REMEMBERED = 4_096


def load_lines(lines: Iterable[Line], path: Path, source: str, change: Change, broken: Broken, way: Translator) -> None:
    """Load the lines of a file as a part of `source`."""
    graph = graph_of(source, (), change.manifest.base)
    straight: dict[bytes, bool] = {}
    plain: list[Line] = []
    others: list[Line] = []
    scope = scope_of(path, source)

    def the_long_way(some: Iterable[Line]) -> None:
        change.add(way.lines(read_ntriples(some, path.name, broken, scope=scope)))

    def load_plain() -> None:
        text = b"".join(line if line.endswith(b"\n") else line + b"\n" for _, line in plain)
        try:
            change.store.bulk_load(text, ox.RdfFormat.N_TRIPLES, to_graph=graph)
            change.written += len(plain)
        except (SyntaxError, ValueError):  # what of the batch is in the store already is there once
            the_long_way(plain)
        plain.clear()

    for line in lines:
        found = _PREDICATE.match(line[1])
        if found is not None and _is_plain(found[1], straight):
            plain.append(line)
            if len(plain) >= BATCH:
                load_plain()
        else:
            others.append(line)
            if len(others) >= BATCH // 4:
                the_long_way(others)
                others.clear()
    if plain:
        load_plain()
    the_long_way(others)


def _is_plain(predicate: bytes, known: dict[bytes, bool]) -> bool:
    """Whether triples with a predicate are facts, whatever their objects."""
    answer = known.get(predicate)
    if answer is None:
        if len(known) >= _REMEMBERED:
            known.clear()
        text = predicate.decode("utf-8", "replace")
        answer = known[predicate] = text != TYPE and role(text) == "fact"
    return answer
