"""Finding the object or array in a reply, and mending what models write wrong in it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import islice
from typing import Any

from hoptree.tree import Pairs

__all__ = ["MAX_REPLY", "JsonReading", "load", "read_json"]

MAX_REPLY = 100_000
"""Characters of a reply that are looked at; an endless one is not worth more."""


@dataclass(frozen=True, slots=True)
class JsonReading:
    """The value found in a reply, and the repairs it took; `error` says why there is none."""

    value: Any = None
    repairs: tuple[str, ...] = ()
    error: str = ""

    @property
    def ok(self) -> bool:
        return not self.error


MAX_STARTS = 4
"""Brackets at which an object is tried to be read."""

_OPENING = re.compile(r"[{\[]")
_FENCE = re.compile(r"```[a-zA-Z]*\s*(.*?)(?:```|\Z)", re.DOTALL)
# Strings come first, so that what stands inside them is not touched.
# One that is not closed ends with the text: else every quotation mark in it would be tried as a beginning.
_STRING = r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)'
_TRAILING_COMMA = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)
_BARE_WORD = re.compile(rf"({_STRING})|\b(unknown|True|False|None)\b", re.DOTALL)
_BARE_VALUES = {"unknown": '"unknown"', "True": "true", "False": "false", "None": "null"}
_SMART_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "‟": '"'})


def read_json(text: str) -> JsonReading:
    """Find the object or array in a reply: as it is, without fences, balanced, mended, completed, in this order."""
    text = text[:MAX_REPLY].strip()
    if not text:
        return JsonReading(error="the reply is empty")
    reading = load(text)
    if reading.ok and not isinstance(reading.value, str | int | float | None):
        return reading
    fenced = _FENCE.search(text)
    bodies: list[tuple[tuple[str, ...], str]] = [(("fence",), fenced[1].strip())] if fenced else []
    bodies.append(((), text))
    error = reading.error or "there is no object in it"
    for steps, body in bodies:
        # Prose may hold brackets too: what cannot be read is passed over, up to a point.
        for start in [match.start() for match in islice(_OPENING.finditer(body), MAX_STARTS)]:
            for repair in (_balanced, _mended, _completed):
                reading = load(repair(body[start:]))
                if reading.ok and isinstance(reading.value, dict | list) and (reading.value or repair is _balanced):
                    return JsonReading(reading.value, (*steps, repair.__name__.lstrip("_")))
                error = reading.error or error
    return JsonReading(error=error)


def load(text: str) -> JsonReading:
    """A text that is JSON and nothing else."""
    try:
        return JsonReading(json.loads(text, object_pairs_hook=Pairs))
    except (ValueError, RecursionError) as error:
        return JsonReading(error=str(error) or "it is nested too deeply")


def _scan(text: str) -> tuple[str, list[str], bool]:
    """The text up to where its first value closes, the brackets still open then, and whether a string is open."""
    closers: list[str] = []
    in_string = escaped = False
    for index, char in enumerate(text):
        if in_string:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char in "{[":
            closers.append("}" if char == "{" else "]")
        elif char in "}]" and closers:
            if char != closers[-1]:
                continue
            closers.pop()
            if not closers:
                return text[: index + 1], [], False
    return text, closers, in_string


def _balanced(text: str) -> str:
    return _scan(text)[0]


def _mended(text: str) -> str:
    return _mend(_balanced(text.translate(_SMART_QUOTES)))


def _completed(text: str) -> str:
    """Close what is still open; the paper's own examples open four braces and close three."""
    body, closers, in_string = _scan(text.translate(_SMART_QUOTES))
    if in_string:
        body += '"'
    body = re.sub(r"[,:]\s*$", "", body.rstrip())
    return _mend(body + "".join(reversed(closers)))


def _mend(text: str) -> str:
    text = _BARE_WORD.sub(lambda m: m[1] or _BARE_VALUES[m[2]], text)
    return _TRAILING_COMMA.sub(lambda m: m[1] or "", text)
