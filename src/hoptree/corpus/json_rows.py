"""Read rows of JSON Lines, JSON, CSV and TSV files one at a time."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice, pairwise
from typing import Any

from hoptree.corpus.document import Document, Problems, TextBuilder
from hoptree.corpus.files import Damaged, bom_encoding, decode, is_binary, read_text, stem, text_document
from hoptree.corpus.kinds import suffix_of

Row = tuple[int, Any]
"""The number of the line where a row begins, and its value."""

MAX_LINE_BYTES = 64 * 2**20
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_BLOCK_BYTES = 2**18
_SPACE = re.compile(r"[\s,]*")
_decode = json.JSONDecoder().raw_decode


def read_lines(
    stream: io.BufferedReader, name: str, problems: Problems, *, guess: bool = False
) -> Iterator[tuple[int, str]]:
    """Yield non-blank lines with their numbers; skip and report broken ones.

    With `guess`, lines that are not UTF-8 are read in another encoding.
    """
    if is_binary(stream, name, problems):
        return
    encoding = bom_encoding(stream.peek(4)[:4])
    if encoding == "utf-8-sig":
        stream.read(3)
    try:
        if encoding in ("", "utf-8-sig"):
            yield from _utf8_lines(stream, name, problems, guess)
        else:
            with io.TextIOWrapper(stream, encoding, newline="\n") as text:
                yield from ((number, line) for number, line in enumerate(text, 1) if not line.isspace())
    except Damaged as error:
        problems.add("damaged archives", f"{name} is damaged: {error}; what came before is kept.", cuts=True)
    except UnicodeError as error:
        problems.add("files that are not text", f"{name} is not {encoding} text: {error}.", cuts=True)


def _utf8_lines(stream: io.BufferedReader, name: str, problems: Problems, guess: bool) -> Iterator[tuple[int, str]]:
    number, noted = 0, False
    readline = stream.readline
    while raw := readline(MAX_LINE_BYTES):
        number += 1
        if len(raw) == MAX_LINE_BYTES and not raw.endswith(b"\n"):
            sentence = f"Line {number} of {name} is longer than {MAX_LINE_BYTES // 2**20} MiB."
            problems.add("oversized lines or files", sentence)
            while raw and not raw.endswith(b"\n"):
                raw = readline(MAX_LINE_BYTES)
            continue
        try:
            line = raw.decode()
        except UnicodeDecodeError:
            line, encoding = decode(raw) if guess else ("", "")
            if encoding and not line.isspace():
                if not noted:
                    sentence = f"{name} is not UTF-8 text; lines were read as {encoding}."
                    problems.note("texts that are not UTF-8", sentence)
                noted = True
                yield number, line
                continue
            problems.add("broken lines", f"Line {number} of {name} is not UTF-8 text.")
            continue
        if not line.isspace():
            yield number, line


def read_json_lines(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Row]:
    """Yield the JSON value of each line; skip and report lines that are not JSON."""
    for number, line in read_lines(stream, name, problems):
        try:
            row, end = _decode(line if line[0] == "{" else (line := line.lstrip()))
            if "\\u" in line:
                row = without_surrogates(row, line)
        except (ValueError, RecursionError) as error:
            problems.add("broken lines", f"Line {number} of {name} is not JSON: {why_no_json(error)}.")
            continue
        if line[end:].strip():
            problems.add("broken lines", f"Line {number} of {name} is not JSON: more follows after its end.")
            continue
        yield number, row


def why_no_json(error: Exception) -> str:
    """Return in half a sentence why a text is not JSON."""
    if isinstance(error, json.JSONDecodeError):
        reason = error.msg.rstrip(": ").removesuffix(" at").removesuffix(" starting")  # the caller says where
        return f"{reason[:1].lower()}{reason[1:]}"
    return "it is nested too deeply" if isinstance(error, RecursionError) else "a number in it is too long"


def without_surrogates(value: Any, source: str) -> Any:
    """Replace lone surrogates in the value of a JSON text: they cannot be encoded."""
    return _replace_surrogates(value) if _SURROGATE_ESCAPE.search(source) else value


def _replace_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_replace_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_replace_surrogates(key): _replace_surrogates(item) for key, item in value.items()}
    return value


def read_json_values(
    stream: io.BufferedReader, name: str, problems: Problems, around: re.Pattern[str] | None = None
) -> Iterator[Row]:
    """Yield the values of a JSON file, or the items of its arrays, up to a broken one.

    `around` matches the beginning of an object up to the array in it whose items are wanted.
    """
    if is_binary(stream, name, problems):
        return
    try:
        reader = _Reader(stream)
        yield from reader.values() if around is None else reader.inner(around)
    except Damaged as error:
        problems.add("damaged archives", f"{name} is damaged: {error}; what came before is kept.", cuts=True)
    except UnicodeError:
        problems.add("files that are not text", f"{name} is not UTF-8 text; what came before is kept.", cuts=True)
    except _Broken as error:
        sentence = f"Line {error.line} of {name} is not JSON: {error}; the rest is passed over."
        problems.add("broken lines", sentence, cuts=True)


def read_json_pairs(stream: io.BufferedReader, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of a file that is one JSON object."""
    try:
        yield from _Reader(stream).pairs()
    except (Damaged, UnicodeError) as error:
        raise ValueError(f"{name} is damaged: {error}") from error
    except _Broken as error:
        raise ValueError(f"Line {error.line} of {name} is not JSON: {error}") from error


class _Broken(Exception):
    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


class _Reader:
    """Parses JSON values one by one in a window that grows until the next value fits."""

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
            if self._text[self._at] == ("]" if inside else "["):
                inside = not inside
                self._at += 1
                continue
            line = self._line
            yield line, self._value()
        if inside:
            raise _Broken(self._line, "it ends inside an array")

    def inner(self, around: re.Pattern[str]) -> Iterator[Row]:
        """Yield the items of an array inside an object."""
        while (match := around.match(self._text)) is None and self._more(_BLOCK_BYTES):
            pass
        start = match[0] if match else ""
        self._move(len(start))
        while self._skip_space() and self._text[self._at] != "]":
            line = self._line
            yield line, self._value()
        while self._more(_BLOCK_BYTES):
            pass
        try:
            json.loads(start + self._text[self._at :])
        except (ValueError, RecursionError) as error:
            raise _Broken(self._line, why_no_json(error)) from error

    def pairs(self) -> Iterator[tuple[str, Any]]:
        """Yield the members of the object that the text is."""
        self._expect("{")
        while self._skip_space() and self._text[self._at] != "}":
            key = self._value()
            self._expect(":")
            if not isinstance(key, str) or not self._skip_space():
                raise _Broken(self._line, "a name with its value is missing")
            yield key, self._value()
        self._expect("}")

    def _expect(self, character: str) -> None:
        if not self._skip_space() or self._text[self._at] != character:
            raise _Broken(self._line, f"{character} is missing")
        self._at += 1

    def _more(self, size: int) -> bool:
        """Read more text, and drop what was parsed; False at the end of the file."""
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
            if not self._more(_BLOCK_BYTES):
                return False

    def _move(self, end: int) -> None:
        self._line += self._text.count("\n", self._at, end)
        self._at = end

    def _value(self) -> Any:
        size = _BLOCK_BYTES
        while True:
            try:
                value, end = _decode(self._text, self._at)
                if end < len(self._text) or not self._more(size):  # else a number may continue
                    source = self._text[self._at : end]
                    self._move(end)
                    return without_surrogates(value, source)
            except json.JSONDecodeError as error:
                unfinished = error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - 16
                if not unfinished or len(self._text) - self._at > MAX_LINE_BYTES or not self._more(size):
                    raise _Broken(self._line, why_no_json(error)) from error
                size = min(size * 2, MAX_LINE_BYTES)  # so that no character is parsed many times
                continue
            except (ValueError, RecursionError) as error:
                raise _Broken(self._line, why_no_json(error)) from error


_DEFAULT_COLUMNS = ["id", "text", "title"]
_COLUMN_SYNONYMS = {"pid": "id", "passage": "text"}
_HEADER_COLUMNS = frozenset(("text", "contents", "question"))
"""A first line with one of these has the names of the columns."""
_SEPARATORS = ",;\t|"
_MAX_TABLE_CHARS = 32 * 2**20  # of JSON that is read as a table
_HEAD_LINES = 10  # of a table that are searched for its separator
_MAX_CELL_CHARS = 2**20

_ROW_KEYS = re.compile(rb'"(?:text|contents|question|paragraphs|context)"\s*:')
_PASSAGE_FIELDS = frozenset(("text", "contents", "paragraphs", "context"))
_ID_KEYS = re.compile(rb'"_?id"\s*:')
_OBJECT = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[?\s*\{\s*(?:\}|\"[^\"]*\"\s*:)")

_AROUND = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{\s*\"[^\"]*\"\s*:\s*\[\s*\{")


def holds_other_json(stream: io.BufferedReader) -> bool:
    """Return whether a JSON file holds neither passages nor questions."""
    head = stream.peek(_BLOCK_BYTES)[:_BLOCK_BYTES]
    if _ROW_KEYS.search(head):
        return False
    if _first_value(head) is None:  # broken, or longer than the head
        return bool(_AROUND.match(head) or (_OBJECT.match(head) and not _ID_KEYS.search(head)))
    return True


def holds_questions(stream: io.BufferedReader) -> bool:
    """Return whether the first row of a JSON file is a question without passages."""
    row = _first_value(stream.peek(_BLOCK_BYTES)[:_BLOCK_BYTES])
    return isinstance(row, dict) and isinstance(row.get("question"), str) and _PASSAGE_FIELDS.isdisjoint(row)


def _first_value(head: bytes) -> Any:
    """Return the first value or item of a JSON text; None if it may be cut off."""
    text = head.decode("utf-8-sig", "replace").lstrip()
    try:
        value, end = _decode(text, len(text) - len(text.removeprefix("[").lstrip()))
    except (ValueError, RecursionError):
        return None
    return value if end < len(text) or isinstance(value, dict | list) else None


def holds_passages(stream: io.BufferedReader, separator: str) -> bool:
    """Return whether the rows of a CSV or TSV file are passages."""
    head = stream.peek(_BLOCK_BYTES)[:_BLOCK_BYTES]
    first = next((line for line in decode(head)[0].lstrip("\ufeff").splitlines() if line.strip()), "")
    # Questions without passages, such as those with answers, are a table.
    return not _PASSAGE_FIELDS.isdisjoint(_passage_columns(first.split(separator)))


def _passage_columns(fields: list[str]) -> list[str]:
    """Return the column names of a passage table from its first row; none for others."""
    fields = [unquoted(field).strip() for field in fields]
    header = [_COLUMN_SYNONYMS.get(field.lower(), field.lower()) for field in fields]
    if not _HEADER_COLUMNS.isdisjoint(header):
        return header
    # A number, a text and perhaps a title are a passage; anything else is the row of another table.
    is_passage = 2 <= len(fields) <= len(_DEFAULT_COLUMNS) and fields[0].isdecimal() and " " in fields[1]
    return _DEFAULT_COLUMNS if is_passage and not _is_number(fields[1]) else []


def read_tsv(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Row]:
    """Yield passage rows; skip and report rows with too many or too few fields."""
    lines = read_lines(stream, name, problems, guess=True)
    cells = ((number, [unquoted(field) for field in line.rstrip("\r\n").split("\t")]) for number, line in lines)
    for number, names, fields in _passage_rows(cells):
        if len(fields) < min(2, len(names)) or len(fields) > len(names):
            problems.add("broken lines", f"Line {number} of {name} has {len(fields)} fields, not {len(names)}.")
        else:
            yield number, dict(zip(names, fields, strict=False))


def read_csv(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Row]:
    """Yield passage rows, each with the number of the line where it ends."""
    lines = (line for _, line in read_lines(stream, name, problems, guess=True))
    for number, names, fields in _passage_rows(_cells(lines, ",", name, problems)):
        yield number, dict(zip(names, fields, strict=False))


def _passage_rows(cells: Iterable[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str], list[str]]]:
    """Yield the rows of a passage table with their column names."""
    names: list[str] = []
    for number, fields in cells:
        if not names:
            names = _passage_columns(fields)
            if names is not _DEFAULT_COLUMNS:  # the names are this row, which is not a passage
                continue
        yield number, names, fields


def read_table(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
    """Read a table that has no passages as one document with a line for each row."""
    text = read_text(stream, name, problems)
    if text is None:
        return
    text = text.removeprefix("\ufeff")
    separator = "\t" if suffix_of(name) == ".tsv" else _separator_of(text)
    rows = (fields for _, fields in _cells(io.StringIO(text, newline=""), separator, name, problems))
    first = [fields for fields in islice(rows, 4) if fields]
    is_shorter = len(first) > 2 and 1 < len(first[0]) < len(first[1]) == len(first[2])
    if is_shorter and separator == "," and all(field.startswith(" ") for field in first[0][1:]):
        first[0] = [",".join(first[0])]  # a title with a comma, above the names of the columns
    builder = TextBuilder(stem(name))
    builder.add_table(dict(enumerate(fields)) for fields in chain(first, rows))
    yield builder.document(name, stem(name))


def read_other_json(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
    """Read JSON objects that are no passages as a table, and other JSON as it is."""
    text = read_text(stream, name, problems)
    if text is None:
        return
    around, rows = _objects(text)
    if not rows:
        yield text_document(text, name)
        return
    columns = {key: at for at, key in enumerate(dict.fromkeys(key for row in rows for key in row))}
    cells = ({columns[key]: cell for key, cell in row.items()} for row in rows)
    builder = TextBuilder(stem(name))
    builder.add(["; ".join(f"{key}: {value}" for key, value in around.items())])
    builder.add_table(chain([{at: key for key, at in columns.items()}], cells), named=True)
    yield builder.document(name, stem(name))


def _objects(text: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Return the mostly flat objects of a JSON text, after the values around them."""
    text = text.removeprefix("\ufeff").strip()
    if len(text) > _MAX_TABLE_CHARS:
        return {}, []
    around, rows = dict[str, Any](), None
    lines = filter(str.strip, text.split("\n"))
    for source in (text, f"[{','.join(lines)}]"):
        with suppress(ValueError, RecursionError):
            rows = json.loads(source)
            break
    while isinstance(rows, dict):
        filled = {key: value for key, value in rows.items() if value not in (None, "", [], {})}
        inner = [key for key, value in filled.items() if isinstance(value, dict | list)]
        if len(inner) != 1:
            return {}, []
        rows = filled.pop(inner[0])
        around |= filled
    if not isinstance(rows, list) or len(rows) < 2 or not all(isinstance(row, dict) for row in rows):
        return {}, []
    nested = [isinstance(value, dict | list) for row in rows for value in row.values()]
    if len(set().union(*rows)) > 1 and 2 * sum(nested) < len(nested):
        with suppress(RecursionError):  # a depth that can be read may be too deep to write
            first, *cells = ({key: _cell(value) for key, value in row.items()} for row in (around, *rows))
            return without_surrogates(first, text), without_surrogates(cells, text)
    return {}, []


def _cell(value: Any) -> str:
    is_text = value is None or isinstance(value, str)
    return value or "" if is_text else json.dumps(value, ensure_ascii=False)


def _separator_of(text: str) -> str:
    """Return the most frequent separator of the first adjacent lines that share one."""
    lines = [line for line in text[:_BLOCK_BYTES].splitlines() if line.strip()]
    for line, below in pairwise(lines[:_HEAD_LINES]):
        counts = {each: (min(line.count(each), below.count(each)), line.count(each)) for each in _SEPARATORS}
        if max(counts.values())[0]:
            return max(counts, key=counts.__getitem__)
    return max(_SEPARATORS, key="".join(lines[:1]).count)


def _cells(lines: Iterable[str], separator: str, name: str, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """Yield the fields of each row with the number of the line where it ends."""
    csv.field_size_limit(_MAX_CELL_CHARS)
    reader = csv.reader(lines, delimiter=separator)
    while True:
        try:
            yield from ((reader.line_num, fields) for fields in reader)
            return
        except csv.Error as error:
            problems.add("broken lines", f"Line {reader.line_num} of {name} cannot be read: {error}.")


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def unquoted(field: str) -> str:
    """Return a field without quotes around it; doubled quotes in it become single."""
    inside = field[1:-1]
    if len(field) < 2 or field[0] != '"' or field[-1] != '"' or '"' in inside.replace('""', ""):
        return field
    return inside.replace('""', '"')
