"""Find the JSON in a reply and repair what models write wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from hoptree.core.lazy import lazy_re
from hoptree.text.question_tree import Pairs

# A string that is not closed ends with the text.
_TOKEN = lazy_re(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}\[\],]|[^"{}\[\],]+', re.DOTALL)
_NAMES = lazy_re(r"\s*:")
_CLOSERS = {"{": "}", "[": "]"}
_OPENERS = {"}": "{", "]": "["}


def regroup_brackets(text: str) -> tuple[str, int]:
    """Rewrite a text so that its brackets match; return it and its first value's end.

    An object in the place of a key continues the list that was closed last: `"children": [{…}], {…}`. A key inside a
    list ends the list. A bracket that closes an outer one closes all inside it; one that closes nothing is dropped.
    """
    written = _Writer()
    for token in _TOKEN.finditer(text):
        piece = token[0]
        if piece == "{" and written.wants_name:
            written.reopen()
        elif piece[0] == '"' and written.in_list and _NAMES.match(text, token.end()):
            written.end_list()
        if piece in _CLOSERS:
            written.open(piece)
        elif piece in _OPENERS:
            written.close(piece)
            if not written.opened:
                return "".join(written.pieces), token.end()
        else:
            written.pieces.append(piece)
    return "".join(written.pieces), len(text)


@dataclass(slots=True)
class _Writer:
    """The text written so far, its open brackets, and their number by kind."""

    pieces: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    _count: dict[str, int] = field(default_factory=lambda: {"{": 0, "[": 0})

    @property
    def wants_name(self) -> bool:
        """Whether a key must follow: the last piece is a comma in an object."""
        return self.opened[-1:] == ["{"] and self._last() == ","

    @property
    def in_list(self) -> bool:
        return self.opened[-1:] == ["["] and self._last() == ","

    def open(self, opener: str) -> None:
        self.pieces.append(opener)
        self._push(opener)

    def close(self, closer: str) -> None:
        """Close the innermost bracket of a kind and all inside it, if one is open."""
        if not self._count[_OPENERS[closer]]:
            return
        while self._pop() != closer:
            pass

    def reopen(self) -> None:
        """Reopen the list that was closed last, if only closing brackets came after it."""
        self._drop_comma()
        at = len(self.pieces)
        while at and (self.pieces[at - 1] == "}" or not self.pieces[at - 1].strip()):
            at -= 1
        if at and self.pieces[at - 1] == "]":
            for _ in filter("}".__eq__, self.pieces[at:]):
                self._push("{")
            del self.pieces[at - 1 :]
            self._push("[")
        if self._last() != "[":
            self.pieces.append(",")

    def end_list(self) -> None:
        """Close lists up to the object around them, if there is one."""
        if not self._count["{"]:
            return
        self._drop_comma()
        while self.opened[-1] == "[":
            self._pop()
        self.pieces.append(",")

    def _last(self) -> str:
        return next((piece for piece in reversed(self.pieces) if piece.strip()), "")

    def _drop_comma(self) -> None:
        while self.pieces.pop() != ",":
            pass

    def _push(self, opener: str) -> None:
        self.opened.append(opener)
        self._count[opener] += 1

    def _pop(self) -> str:
        opener = self.opened.pop()
        self._count[opener] -= 1
        self.pieces.append(_CLOSERS[opener])
        return _CLOSERS[opener]


MAX_REPLY_CHARS = 100_000  # the rest of a reply is not read


@dataclass(frozen=True, slots=True)
class JsonReading:
    """The value in a reply, repairs, the text `beside` it, or the `error`."""

    value: Any = None
    repairs: tuple[str, ...] = ()
    error: str = ""
    beside: str = ""

    @property
    def ok(self) -> bool:
        return not self.error


_MAX_STARTS = 4  # opening brackets at which parsing is tried

_OPENING = lazy_re(r"[{\[]")
_CLOSING = lazy_re(r"[}\]]")
# The beginning of JSON, not of prose in brackets ("[as asked]", "{this}") or the second brace of "{{".
_BEGUN = lazy_re(r"\{\s*(?:[\"'“„}]|[\w-]{1,40}\s*:)|\[\s*[\"'“„{\[]")
_FENCE = lazy_re(r"```[a-zA-Z]*\s*(.*?)(?:```|\Z)", re.DOTALL)
# Strings are matched first, so that their content is not changed.
# An unclosed string ends with the text: else every quotation mark in it would be tried as a beginning.
_STRING = r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)'
_TRAILING_COMMA = lazy_re(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)
_BARE_WORD = lazy_re(rf"({_STRING})|\b(unknown|True|False|None)\b", re.DOTALL)
_BARE_VALUES = {"unknown": '"unknown"', "True": "true", "False": "false", "None": "null"}
_BARE_NAME = lazy_re(rf"({_STRING})|(?<=[{{,\s])([A-Za-z_][\w-]{{0,40}})(?=\s{{0,9}}:)", re.DOTALL)
_COMMENT = lazy_re(rf"({_STRING})|//[^\n]*", re.DOTALL)
_ESCAPE = lazy_re(r"\\(u[0-9a-fA-F]{4}|[\"\\/bfnrt]|['_]|)")
_STRING_OR_BRACKET = lazy_re(r'"(?:[^"\\]+|\\.)*(?:(")|\\?\Z)|[{}\[\]]', re.DOTALL)
_SMART_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "‟": '"'})


def read_json(text: str) -> JsonReading:
    """Find the object or array in a reply, and repair it if needed."""
    text = text[:MAX_REPLY_CHARS].strip()
    if not text:
        return JsonReading(error="the reply is empty")
    reading = parse_json(text)
    if reading.ok and not isinstance(reading.value, str | int | float | None):
        return reading
    if (fenced := _FENCE.search(text)) and not _inside(text, fenced.start()):
        reading = _find_json(fenced[1].strip())
        if reading.ok:
            beside = " ".join((text[: fenced.start()], reading.beside, text[fenced.end() :]))
            return replace(reading, repairs=("fence", *reading.repairs), beside=beside)
    return _find_json(text)


def _find_json(text: str) -> JsonReading:
    """Return the first object or array that can be parsed; skip brackets of prose."""
    error, tried, position = "there is no object in it", 0, 0
    while tried < _MAX_STARTS and (opening := _OPENING.search(text, position)):
        start, position, tried = opening.start(), opening.end(), tried + 1
        body = text[start:]
        for name, repair in _REPAIRS.items():
            plain = body if name == "balanced" else body.translate(_SMART_QUOTES)
            reading = parse_json(repair(plain))
            if reading.ok and isinstance(reading.value, dict | list) and (reading.value or name == "balanced"):
                end = regroup_brackets(plain)[1] if name == "regrouped" else len(_balanced(plain))
                return JsonReading(reading.value, (name,), beside=f"{text[:start]} {body[end:]}")
            error = reading.error or error
        if _BEGUN.match(body):
            position = start + _end(body)
    return JsonReading(error=error)


def _inside(text: str, place: int) -> bool:
    """Return whether a position is inside the first value."""
    if text[:place].endswith("\n"):
        return False
    begun = _BEGUN.search(text, 0, place)
    return begun is not None and begun.start() + _end(text[begun.start() :]) > place


def parse_json(text: str) -> JsonReading:
    """Parse a text that is nothing but JSON; strings may hold raw line breaks."""
    try:
        return JsonReading(json.loads(text, object_pairs_hook=Pairs, strict=False))
    except (ValueError, RecursionError) as error:
        return JsonReading(error=str(error) or "it is nested too deeply")


@lru_cache(maxsize=4)  # repairs scan the same text
def _scan(text: str) -> tuple[str, tuple[str, ...], bool]:
    """Return the first complete value, the missing closers, and if a string is open."""
    closers: list[str] = []
    for match in _STRING_OR_BRACKET.finditer(text):
        token = match[0]
        if token[0] == '"':
            if not match[1]:
                return text, tuple(closers), True
        elif token in "{[":
            closers.append("}" if token == "{" else "]")
        elif closers and token == closers[-1]:
            closers.pop()
            if not closers:
                return text[: match.end()], (), False
    return text, tuple(closers), False


def _end(text: str) -> int:
    return len(_balanced(text.translate(_SMART_QUOTES)))


def _balanced(text: str) -> str:
    return _scan(text)[0]


def _regrouped(text: str) -> str:
    """Match brackets; "" if they match already."""
    if not _CLOSING.search(text):
        return ""
    fitting, end = regroup_brackets(text)
    return _complete(fitting) if fitting != text[:end] else ""


def _complete(text: str) -> str:
    """Close strings and brackets; the paper's examples open four and close three."""
    body, closers, in_string = _scan(text)
    if in_string:
        body += '"'
    body = re.sub(r"[,:]\s*$", "", body.rstrip())
    return _mend(body + "".join(reversed(closers)))


def _mend(text: str) -> str:
    # A backslash is made valid JSON; before an apostrophe or (Markdown) underscore it is dropped.
    text = _ESCAPE.sub(lambda m: m[1] if m[1] in ("'", "_") else m[0] if m[1] else r"\\", text)
    text = _COMMENT.sub(lambda m: m[1] or "", text)
    text = _BARE_NAME.sub(lambda m: m[1] or f'"{m[2]}"', text)
    text = _BARE_WORD.sub(lambda m: m[1] or _BARE_VALUES[m[2]], text)
    return _TRAILING_COMMA.sub(lambda m: m[1] or "", text)


# What follows the quotation mark that ends a string: the end of its object or array, the next name or value, or, after
# a name, the colon.
_CLOSES = lazy_re(r"""\s*(?:[}\]]|:|\Z|,\s*(?:["'][^"'\n]{1,60}["']\s*:|[}\]]))""")
_CLOSES_IN_ARRAY = lazy_re(r"""\s*(?:\]|\Z|,\s*["'{\[\d\]-])""")


def _requote(text: str) -> str:
    """Put every string in double quotation marks, and escape those inside it."""
    written: list[str] = []
    opened: list[str] = []
    quote = before = ""
    place = 0
    while place < len(text):
        char = text[place]
        if quote and char == "\\":
            following = text[place + 1 : place + 2]
            written.append(following if following == "'" else char + following)
            place += 2
            continue
        if quote:
            closes = _CLOSES_IN_ARRAY if opened[-1:] == ["["] else _CLOSES
            if char == quote and closes.match(text, place + 1):
                quote, before = "", '"'
                written.append('"')
            else:
                written.append('\\"' if char == '"' else char)
        elif char == '"' or (char == "'" and before in "{[,:"):
            quote = char
            written.append('"')
        else:
            if char in "{[":
                opened.append(char)
            elif char in "}]" and opened:
                opened.pop()
            before = before if char.isspace() else char
            written.append(char)
        place += 1
    return "".join(written)


_REPAIRS: dict[str, Callable[[str], str]] = {
    "balanced": _balanced,
    "mended": lambda text: _mend(_balanced(text)),
    "completed": _complete,
    "regrouped": _regrouped,
    "requoted": lambda text: _complete(_requote(text)),
}  # tried in this order; all but the first read typographic quotation marks as plain ones
