"""Passages as lines of tab-separated fields: DPR's psgs_w100.tsv (id, text, title), MS MARCO's collection.tsv."""

from __future__ import annotations

import io
from collections.abc import Iterator

from hoptree.corpus.jsonl import Row, read_lines
from hoptree.corpus.problems import Problems

__all__ = ["read_tsv"]


def read_tsv(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Row]:
    """Rows with the names of the first line, or id, text and title where the first line names no `text`."""
    names = ["id", "text", "title"]
    for number, line in read_lines(stream, name, problems):
        fields = [_unquoted(field) for field in line.rstrip("\r\n").split("\t")]
        if number == 1:
            header = [field.strip().lower() for field in fields]
            if "text" in header:
                names = header
                continue
        if len(fields) < 2 or len(fields) > len(names):
            problems.add("broken lines", f"Line {number} of {name} has {len(fields)} fields, not {len(names)}.")
            continue
        yield number, dict(zip(names, fields, strict=False))


def _unquoted(field: str) -> str:
    """The field without the quotes a writer put round it, which doubled those inside."""
    inside = field[1:-1]
    if len(field) < 2 or field[0] != '"' or field[-1] != '"' or '"' in inside.replace('""', ""):
        return field
    return inside.replace('""', '"')
