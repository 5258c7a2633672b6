"""What an indexing run tells: how far it is, and in the end what it did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

from hoptree.retrieval.index.manifest import Manifest

__all__ = ["Listener", "Outcome", "Progress"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an indexing run is: `done` of `total` bytes when it reads or checks files, else of passages."""

    stage: str
    done: int
    total: int
    passages: int


Listener = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an indexing run did."""

    manifest: Manifest
    added: int
    unchanged: int
    replaced: int
    removed: int
    repeated: int
    held_questions: int
    resumed: bool
    passed_over: str
    examples: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        return asdict(self)
