"""What a file holds before it is cut into passages."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BETWEEN_HEADINGS", "Document", "Section"]

BETWEEN_HEADINGS = " › "


@dataclass(frozen=True, slots=True)
class Section:
    """From the character `start` on, this path of headings holds.

    The first `skip` characters are the heading itself (or front matter), which stands in no passage.
    """

    start: int
    title: str
    skip: int = 0


@dataclass(frozen=True, slots=True)
class Document:
    """A text with its name, further names and metadata; `sections` are in the order of their starts.

    `whole` says that it is a passage already (a row of a passage file): it is cut only if that is asked for.
    """

    id: str
    title: str
    text: str
    aliases: tuple[str, ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    sections: tuple[Section, ...] = ()
    whole: bool = False
