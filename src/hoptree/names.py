"""Finding names in a text by their capitals, in any script that has them."""

from __future__ import annotations

import re

__all__ = ["name_spans"]

_WORD = re.compile(r"\w[\w'’.-]*")
_INSIDE = frozenset(("of", "the", "de", "la", "van", "von", "der", "da", "del", "di", "el", "in"))


def name_spans(text: str, start: int = 0) -> list[tuple[int, int]]:
    """Where the names from `start` on begin and end: capitalised words in a row, small words inside them included."""
    spans: list[tuple[int, int]] = []
    last = ""
    for match in _WORD.finditer(text, start):
        word = match[0].rstrip(".'’-")
        if not word[:1].isupper():
            continue
        begin, end = match.start(), match.start() + len(word)
        if spans and _belongs(text[spans[-1][1] : begin], last):
            begin = spans.pop()[0]
        spans.append((begin, end))
        last = word
    return spans


def _belongs(between: str, last: str) -> bool:
    """Whether what stands between two capitalised words leaves them one name; an initial has its full stop."""
    if len(last) == 1:
        between = between.removeprefix(".")
    return all(word in _INSIDE for word in between.replace(":", " ").split())
