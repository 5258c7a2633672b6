"""Brackets that models close too early, too late or in the wrong order, put right."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

__all__ = ["regrouped"]

# A string that is not closed ends with the text.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}\[\],]|[^"{}\[\],]+', re.DOTALL)
_NAMES = re.compile(r"\s*:")
_CLOSERS = {"{": "}", "[": "]"}
_OPENERS = {"}": "{", "]": "["}


def regrouped(text: str) -> tuple[str, int]:
    """A text that begins with a bracket, up to where that closes, with brackets that fit; and where it ends there.

    An object where a name should be goes on with the list that was closed last: `"children": [{…}], {…}`. A name inside
    a list ends it. What closes something further out closes all inside that, and what closes nothing is dropped.
    """
    written = _Written()
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
class _Written:
    """What is written so far, the brackets that are open in it, and how many there are of each kind."""

    pieces: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    _count: dict[str, int] = field(default_factory=lambda: {"{": 0, "[": 0})

    @property
    def wants_name(self) -> bool:
        """Whether an object has a comma last, behind which its next name should come."""
        return self.opened[-1:] == ["{"] and self._last() == ","

    @property
    def in_list(self) -> bool:
        return self.opened[-1:] == ["["] and self._last() == ","

    def open(self, opener: str) -> None:
        self.pieces.append(opener)
        self._push(opener)

    def close(self, closer: str) -> None:
        """Close the innermost bracket of a kind, and all that is open inside it; nothing where none is open."""
        if not self._count[_OPENERS[closer]]:
            return
        while self._pop() != closer:
            pass

    def reopen(self) -> None:
        """Go on with the list that was closed last, if nothing but closing brackets came behind it."""
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
        """Close lists up to the object that they are in, if there is one."""
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
