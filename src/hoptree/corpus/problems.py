"""What was passed over while a corpus was read: counted, named, and too much of it is an error."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from hoptree.errors import CorpusError

__all__ = ["Note", "Problem", "Problems"]

Problem = Literal[
    "broken lines",
    "records without text",
    "files that are no text",
    "damaged archives",
    "damaged PDF files",
    "oversized lines or files",
    "unreadable files",
]
Note = Literal["empty documents", "repeated passages", "files of an unknown kind", "links not followed", "indexes"]

_KEPT = 20


class Problems:
    """Collects what could not be read (`add`, up to `limit` of them) and what need not be read (`note`)."""

    def __init__(self, limit: int = 100) -> None:
        self.limit = limit
        self.counts: Counter[str] = Counter()
        self.sentences: list[str] = []
        self.notes: list[str] = []
        self.broken = 0

    def add(self, kind: Problem, sentence: str) -> None:
        """Count something that is broken; above the limit that is the end."""
        self.counts[kind] += 1
        self.broken += 1
        if len(self.sentences) < _KEPT:
            self.sentences.append(sentence)
        if self.broken <= self.limit:
            return
        if self.limit <= 0:
            raise CorpusError(sentence, "Mend or remove it, or pass over up to N such places with --skip-broken N.")
        raise CorpusError(
            f"More than {self.limit:,} places of the corpus cannot be read. The last one: {sentence}",
            f"Mend them, or pass over more with --skip-broken {self.limit * 10}.",
        )

    def note(self, kind: Note, sentence: str) -> None:
        """Count something that is left out although nothing is wrong with it."""
        self.counts[kind] += 1
        if len(self.notes) < _KEPT:
            self.notes.append(sentence)

    def summary(self) -> str:
        """One line: each kind with its count, the most frequent first; empty if nothing was passed over."""
        return "; ".join(f"{kind}: {count:,}" for kind, count in self.counts.most_common())
