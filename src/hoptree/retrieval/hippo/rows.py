"""Facts with their passages, as `hoptree graph extract` writes them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from hoptree.errors import InputError
from hoptree.values import Fact

__all__ = ["FACTS", "read_facts"]

FACTS = "facts.jsonl"
_NAMES = {"subject": ("s", "subject"), "relation": ("p", "relation"), "object": ("o", "object")}
_FORM = 'A line is {"s": SUBJECT, "p": RELATION, "o": OBJECT, "src": [PASSAGE ID]}.'


def read_facts(path: Path) -> Iterator[Fact]:
    """The facts of an extraction's folder, or of its `facts.jsonl`, packed with gzip or not; one for each passage."""
    file = path / FACTS if path.is_dir() else path
    if not file.is_file():
        raise InputError(
            f"There are no facts at {path}." if file == path else f"{path} holds no {FACTS}.",
            "Make them: hoptree graph extract CORPUS --out FOLDER",
        )
    try:
        with _opened(file) as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield from _facts_of(line, number, file)
    except (OSError, EOFError) as error:
        raise InputError(f"{file} cannot be read: {error}.", "Give a file of facts that can.") from error


def _opened(file: Path) -> IO[bytes]:
    with file.open("rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
    return gzip.open(file) if packed else file.open("rb")  # type: ignore[return-value]


def _facts_of(line: bytes, number: int, file: Path) -> Iterator[Fact]:
    try:
        row: dict[str, Any] = json.loads(line)
        subject, relation, object_ = (_text(row, names) for names in _NAMES.values())
        passages = row.get("src", row.get("passage_id"))
        passages = [passages] if isinstance(passages, str) else passages
        if not isinstance(passages, list) or not passages or not all(isinstance(one, str) and one for one in passages):
            raise ValueError("it names no passage")
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"Line {number} of {file} is no fact of a passage ({error}).", _FORM) from error
    for passage in dict.fromkeys(passages):
        yield Fact(subject, relation, object_, passage_id=passage)


def _text(row: dict[str, Any], names: tuple[str, ...]) -> str:
    said = next((row[name] for name in names if name in row), None)
    if not isinstance(said, str) or not said.strip():
        raise ValueError(f"no text for '{names[0]}'")
    return " ".join(said.split())
