"""The note in the folder of a corpus about a change that is under way: what a server that was killed goes on from.

    stage       documents               index           what happens next; after a kill, a failure or at the next change
    placing     are being moved         as before       undone: files that were to come may be lost
    indexing    those of after          old or new      indexed, and settled; undone where that fails for good
    undoing     are being moved back    old or new      moved back; settled, or `undone` where the index is `stale`
    undone      those of before         old or new      indexed as they are, and settled
    no note     those of the index      up to date      settled: `replaced/` goes

`placing.py` moves the documents, `changing.py` decides.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Self

from hoptree.server.corpora import Managed
from hoptree.server.refusals import Refusal
from hoptree.whole_files import write_whole

__all__ = ["Change", "Failure", "Stage"]


class Stage(StrEnum):
    """How far a change is: see the table above."""

    PLACING = "placing"
    INDEXING = "indexing"
    UNDOING = "undoing"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a change is undone, as its client is told."""

    status: int
    kind: str
    cause: str
    remedy: str

    @classmethod
    def of(cls, refusal: Refusal) -> Self:
        return cls(refusal.status, refusal.kind, refusal.cause, refusal.remedy)

    @classmethod
    def read(cls, data: dict[str, Any] | None) -> Self | None:
        if data is None:
            return None
        return cls(int(data["status"]), str(data["kind"]), str(data["cause"]), str(data["remedy"]))

    def refusal(self) -> Refusal:
        return Refusal(self.status, self.kind, self.cause, self.remedy)


@dataclass(frozen=True, slots=True)
class Change:
    """What a change does to the documents of a corpus: names that come, names that go.

    `kept` are those of them that were there before: they are in `replaced/` until the change is settled. `left_out` was
    in an archive and not taken. `tries` is how often indexing was begun. `stale` says that the index may no longer be
    that of the documents before. `resumed` says that the server went on with it by itself: its client was not told
    that it failed, so it may be tried again. `job` is the id of its job, and `failure` why it is undone.
    """

    kind: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    stage: Stage = Stage.PLACING
    tries: int = 0
    stale: bool = False
    resumed: bool = False
    left_out: tuple[str, ...] = ()
    job: str = ""
    failure: Failure | None = None

    def begun(self) -> Self:
        """The change while it is indexed: one try more, after which the index may be another."""
        return replace(self, tries=self.tries + 1, stale=True)

    def stopped(self) -> Self:
        """The change once a stop has ended its indexing, which is no fault of the files."""
        return replace(self, tries=self.tries - 1)

    def write(self, corpus: Managed) -> None:
        """Note the change as it is now, in one step."""
        write_whole(corpus.pending, [json.dumps(asdict(self))])

    @classmethod
    def read(cls, corpus: Managed) -> Self | None:
        """What is being done, if anything; where the note is damaged, what was replaced is put back.

        A note that cannot be read at this moment, because too many files are open, say, is no damaged one: OSError.
        """
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
                resumed=bool(data.get("resumed")),  # these four are not in the notes of earlier versions
                left_out=_names(data.get("left_out", ())),
                job=str(data.get("job", "")),
                failure=Failure.read(data.get("failure")),
            )
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError):
            kept = (path.relative_to(corpus.replaced) for path in corpus.replaced.rglob("*") if path.is_file())
            return cls("add", kept=tuple(path.as_posix() for path in kept), stage=Stage.UNDOING, stale=True)


def _names(data: Iterable[object]) -> tuple[str, ...]:
    return tuple(str(name) for name in data)
