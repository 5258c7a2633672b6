"""Documents, before they are cut into passages, and the problems met in reading them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from hoptree.core.errors import CorpusError

BETWEEN_HEADINGS = " › "


@dataclass(frozen=True, slots=True)
class Section:
    """A path of headings from `start` on; its first `skip` characters are the heading."""

    start: int
    title: str
    skip: int = 0


@dataclass(frozen=True, slots=True)
class Document:
    """A text with its name, further names and metadata; `sections` are in the order of their starts.

    `is_passage` says that it is a passage already (a row of a passage file), which is cut only on request.
    """

    id: str
    title: str
    text: str
    aliases: tuple[str, ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    sections: tuple[Section, ...] = ()
    is_passage: bool = False


Problem = Literal[
    "broken lines",
    "records without text",
    "fields of the wrong type",
    "files that are no text",
    "damaged archives",
    "damaged PDF files",
    "oversized lines or files",
    "unreadable files",
]
Note = Literal[
    "empty documents",
    "repeated passages",
    "files of an unknown kind",
    "files of questions",
    "hidden files and folders",
    "links not followed",
    "pipes, sockets and devices",
    "indexes",
]

_MAX_SENTENCES, _MIN_SENTENCES_PER_KIND = 20, 5
"""Kept in all, and in any case of each kind, lest one kind hide the others."""
_MAX_HEADING_CHARS = 300


class Problems:
    """Collects what could not be read (`add`, up to `limit` of them) and what need not be read (`note`).

    `cut_short` counts files that were not read to their end; `unlisted` names what could not be listed.
    """

    def __init__(self, limit: int = 100) -> None:
        self.limit = limit
        self.counts: Counter[str] = Counter()
        self.sentences: list[str] = []
        self.notes: list[str] = []
        self.broken = self.cut_short = 0
        self.unlisted: list[str] = []

    def add(self, kind: Problem, sentence: str, *, cuts: bool = False) -> None:
        """Count a broken place; an error above the limit. `cuts` says that more may follow in the same file."""
        self.counts[kind] += 1
        self.broken += 1
        self.cut_short += cuts
        if len(self.sentences) < _MAX_SENTENCES or self.counts[kind] <= _MIN_SENTENCES_PER_KIND:
            self.sentences.append(sentence)
        if self.broken <= self.limit:
            return
        if self.limit <= 0:
            raise CorpusError(
                sentence, "Mend or remove it, or run it again with --skip-broken N to pass over N places."
            )
        cause = f"More than {self.limit:,} places of the corpus cannot be read. The last one: {sentence}"
        raise CorpusError(cause, f"Mend them, or run it again with --skip-broken {self.limit * 10} to pass over more.")

    def note(self, kind: Note, sentence: str) -> None:
        """Count something that is left out though nothing is wrong with it."""
        self.counts[kind] += 1
        if len(self.notes) < _MAX_SENTENCES or self.counts[kind] <= _MIN_SENTENCES_PER_KIND:
            self.notes.append(sentence)

    def summary(self) -> str:
        """Return one line: each kind with its count, the most frequent first; "" if nothing was skipped."""
        return "; ".join(f"{kind}: {count:,}" for kind, count in self.counts.most_common())


def short(heading: str) -> str:
    """Return a heading in one line and of a length that can be shown."""
    return " ".join(heading[: _MAX_HEADING_CHARS * 4].split())[:_MAX_HEADING_CHARS]


class HeadingPath:
    """The current headings, outermost first; the document's title comes before those below the first level."""

    def __init__(self, title: str = "") -> None:
        self._title = title
        self._path: list[tuple[int, str]] = []

    def enter(self, level: int, heading: str) -> str:
        """Return the path at a new heading, since "Family" alone does not say whose."""
        self._path = [(above, name) for above, name in self._path if above < level]
        self._path.append((level, heading))
        names = [name for _, name in self._path]
        if self._title and self._path[0][0] > 1 and names[0] != self._title:
            names.insert(0, self._title)
        return BETWEEN_HEADINGS.join(names)
