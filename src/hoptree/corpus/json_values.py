"""Reading a JSON file value by value: the items of an array, or values one after another, never the whole file."""

from __future__ import annotations

import codecs
import io
import json
import re
from collections.abc import Iterator
from typing import Any

from hoptree.corpus.jsonl import LONGEST_LINE, Row, mended, why_no_json
from hoptree.corpus.problems import Problems
from hoptree.corpus.stream import Damaged, bom_encoding, looks_binary

__all__ = ["read_json_values"]

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
