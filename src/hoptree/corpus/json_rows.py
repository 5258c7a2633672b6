"""Reading a JSON file value by value: the items of an array, or values one after another, never the whole file."""

from __future__ import annotations

import codecs
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from hoptree.corpus.document import Problems
from hoptree.corpus.files import Damaged, bom_encoding, looks_binary

Row = tuple[int, Any]
"""The number of the line where it begins, and what JSON it holds."""

LONGEST_LINE = 64 * 2**20
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_HALVES = re.compile("[\ud800-\udfff]")


def read_lines(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers; one that is not UTF-8 or far too long is passed over."""
    head = stream.peek(8192)[:8192]
    if looks_binary(head):
        problems.add("files that are no text", f"{name} is no text: it is binary.")
        return
    encoding = bom_encoding(head)
    if encoding == "utf-8-sig":
        stream.read(3)
    try:
        if encoding in ("", "utf-8-sig"):
            yield from _utf8_lines(stream, name, problems)
        else:
            with io.TextIOWrapper(stream, encoding, newline="\n") as text:
                yield from ((number, line) for number, line in enumerate(text, 1) if not line.isspace())
    except Damaged as error:
        problems.add("damaged archives", f"{name} is damaged: {error}; what came before is kept.", cuts=True)
    except UnicodeError as error:
        problems.add("files that are no text", f"{name} is no {encoding} text: {error}.", cuts=True)


def _utf8_lines(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[tuple[int, str]]:
    number = 0
    readline = stream.readline
    while raw := readline(LONGEST_LINE):
        number += 1
        if len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
            problems.add(
                "oversized lines or files",
                f"Line {number} of {name} is longer than {LONGEST_LINE // 2**20} MiB.",
            )
            while raw and not raw.endswith(b"\n"):
                raw = readline(LONGEST_LINE)
            continue
        try:
            line = raw.decode()
        except UnicodeDecodeError:
            problems.add("broken lines", f"Line {number} of {name} is no UTF-8 text.")
            continue
        if not line.isspace():
            yield number, line


def read_json_lines(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Row]:
    """A JSON value a line; a line that is none is passed over."""
    for number, line in read_lines(stream, name, problems):
        try:
            row, end = _decode(line if line[0] == "{" else (line := line.lstrip()))
            if "\\u" in line:
                row = mended(row, line)
        except (ValueError, RecursionError) as error:
            problems.add("broken lines", f"Line {number} of {name} is no JSON: {why_no_json(error)}.")
            continue
        if line[end:].strip():
            problems.add("broken lines", f"Line {number} of {name} is no JSON: more follows after its end.")
            continue
        yield number, row


def why_no_json(error: Exception) -> str:
    """Half a sentence on what json found wrong."""
    if isinstance(error, json.JSONDecodeError):
        said = error.msg.rstrip(": ").removesuffix(" at").removesuffix(" starting")  # where, is said elsewhere
        return f"{said[:1].lower()}{said[1:]}"
    return "it is nested too deeply" if isinstance(error, RecursionError) else "a number in it is too long"


def mended(value: Any, said: str) -> Any:
    """The value that `said` stands for, with halves of characters, which no file can hold, replaced."""
    return _replaced(value) if _HALF.search(said) else value


def _replaced(value: Any) -> Any:
    if isinstance(value, str):
        return _HALVES.sub("\ufffd", value)
    if isinstance(value, list):
        return [_replaced(item) for item in value]
    if isinstance(value, dict):
        return {_replaced(key): _replaced(item) for key, item in value.items()}
    return value


_BLOCK = 2**18
_SPACE = re.compile(r"[\s,]*")
_decode = json.JSONDecoder().raw_decode


def read_json_values(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Row]:
    """The items of the file's arrays and its other values, in order; after a broken one the rest is passed over."""
    if looks_binary(stream.peek(8192)[:8192]):
        problems.add("files that are no text", f"{name} is no text: it is binary.")
        return
    try:
        yield from _Reader(stream).values()
    except Damaged as error:
        problems.add("damaged archives", f"{name} is damaged: {error}; what came before is kept.", cuts=True)
    except UnicodeError:
        problems.add("files that are no text", f"{name} is no UTF-8 text; what came before is kept.", cuts=True)
    except _Broken as error:
        said = f"Line {error.line} of {name} is no JSON: {error}; the rest is passed over."
        problems.add("broken lines", said, cuts=True)


class _Broken(Exception):
    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


class _Reader:
    """A window on the text that moves on behind each value and grows until the next one fits."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream = stream
        encoding = bom_encoding(stream.peek(4)[:4]) or "utf-8"
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._text = ""
        self._at = 0
        self._line = 1
        self._ended = False

    def values(self) -> Iterator[Row]:
        inside = False
        while self._skip_space():
            character = self._text[self._at]
            if character == ("]" if inside else "["):
                inside = not inside
                self._at += 1
                continue
            line = self._line
            yield line, self._value()
        if inside:
            raise _Broken(self._line, "it ends inside an array")

    def _more(self, size: int) -> bool:
        """Read on; False at the end of the file. What lies behind is forgotten."""
        if self._ended:
            return False
        block = self._stream.read1(size)
        self._ended = not block
        self._text = self._text[self._at :] + self._decoder.decode(block, final=self._ended)
        self._at = 0
        return True

    def _skip_space(self) -> bool:
        while True:
            match = _SPACE.match(self._text, self._at)
            end = match.end() if match else self._at
            self._move(end)
            if end < len(self._text):
                return True
            if not self._more(_BLOCK):
                return False

    def _move(self, end: int) -> None:
        self._line += self._text.count("\n", self._at, end)
        self._at = end

    def _value(self) -> Any:
        size = _BLOCK
        while True:
            try:
                value, end = _decode(self._text, self._at)
                if end < len(self._text) or not self._more(size):  # else a number may go on
                    return self._taken(value, end)
            except json.JSONDecodeError as error:
                unfinished = error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - 16
                if not unfinished or len(self._text) - self._at > LONGEST_LINE or not self._more(size):
                    raise _Broken(self._line, why_no_json(error)) from error
                size = min(size * 2, LONGEST_LINE)  # so that each character is looked at a few times only
                continue
            except (ValueError, RecursionError) as error:
                raise _Broken(self._line, why_no_json(error)) from error

    def _taken(self, value: Any, end: int) -> Any:
        said = self._text[self._at : end]
        self._move(end)
        return mended(value, said)


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
