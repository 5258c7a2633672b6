"""Which questions of a data set are asked: the same ones on every machine and in every run."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from hoptree.corpus.jsonl import read_lines
from hoptree.corpus.problems import Problems
from hoptree.corpus.stream import open_bytes
from hoptree.errors import ConfigError, InputError
from hoptree.evaluation.datasets.examples import Example

__all__ = ["HALVES", "half", "half_of", "read_ids", "sample", "write_ids"]

HALVES = ("first", "second")


def half_of(key: str) -> str:
    """The half of its data set, first or second, that a question is in: its id alone decides."""
    return HALVES[hashlib.sha256(key.encode("utf-8", "replace")).digest()[0] % 2]


def half(examples: Iterable[Example], which: str) -> tuple[Example, ...]:
    """The examples of one half: choose settings on one, show them on the other."""
    if which not in HALVES:
        raise ConfigError(f"'{which}' is no half of a data set.", f"Choose {' or '.join(HALVES)}.")
    return tuple(example for example in examples if half_of(example.id) == which)


def sample(examples: Sequence[Example], count: int, seed: int = 0) -> tuple[Example, ...]:
    """So many examples drawn at random: which ones, and in what order, depends on the ids and the seed alone.

    A smaller sample is the beginning of a larger one with the same seed.
    """
    if not 0 <= count <= len(examples):
        raise InputError(
            f"{count:,} questions cannot be drawn from {len(examples):,}.", "Ask for as many as there are, or fewer."
        )
    return tuple(sorted(examples, key=lambda example: (_drawn(seed, example.id), example.id))[:count])


def _drawn(seed: int, key: str) -> bytes:
    return hashlib.sha256(f"{seed}:{key}".encode("utf-8", "replace")).digest()


def write_ids(path: Path, ids: Iterable[str]) -> None:
    """Record ids, one a line; an id that a line cannot hold as it is stands there in JSON."""
    lines = [key if _is_plain(key) else json.dumps(key) for key in ids]
    try:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.", "Name a file that can.") from error


def _is_plain(key: str) -> bool:
    return key.isprintable() and key == key.strip() and key[:1] not in ('"', "\ufeff", "")


def read_ids(path: Path) -> tuple[str, ...]:
    """The ids of a file with one a line, each once."""
    problems = Problems(limit=sys.maxsize)
    ids: dict[str, None] = {}
    try:
        with open_bytes(path) as stream:
            for line, text in read_lines(stream, path.name, problems):
                key = _id(text.strip(), f"Line {line} of {path.name}")
                if key in ids:
                    raise InputError(f"Line {line} of {path.name} repeats the id '{key}'.", "Name each id once.")
                ids[key] = None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}.", "Give a file with one id a line.") from error
    if problems.sentences:
        raise InputError(problems.sentences[0], "Give a text file with one id a line.")
    if not ids:
        raise InputError(f"{path} holds no ids.", "Write one a line.")
    return tuple(ids)


def _id(text: str, where: str) -> str:
    if text[:1] != '"':
        return text
    try:
        key = json.loads(text)
    except (ValueError, RecursionError):
        key = None
    if not isinstance(key, str):
        raise InputError(f"{where} begins with a quote and is no JSON text.", "Write the id as it is.")
    return key
