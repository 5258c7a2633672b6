"""The path of headings above a place in a document."""

from __future__ import annotations

from hoptree.corpus.document import BETWEEN_HEADINGS

__all__ = ["HeadingPath", "short"]

_LONGEST = 300


def short(heading: str) -> str:
    """A heading in one line and of a length that can be shown."""
    return " ".join(heading[: _LONGEST * 4].split())[:_LONGEST]


class HeadingPath:
    """The headings in force, outermost first; below a heading of the first level the document's title adds nothing."""

    def __init__(self, title: str = "") -> None:
        self._title = title
        self._above: list[tuple[int, str]] = []

    def enter(self, level: int, heading: str) -> str:
        """The path at a new heading, since "Family" alone does not say whose."""
        self._above = [higher for higher in self._above if higher[0] < level]
        self._above.append((level, heading))
        names = [name for _, name in self._above]
        if self._title and self._above[0][0] > 1 and names[0] != self._title:
            names.insert(0, self._title)
        return BETWEEN_HEADINGS.join(names)
