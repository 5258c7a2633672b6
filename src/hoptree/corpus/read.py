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
_HEADING = re.compile(r"^(#{1,6})\s+(.+)$")
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def read_passages(source: Path) -> Iterator[Passage]:
    """The passages of a file, or of all readable files below a folder, in the order of their names."""
    if not source.exists():
        raise CorpusError(f"There is no {source}.", "Give a folder or file of text, Markdown or JSONL.")
    if source.is_file():
        yield from _read_file(source, source.name)
        return
    found = [
        path
        for path in sorted(source.rglob("*"))
        if path.is_file()
        and path.name.lower().endswith(SUFFIXES)
        and not any(part.startswith(".") for part in path.relative_to(source).parts)
    ]
    if not found:
        raise CorpusError(f"{source} holds no document.", f"Documents end in {', '.join(SUFFIXES)}.")
    for path in found:
        yield from _read_file(path, path.relative_to(source).as_posix())


def _read_file(path: Path, name: str) -> Iterator[Passage]:
    if not path.name.lower().endswith(SUFFIXES):
        raise CorpusError(f"{path} is no document of a known kind.", f"Documents end in {', '.join(SUFFIXES)}.")
    try:
        with _open(path) as lines:
            yield from (
                _read_jsonl(lines, path) if path.name.lower().endswith(_JSONL) else _read_text(lines.read(), name)
            )
    except (OSError, UnicodeDecodeError, EOFError, zlib.error) as error:
        raise CorpusError(
            f"{path} cannot be read: {error}.", "Convert it to UTF-8 text, or move it out of the folder."
        ) from error


def _open(path: Path) -> IO[str]:
    return (
        gzip.open(path, "rt", encoding="utf-8-sig") if path.suffix.lower() == ".gz" else path.open(encoding="utf-8-sig")
    )


def _read_jsonl(lines: IO[str], path: Path) -> Iterator[Passage]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if not isinstance(row["text"], str) or not isinstance(row["id"], str | int):
                raise TypeError("id and text")
            yield Passage(str(row["id"]), str(row.get("title") or ""), row["text"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CorpusError(
                f"Line {number} of {path} is no passage.", 'Each line is {"id": …, "title": …, "text": …}.'
            ) from error


def _read_text(text: str, name: str) -> Iterator[Passage]:
    """Paragraphs put together to passages, never across a heading.

    The title is the path of headings down to the passage, since "Family" alone does not say whose; or the file's name.
    """
    title, words, number = Path(name).stem, list[str](), 0
    above: list[tuple[int, str]] = []
    text = _FENCED.sub(lambda code: code[0].replace("\n#", "\n #"), text)  # a comment in code is no heading

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
            level, said = len(heading[1]), heading[2].rstrip("#").rstrip() or heading[2]
            above = [(depth, higher) for depth, higher in above if depth < level] + [(level, said)]
            title, body = " › ".join(higher for _, higher in above), body.partition("\n")[2]
        words += body.split()
        while len(words) > PASSAGE_WORDS:
            yield cut(PASSAGE_WORDS)
    if words:
        yield cut(PASSAGE_WORDS)
