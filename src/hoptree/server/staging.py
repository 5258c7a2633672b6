"""The files of a corpus as they are moved for a change, and back; whatever cuts that off, it can be gone on with.

`replaced/` in the folder of a corpus holds what was there before, until the index is up to date. Nothing here knows of
requests or jobs: it moves files, which takes a while where there are many, and is for a thread.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from hoptree.core.files import atomic_write
from hoptree.server.corpora import ManagedCorpus
from hoptree.server.error_responses import Refusal


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

    def write(self, corpus: ManagedCorpus) -> None:
        """Note the change as it is now, in one step."""
        atomic_write(corpus.pending, [json.dumps(asdict(self))])

    @classmethod
    def read(cls, corpus: ManagedCorpus) -> Self | None:
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


_INCOMING = ".incoming"
_REMOVED = ".removed"


def incoming(folder: Path, name: str) -> ManagedCorpus:
    """Where the documents of an upload are put before they come to a corpus; below the folder of the corpora."""
    return ManagedCorpus(name, folder / _INCOMING / uuid.uuid4().hex)


def clear_leftovers(folder: Path) -> None:
    """Throw away what an earlier server had received and not begun with, or was removing."""
    for leftover in (_INCOMING, _REMOVED):
        remove(folder / leftover)


def hide(corpus: ManagedCorpus) -> Path:
    """Take a corpus away from everybody who looks, in one step; the folder that is left to be removed."""
    away = corpus.folder.parent / _REMOVED / uuid.uuid4().hex
    away.parent.mkdir(exist_ok=True)
    corpus.folder.rename(away)
    return away


def remove(folder: Path) -> None:
    """Remove a folder if it is there; what cannot be goes at the next start."""
    shutil.rmtree(folder, ignore_errors=True)


def note_whole(staged: ManagedCorpus, change: Change) -> Change:
    """Make a corpus of staged documents, but for its place: it comes there in one step, by a rename of its folder."""
    whole = replace(change, stage=Stage.INDEXING)
    whole.write(staged)
    return whole


def place(corpus: ManagedCorpus, change: Change, staged: ManagedCorpus | None) -> Change:
    """Move documents out and in, with a note of how to undo that; where it fails, they are what they were."""
    named = (*change.added, *change.removed)
    change = replace(change, kept=tuple(name for name in named if (corpus.documents / name).is_file()))
    try:
        remove(corpus.replaced)  # of a change that was settled
        change.write(corpus)
        for name in change.kept:
            _move(corpus.documents / name, corpus.replaced / name)
        for name in change.added:
            assert staged is not None
            _move(staged.documents / name, corpus.documents / name)
        _drop_empty(corpus, change.removed)
        placed = replace(change, stage=Stage.INDEXING)
        placed.write(corpus)
    except Exception:
        undo(corpus, change)
        raise
    return placed


def undo(corpus: ManagedCorpus, change: Change) -> bool:
    """Make the documents what they were; a corpus that was to be made goes. Whether the index may not be theirs.

    It may be done again where it was cut off: what was put back already is no longer in `replaced/`, and stays.
    """
    if change.stage is Stage.UNDONE:
        return True
    if change.kind == "create":
        remove(hide(corpus))
        return False
    if change.stage is Stage.INDEXING:  # from here on the documents are neither those of before nor of after
        change = replace(change, stage=Stage.UNDOING)
        change.write(corpus)
    new = set(change.added) - set(change.kept)
    for name in new:
        (corpus.documents / name).unlink(missing_ok=True)
    for name in change.kept:
        _move(corpus.replaced / name, corpus.documents / name)
    _drop_empty(corpus, new)
    if not change.stale:
        settle(corpus)
        return False
    replace(change, stage=Stage.UNDONE).write(corpus)
    return True


def settle(corpus: ManagedCorpus) -> None:
    """The documents are those of the index: nothing is pending, and what was replaced goes."""
    corpus.pending.unlink(missing_ok=True)
    remove(corpus.replaced)


def _move(path: Path, to: Path) -> None:
    """Move a file if it is there; a folder in which no file is left is no obstacle."""
    if path.is_file():
        to.parent.mkdir(parents=True, exist_ok=True)
        if to.is_dir():
            shutil.rmtree(to)
        path.replace(to)


def _drop_empty(corpus: ManagedCorpus, names: Iterable[str]) -> None:
    """Remove the folders in which the last file was one of these."""
    for name in names:
        for folder in (corpus.documents / name).parents:
            if folder == corpus.documents:
                break
            with suppress(OSError):  # something is in it
                folder.rmdir()
