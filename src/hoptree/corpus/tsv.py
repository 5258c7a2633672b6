"""Passages as lines of tab-separated fields: DPR's psgs_w100.tsv (id, text, title), MS MARCO's collection.tsv."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from hoptree.corpus.jsonl import Row, read_lines
from hoptree.corpus.problems import Problems

__all__ = ["read_tsv"]

_UNNAMED = ["id", "text", "title"]
_OTHER_NAMES = {"pid": "id", "passage": "text"}
_TELLING = frozenset(("text", "contents", "question"))
"""Columns by which a first line shows that it names the columns."""
_EXPECTED = "A .tsv file has columns id (or _id, pid), text (or passage, contents) and title, named in its first line."


def read_tsv(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Row]:
    """Rows with the names of the first line, or id, text and title where it holds a number and a text instead.

    Any other table is passed over: nobody knows which of its columns are passages.
    """
    names: list[str] = []
    for number, line in read_lines(stream, name, problems):
        fields = [_unquoted(field) for field in line.rstrip("\r\n").split("\t")]
        if not names:
            header = [_OTHER_NAMES.get(field.strip().lower(), field.strip().lower()) for field in fields]
            if not _TELLING.isdisjoint(header):
                names = header
                continue
            if not _is_passage(fields):
                problems.note("files of an unknown kind", f"{name} is passed over. {_EXPECTED}")
                return
            names = _UNNAMED
        if len(fields) < min(2, len(names)) or len(fields) > len(names):
            problems.add("broken lines", f"Line {number} of {name} has {len(fields)} fields, not {len(names)}.")
            continue
        yield number, dict(zip(names, fields, strict=False))


def _is_passage(fields: Sequence[str]) -> bool:
    """Whether the fields are those of a passage, with no line of names before it: a number, a text, perhaps a title."""
    return 2 <= len(fields) <= len(_UNNAMED) and fields[0].strip().isdecimal() and not _is_number(fields[1])


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _unquoted(field: str) -> str:
    """The field without the quotes a writer put round it, which doubled those inside."""
    inside = field[1:-1]
    if len(field) < 2 or field[0] != '"' or field[-1] != '"' or '"' in inside.replace('""', ""):
        return field
    return inside.replace('""', '"')
