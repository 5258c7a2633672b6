"""Read the rows of question files: JSON Lines, JSON arrays, or tables."""

from __future__ import annotations

import ast
import csv
import io
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from hoptree.core.errors import InputError
from hoptree.corpus.document import Problems
from hoptree.corpus.files import Damaged, SourceFile, bom_encoding, open_bytes
from hoptree.corpus.json_rows import Row, read_json_values, read_lines, unquoted, without_surrogates
from hoptree.corpus.read import read_rows


class Fields:
    """A row of a file, or an object inside it, with checked access to its fields."""

    def __init__(
        self, row: object, where: str, form: str, aliases: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        self._where, self._form, self._aliases = where, form, aliases or {}
        if not isinstance(row, dict):
            raise self.wrong("holds no question")
        self.row: dict[str, Any] = row

    def wrong(self, what: str) -> InputError:
        """Return an error about the row."""
        if self._form == "own":
            remedy = 'Each row is a JSON object with a text "question" and, to score answers, a list "answers".'
        else:
            remedy = f"The file was read in the form of {self._form}: all of its rows must be of it."
        return InputError(f"{self._where}{'' if what.startswith(':') else ' '}{what}.", remedy)

    def aliases(self, key: str) -> tuple[str, ...]:
        """Return the aliases of an entity or answer, by its id."""
        return self._aliases.get(key, ())

    def question(self, *names: str) -> str:
        """Return the question in the first of these fields."""
        text = self.text(*names)
        if not text:
            raise self.wrong("holds no question")
        return text

    def text(self, *names: str) -> str:
        """Return the text or number in the first of these fields that exists, or ""."""
        value = self.get(*names)
        text = "" if value is None else _text(value)
        if text is None:
            raise self.wrong(f': "{self._present(names)}" is not text')
        return text

    def texts(self, *names: str, of: str = "texts") -> tuple[str, ...]:
        """Return the non-blank texts of a list."""
        value = self.get(*names)
        if isinstance(value, str) and value.lstrip()[:1] == "[":
            value = _unpacked(value)
        if value is None:
            return ()
        texts = ["" if item is None else _text(item) for item in value] if isinstance(value, list) else [None]
        if None in texts:
            raise self.wrong(f': "{self._present(names)}" is not a list of {of}')
        pairs = zip(value, texts, strict=True)
        return tuple(item if of == "names" and isinstance(item, str) else text for item, text in pairs if text)

    def whole(self, name: str) -> int:
        """Return a non-negative whole number; 0 if the field is missing."""
        value = 0 if self.row.get(name) is None else self.row[name]
        if type(value) is not int or value < 0:
            raise self.wrong(f': "{name}" is not a whole number')
        return value

    def items(self, name: str) -> list[Any]:
        """Return the items of a list; the list may be JSON inside a text."""
        value = self.row.get(name)
        if isinstance(value, str):
            value = _unpacked(value) if value.strip() else None
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.wrong(f': "{name}" is not a list')
        return value

    def part(self, name: str) -> Fields:
        """Return an object inside this one; an empty one if it is missing."""
        value = self.row.get(name)
        return self._inside(name, {} if value is None else value)

    def parts(self, name: str) -> list[Fields]:
        return [self._inside(name, item) for item in self.items(name)]

    def rows(self, name: str, width: int) -> list[tuple[Any, ...]]:
        """Return the items of a list of lists, each with at least `width` values."""
        items = self.items(name)
        if not all(isinstance(item, list) and len(item) >= width for item in items):
            raise self.wrong(f': "{name}" is not a list of lists of {width} values')
        return [tuple(item) for item in items]

    def get(self, *names: str) -> Any:
        """Return the first of these fields that is not null."""
        return next((value for name in names if (value := self.row.get(name)) is not None), None)

    def _present(self, names: Iterable[str]) -> str:
        return next(name for name in names if self.row.get(name) is not None)

    def _inside(self, name: str, value: object) -> Fields:
        if not isinstance(value, dict):
            raise self.wrong(f': "{name}" holds something that is not a JSON object')
        return Fields(value, self._where, self._form, self._aliases)


def distinct(*groups: Iterable[str]) -> tuple[str, ...]:
    """Return the non-blank texts, each once, in order."""
    return tuple(dict.fromkeys(text for group in groups for text in group if text.strip()))


def spaced(title: str) -> str:
    """Collapse white space in a title."""
    return " ".join(title.split())


def _text(value: object) -> str | None:
    """Return a text, number or boolean as text; None for other values."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return str(value)
    return None


def _unpacked(text: str) -> Any:
    """Return the value that a text holds as JSON or Python; else the text itself."""
    for parse in (json.loads, ast.literal_eval):
        try:
            return without_surrogates(parse(text.strip()), text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return text


_HEADLESS = {2: ("question", "answer"), 4: ("subject", "relation", "object", "question")}
"""Columns of tables without a header: open-domain questions with answers, and SimpleQuestions."""
_QUESTION_NAMES = frozenset(("question", "query-id"))
_WRAPPED = re.compile(
    r"""\s*\{(?:\s*"[^"\\]*"\s*:\s*(?:"[^"\\]*"|\{[^{}]*\}|[\w.+-]+)\s*,)*\s*"(?:Data|Questions|questions)"\s*:\s*\["""
)
"""The start of an object around the array of questions: TriviaQA, WebQSP, QALD."""


def read_question_rows(path: Path) -> Iterator[Row]:
    """Yield rows with their line numbers; a broken row is an error."""
    problems = Problems(limit=sys.maxsize)
    for row in chain(read_sound_rows(path, problems), (None,)):
        if problems.sentences:
            raise InputError(problems.sentences[0], "Fix the file: every question counts.")
        if row is not None:
            yield row


def read_sound_rows(path: Path, problems: Problems, on_bytes: Callable[[int], None] | None = None) -> Iterator[Row]:
    """Yield the valid rows; add broken ones to `problems`."""
    file, exists = None, False
    with suppress(OSError, ValueError):
        exists = path.exists()
        file = SourceFile(path, path.name, path.stat().st_size, 0) if path.is_file() else None
    if file is None:
        cause = f"{path} is not a file." if exists else f"There is no {path}."
        remedy = "Give a file of questions, 'sample', or a folder in BEIR's form with queries.jsonl and qrels."
        raise InputError(cause, remedy)
    try:
        with open_bytes(file.path) as stream:
            raw = stream.peek(2**16)[: 2**16]
        head = raw.decode(bom_encoding(raw) or "utf-8", "ignore").lstrip("\ufeff")
        first = head.lstrip()[:1]
        is_table = first not in ("{", "[", "")
        if first == '"':
            is_table = file.name.lower().removesuffix(".gz").endswith((".csv", ".tsv", ".txt"))
        if _WRAPPED.match(head) or is_table:
            with open_bytes(file.path, on_bytes) as stream:
                if is_table:
                    yield from _table(stream, file.name, "\t" if "\t" in head.partition("\n")[0] else ",", problems)
                else:
                    yield from read_json_values(stream, file.name, problems, around=_WRAPPED)
            return
    except OSError as error:
        reason = error if isinstance(error, Damaged) else error.strerror or error
        problems.add("unreadable files", f"{file.name} cannot be read: {reason}.", cuts=True)
        return
    yield from read_rows(file, problems=problems, on_bytes=on_bytes)


def _table(stream: io.BufferedReader, name: str, delimiter: str, problems: Problems) -> Iterator[Row]:
    """Yield rows with names from the header, or else by the number of fields."""
    names: tuple[str, ...] = ()
    for line, fields in _cells(stream, name, delimiter, problems):
        if not names:
            header = tuple(field.strip() for field in fields)
            if any(field.casefold() in _QUESTION_NAMES for field in header):
                names = header
                continue
            names = _HEADLESS.get(len(fields), ())
            if not names:
                count = f"{len(fields)} {'field' if len(fields) == 1 else 'fields'}"
                sentence = f"Line {line} of {name} has {count} and no known names for them."
                problems.add("broken lines", sentence, cuts=True)
                return
        if len(fields) != len(names):
            problems.add("broken lines", f"Line {line} of {name} has {len(fields)} fields, not {len(names)}.")
            continue
        yield line, dict(zip(names, fields, strict=True))


def _cells(stream: io.BufferedReader, name: str, delimiter: str, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """Yield the fields of each row; tab-separated fields keep quotes inside them."""
    if delimiter == "\t":
        for line, text in read_lines(stream, name, problems):
            yield line, [unquoted(field) for field in text.rstrip("\r\n").split("\t")]
        return
    last = 0

    def lines() -> Iterator[str]:
        nonlocal last
        for last, text in read_lines(stream, name, problems):  # noqa: B007 - `last` is used outside
            yield text

    try:
        for fields in csv.reader(lines(), delimiter=delimiter, strict=True):
            yield last, fields
    except csv.Error as error:
        problems.add("broken lines", f"Line {last} of {name} is not a row of a table: {error}.", cuts=True)


def read_aliases(path: Path) -> dict[str, tuple[str, ...]]:
    """Read aliases by id; rows with the same id add up."""
    names: dict[str, tuple[str, ...]] = {}
    for line, row in read_question_rows(path):
        fields = Fields(row, f"Line {line} of {path.name}", "aliases")
        key = fields.text("Q_id", "qas_id", "id")
        if not key:
            raise fields.wrong("names nothing that has aliases (Q_id, qas_id or id)")
        given = [[fields.text("label")], [fields.text("answer")], fields.texts("aliases"), fields.texts("demonyms")]
        names[key] = distinct(names.get(key, ()), *given)
    if not names:
        raise InputError(f"{path} holds no aliases.", 'Each row has a "Q_id" and a list "aliases".')
    return names
