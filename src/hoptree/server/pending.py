"""The note in the folder of a corpus about a change that is under way: what a server that was killed goes on from."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Self

from hoptree.server.corpora import Managed
from hoptree.whole_files import write_whole

__all__ = ["Change", "Stage"]


class Stage(StrEnum):
    """How far a change is, and what is to be done about it where it was cut off."""

    PLACING = "placing"
    """Documents are being moved; those that were to come may be lost, so it is undone."""
    INDEXING = "indexing"
    """All documents are in place; they are indexed, or it is undone."""
    UNDOING = "undoing"
    """Documents are being moved back; that is gone on with."""
    UNDONE = "undone"
    """The documents are what they were, but perhaps not the index; it is brought up to date with them."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a change does to the documents of a corpus: names that come, names that go.

    `kept` are those of them that were there before: they are in `replaced/` until the change is settled. `tries` is how
    often indexing was begun. `stale` says that the index may no longer be that of the documents before.
    """

    kind: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    stage: Stage = Stage.PLACING
    tries: int = 0
    stale: bool = False

    def begun(self) -> Self:
        """The change while it is indexed: one try more, after which the index may be another."""
        return replace(self, tries=self.tries + 1, stale=True)

    def stopped(self) -> Self:
        """The change once a stop has ended its indexing, which is no fault of the files; it is known to be begun."""
        return replace(self, tries=max(1, self.tries - 1))

    def write(self, corpus: Managed) -> None:
        """Note the change as it is now, in one step."""
        write_whole(corpus.pending, [json.dumps(asdict(self))])

    @classmethod
    def read(cls, corpus: Managed) -> Self | None:
        """What is being done, if anything; where that cannot be read, what was replaced is put back."""
        try:
            data = json.loads(corpus.pending.read_text(encoding="utf-8"))
            return cls(
                kind=str(data["kind"]),
                added=_names(data["added"]),
                removed=_names(data["removed"]),
                kept=_names(data["kept"]),
                stage=Stage(data["stage"]),
                tries=int(data["tries"]),
                stale=bool(data["stale"]),
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            kept = (path.relative_to(corpus.replaced) for path in corpus.replaced.rglob("*") if path.is_file())
            return cls("add", kept=tuple(path.as_posix() for path in kept), stage=Stage.UNDOING, stale=True)


def _names(data: Iterable[object]) -> tuple[str, ...]:
    return tuple(str(name) for name in data)
