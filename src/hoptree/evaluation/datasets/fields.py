"""Taking values out of a row that somebody else wrote: of the kind asked for, or an error that names the row."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any

from hoptree.core.errors import InputError
from hoptree.corpus.json_rows import mended

_ESCAPED = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))")
_PYTHON_TEXT = re.compile(r"""\s*("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')\s*(,|$)""")


class Fields:
    """A row of a file, or an object inside one."""

    def __init__(self, row: object, where: str, form: str) -> None:
        self._where, self._form = where, form
        if not isinstance(row, dict):
            raise self.wrong("holds no question")
        self.row: dict[str, Any] = row

    def wrong(self, what: str) -> InputError:
        """The error that says what is wrong with the row."""
        if self._form == "own":
            remedy = 'Each row is a JSON object with a text "question" and, to score answers, a list "answers".'
        else:
            remedy = f"The file was read in the form of {self._form}: all of its rows must be of it."
        return InputError(f"{self._where}{'' if what.startswith(':') else ' '}{what}.", remedy)

    def question(self, *names: str) -> str:
        """The question itself, in the first of these fields."""
        text = self.text(*names)
        if not text:
            raise self.wrong("holds no question")
        return text

    def text(self, *names: str) -> str:
        """A text or a number in the first of these fields that is there, trimmed; "" if none is."""
        value = self.get(*names)
        text = "" if value is None else _text(value)
        if text is None:
            raise self.wrong(f': "{self._present(names)}" is no text')
        return text

    def texts(self, *names: str, of: str = "texts") -> tuple[str, ...]:
        """The texts of a list that are not blank, trimmed unless they are names of something.

        The list may be written as JSON, or as Python writes lists, within a text.
        """
        value = self.get(*names)
        if isinstance(value, str) and value.lstrip()[:1] == "[":
            value = _unpacked(value)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise self.wrong(f': "{self._present(names)}" is no list of {of}')
        texts: list[str] = []
        for item in value:
            text = "" if item is None else _text(item)
            if text is None:
                raise self.wrong(f': "{self._present(names)}" is no list of {of}')
            if text:
                texts.append(item if of == "names" and isinstance(item, str) else text)
        return tuple(texts)

    def whole(self, name: str) -> int:
        """A whole number from 0 on; 0 if there is none."""
        value = self.row.get(name)
        if value is None:
            return 0
        if type(value) is not int or value < 0:
            raise self.wrong(f': "{name}" is no whole number')
        return value

    def items(self, name: str) -> list[Any]:
        """The items of a list, which may be written as JSON within a text."""
        value = self.row.get(name)
        if isinstance(value, str):
            value = _unpacked(value) if value.strip() else None
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.wrong(f': "{name}" is no list')
        return value

    def part(self, name: str) -> Fields:
        """An object inside this one; an empty one if it is not there."""
        value = self.row.get(name)
        return self._inside(name, {} if value is None else value)

    def parts(self, name: str) -> list[Fields]:
        """The objects of a list."""
        return [self._inside(name, item) for item in self.items(name)]

    def rows(self, name: str, width: int) -> list[tuple[Any, ...]]:
        """The items of a list of lists, each with this many items or more."""
        found = self.items(name)
        if not all(isinstance(item, list) and len(item) >= width for item in found):
            raise self.wrong(f': "{name}" is no list of lists of {width} values')
        return [tuple(item) for item in found]

    def get(self, *names: str) -> Any:
        """What stands in the first of these fields that holds anything."""
        return next((value for name in names if (value := self.row.get(name)) is not None), None)

    def _present(self, names: Iterable[str]) -> str:
        return next(name for name in names if self.row.get(name) is not None)

    def _inside(self, name: str, value: object) -> Fields:
        if not isinstance(value, dict):
            raise self.wrong(f': "{name}" holds something that is no JSON object')
        return Fields(value, self._where, self._form)


def distinct(*groups: Iterable[str]) -> tuple[str, ...]:
    """The texts that are not blank, each once, in order."""
    return tuple(dict.fromkeys(text for group in groups for text in group if text.strip()))


def spaced(title: str) -> str:
    """A title with single spaces."""
    return " ".join(title.split())


def _text(value: object) -> str | None:
    """A plain value as a text; None if it is no plain value."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return str(value)
    return None


def _unpacked(text: str) -> Any:
    """The list that a text stands for, in JSON or as Python writes lists of texts; the text itself if it is none."""
    try:
        return mended(json.loads(text), text)
    except (ValueError, RecursionError):
        pass
    inside = text.strip()
    if inside[:1] != "[" or inside[-1:] != "]":
        return text
    inside, at = inside[1:-1], 0
    found: list[str] = []
    while at < len(inside):
        match = _PYTHON_TEXT.match(inside, at)
        if match is None:
            return text
        found.append(_ESCAPED.sub(_meant, match[1][1:-1]))
        at = match.end()
    return found


def _meant(escaped: re.Match[str]) -> str:
    """The character an escape in a Python text stands for."""
    if digits := escaped[1] or escaped[2]:
        character = chr(int(digits, 16))
        return "\ufffd" if "\ud800" <= character <= "\udfff" else character
    return {"n": "\n", "t": "\t", "r": "\r"}.get(escaped[3], escaped[3])
