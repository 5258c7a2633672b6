"""A file of triples, whatever its form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, get_args

from hoptree.errors import ConfigError
from hoptree.graph.errors import GraphError
from hoptree.graph.oxigraph import Triple
from hoptree.graph.reading.broken import Broken
from hoptree.graph.reading.lines import Line, OnBytes, open_unpacked, read_lines
from hoptree.graph.reading.rdf import read_ntriples
from hoptree.graph.reading.tables import read_jsonl, read_tsv
from hoptree.graph.reading.turtle import read_turtle

__all__ = ["Form", "form_of", "read_triples", "scope_of"]

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
    path: Path, form: Form, broken: Broken, on_bytes: OnBytes | None = None, *, source: str = ""
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
