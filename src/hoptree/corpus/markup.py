"""Parting HTML into tags and text in one pass.

Whatever the text, the time is proportional to its length and nothing is raised; the parser of the standard library
takes quadratic time on markup that is left open and fails on some declarations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Literal

__all__ = ["Token", "tokens"]

Token = tuple[Literal["text", "start", "end", "void"], str]
"""A kind with the text, or with the name of the tag in small letters; `void` is a tag that closes itself."""

_NAME = re.compile(r"/?([A-Za-z][^\s/>]{0,60})")
_STOP = re.compile(r"""[>"']""")
_RAW_END = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in ("script", "style", "title")}


def tokens(text: str) -> Iterator[Token]:
    """The tags and texts of a page, character references resolved; comments, declarations and scripts are left out."""
    return _Scanner(text).tokens()


class _Scanner:
    """A place in the text; what is known not to come any more is not looked for again."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._gone: set[str] = set()

    def tokens(self) -> Iterator[Token]:
        text = self._text
        while self._at < len(text):
            opening = text.find("<", self._at)
            if opening < 0:
                opening = len(text)
            if opening > self._at:
                yield "text", _plain(text[self._at : opening])
            self._at = opening + 1
            if found := _NAME.match(text, self._at):
                yield from self._tag(found)
            elif text.startswith("!--", self._at):
                self._skip_past("-->", 3)
            elif text.startswith(("!", "?", "/"), self._at):
                self._skip_past(">", 1)
            elif opening < len(text):
                yield "text", "<"

    def _find(self, what: str, start: int) -> int:
        if what in self._gone:
            return -1
        found = self._text.find(what, start)
        if found < 0:
            self._gone.add(what)
        return found

    def _skip_past(self, what: str, least: int) -> None:
        found = self._find(what, self._at)
        self._at = self._at + least if found < 0 else found + len(what)

    def _tag(self, found: re.Match[str]) -> Iterator[Token]:
        end = self._tag_end(found.end())
        if end < 0:  # never closed: no tag, and what follows is text
            yield "text", "<"
            return
        name, closing = found[1].lower(), found[0].startswith("/")
        void = self._text[end - 1] == "/"
        yield "end" if closing else "void" if void else "start", name
        self._at = end + 1
        if name in _RAW_END and not closing and not void:
            yield from self._raw(name)

    def _tag_end(self, start: int) -> int:
        """Where the > stands that closes a tag: outside of quotes, or if there is none, the next one."""
        at = start
        while "closed tags" not in self._gone:
            stop = _STOP.search(self._text, at)
            if stop is None:
                self._gone.add("closed tags")
                break
            at = stop.end()
            if stop[0] == ">":
                return stop.start()
            if self._text[stop.start() - 1] in "= \t\n":
                closing = self._find(stop[0], at)
                at = closing + 1 if closing >= 0 else at
        return self._find(">", start)

    def _raw(self, name: str) -> Iterator[Token]:
        """Scripts and styles are dropped, to the end of the page if they are never closed; a title is text."""
        end = None if name in self._gone else _RAW_END[name].search(self._text, self._at)
        if end is None:
            self._gone.add(name)
            if name != "title":
                self._at = len(self._text)
            return
        if name == "title":
            yield "text", _plain(self._text[self._at : end.start()])
        self._at = end.start()


def _plain(text: str) -> str:
    if "&" not in text:
        return text
    try:
        return unescape(text)
    except ValueError:  # a number of thousands of digits
        return text
