"""Reading JSON Lines and JSON arrays row by row, whatever their length."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import Any

from hoptree.corpus.problems import Problems
from hoptree.corpus.stream import Damaged, bom_encoding, looks_binary

__all__ = ["LONGEST_LINE", "Row", "mended", "read_json_lines", "read_lines", "why_no_json"]

Row = tuple[int, Any]
"""The number of the line where it begins, and what JSON it holds."""

LONGEST_LINE = 64 * 2**20
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_HALVES = re.compile("[\ud800-\udfff]")
_decode = json.JSONDecoder().raw_decode


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
