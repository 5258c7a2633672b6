"""Reading text, Markdown and JSONL files as passages."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from hoptree.errors import CorpusError
from hoptree.values import Passage

__all__ = ["SUFFIXES", "read_passages"]

_JSONL = (".jsonl", ".jsonl.gz")
SUFFIXES = (".txt", ".md", *_JSONL)
PASSAGE_WORDS = 200
_HEADING = re.compile(r"^#{1,6}\s+(.+)$")


def read_passages(source: Path) -> Iterator[Passage]:
    """The passages of a file, or of all readable files below a folder, in the order of their names."""
    if not source.exists():
        raise CorpusError(f"There is no {source}.", "Give a folder or file of text, Markdown or JSONL.")
    if source.is_file():
        yield from _read_file(source, source.name)
        return
    found = [path for path in sorted(source.rglob("*")) if path.is_file() and path.name.endswith(SUFFIXES)]
    if not found:
        raise CorpusError(f"{source} holds no document.", f"Documents end in {', '.join(SUFFIXES)}.")
    for path in found:
        yield from _read_file(path, path.relative_to(source).as_posix())


def _read_file(path: Path, name: str) -> Iterator[Passage]:
    if not path.name.endswith(SUFFIXES):
        raise CorpusError(f"{path} is no document of a known kind.", f"Documents end in {', '.join(SUFFIXES)}.")
    try:
        with _open(path) as lines:
            yield from _read_jsonl(lines, path) if path.name.endswith(_JSONL) else _read_text(lines.read(), name)
    except (OSError, UnicodeDecodeError, EOFError, zlib.error) as error:
        raise CorpusError(f"{path} cannot be read: {error}.", "Documents are UTF-8 text.") from error


def _open(path: Path) -> IO[str]:
    return gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")


def _read_jsonl(lines: IO[str], path: Path) -> Iterator[Passage]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            yield Passage(str(row["id"]), str(row.get("title") or ""), str(row["text"]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CorpusError(
                f"Line {number} of {path} is no passage.", 'Each line is {"id": …, "title": …, "text": …}.'
            ) from error


def _read_text(text: str, name: str) -> Iterator[Passage]:
    """Paragraphs put together to passages, never across a heading; the title is the heading, or the file's name."""
    title, words, number = Path(name).stem, list[str](), 0

    def cut(size: int) -> Passage:
        nonlocal words, number
        number += 1
        text, words = " ".join(words[:size]), words[size:]
        return Passage(f"{name}#{number}", title, text)

    for paragraph in re.split(r"\n\s*\n|\n(?=#{1,6}\s)|(?<=\n)(?=#{1,6}\s)", text):
        body = paragraph.strip()
        heading = _HEADING.match(body.split("\n", 1)[0]) if body else None
        if words and (heading or len(words) + len(body.split()) > PASSAGE_WORDS):
            yield cut(PASSAGE_WORDS)
        if heading:
            title, body = heading[1].rstrip("#").rstrip() or heading[1], body.partition("\n")[2]
        words += body.split()
        while len(words) > PASSAGE_WORDS:
            yield cut(PASSAGE_WORDS)
    if words:
        yield cut(PASSAGE_WORDS)
