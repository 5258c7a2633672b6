"""What could not be read of a graph's files: counted, named by line, and too much of it is an error."""

from __future__ import annotations

from hoptree.graph.errors import GraphError

__all__ = ["Broken"]

_KEPT = 20
_LONGEST = 300


class Broken:
    """Collects up to `limit` broken places; the first ones are kept as sentences. `cut` names files that break off."""

    def __init__(self, limit: int = 100) -> None:
        self.limit = limit
        self.count = 0
        self.cut: set[str] = set()
        self.sentences: list[str] = []

    def line(self, number: int, name: str, why: str) -> None:
        self.add(f"Line {number:,} of {name} is passed over: {' '.join(why.split())[:_LONGEST].rstrip('. ')}.")

    def add(self, sentence: str) -> None:
        self.count += 1
        if len(self.sentences) < _KEPT:
            self.sentences.append(sentence)
        if self.count <= self.limit:
            return
        if self.limit <= 0:
            raise GraphError(sentence, "Mend or remove it, or load with --skip-broken N to pass over N places.")
        raise GraphError(
            f"More than {self.limit:,} places of the files cannot be read. The last one: {sentence}",
            f"Mend them, or load with --skip-broken {self.limit * 10} to pass over more.",
        )
