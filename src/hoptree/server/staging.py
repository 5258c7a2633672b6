"""Moving the files of a corpus for a change, and back; safe to interrupt, the next start resumes.

`pending` in the folder of a corpus says what is being done, and `replaced/` holds what was there before until the index
is up to date. These functions may move many files, so call them in a thread.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter

from hoptree.core.files import atomic_write
from hoptree.server.corpora import ManagedCorpus
from hoptree.server.jobs import Failure, JobKind

_INCOMING = ".incoming"
_REMOVED = ".removed"


class Stage(StrEnum):
    """How far a change is."""

    PLACING = "placing"
    INDEXING = "indexing"
    UNDOING = "undoing"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class Change:
    """What a change does to the documents of a corpus: names that come, names that go.

    `kept` are those of them that were there before: they are in `replaced/` until the change is settled. `left_out` was
    in an archive and not taken. `tries` counts how often indexing was begun. `stale` says that the index may no longer
    be that of the documents before. `resumed` says that the server went on with it by itself: its client was not told
    that it failed, so it may be tried again. `job` is the id of its job, and `failure` why it is undone.
    """

    kind: JobKind
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
        """Return the change while it is indexed: one try more, after which the index may be another."""
        return replace(self, tries=self.tries + 1, stale=True)

    def stopped(self) -> Self:
        """Return the change once a stop has ended its indexing, which is no fault of the files."""
        return replace(self, tries=self.tries - 1)

    def write(self, corpus: ManagedCorpus) -> None:
        """Write the change to `pending`, atomically."""
        atomic_write(corpus.pending, [_CHANGE_JSON.dump_json(self).decode()])

    @classmethod
    def read(cls, corpus: ManagedCorpus) -> Change | None:
        """Read what is being done, if anything; where the file is damaged, what was replaced is to be put back.

        A file that cannot be read at this moment, because too many are open, say, is not damaged: OSError.
        """
        try:
            return _CHANGE_JSON.validate_json(corpus.pending.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError:
            kept = (path.relative_to(corpus.replaced) for path in corpus.replaced.rglob("*") if path.is_file())
            return cls("add", kept=tuple(path.as_posix() for path in kept), stage=Stage.UNDOING, stale=True)


_CHANGE_JSON = TypeAdapter(Change)


def incoming(folder: Path, name: str) -> ManagedCorpus:
    """Return where the documents of an upload are put first, below the folder of the corpora."""
    return ManagedCorpus(name, folder / _INCOMING / uuid.uuid4().hex)


def clear_leftovers(folder: Path) -> None:
    """Remove what an earlier server had received and not begun with, or was removing."""
    for leftover in (_INCOMING, _REMOVED):
        remove(folder / leftover)


def hide(corpus: ManagedCorpus) -> Path:
    """Take a corpus away atomically; return the folder that is left to be removed."""
    away = corpus.folder.parent / _REMOVED / uuid.uuid4().hex
    away.parent.mkdir(exist_ok=True)
    corpus.folder.rename(away)
    return away


def remove(folder: Path) -> None:
    """Remove a folder if it is there; what cannot be removed goes at the next start."""
    shutil.rmtree(folder, ignore_errors=True)


def place(corpus: ManagedCorpus, change: Change, staged: ManagedCorpus | None) -> Change:
    """Move documents out and in, with a note of how to undo that; where it fails, it is undone."""
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
        _drop_empty_folders(corpus, change.removed)
        placed = replace(change, stage=Stage.INDEXING)
        placed.write(corpus)
    except Exception:
        undo(corpus, change)
        raise
    return placed


def undo(corpus: ManagedCorpus, change: Change) -> bool:
    """Put the documents back, or remove a corpus that was to be made; return whether the index may not be theirs.

    It can be repeated where it was cut off: what was put back already is no longer in `replaced/`, and stays.
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
    _drop_empty_folders(corpus, new)
    if not change.stale:
        settle(corpus)
        return False
    replace(change, stage=Stage.UNDONE).write(corpus)
    return True


def undo_pending(corpus: ManagedCorpus) -> bool:
    """Undo a change that came to no end, if there is one; return whether the index may not be the documents'."""
    change = Change.read(corpus)
    return change is not None and undo(corpus, change)


def settle(corpus: ManagedCorpus) -> None:
    """Note that the index is that of the documents: nothing is pending, and what was replaced goes."""
    corpus.pending.unlink(missing_ok=True)
    remove(corpus.replaced)


def _move(path: Path, to: Path) -> None:
    """Move a file if it is there; a folder in which no file is left is no obstacle."""
    if path.is_file():
        to.parent.mkdir(parents=True, exist_ok=True)
        if to.is_dir():
            shutil.rmtree(to)
        path.replace(to)


def _drop_empty_folders(corpus: ManagedCorpus, names: Iterable[str]) -> None:
    """Remove the folders in which the last file was one of these."""
    for name in names:
        for folder in (corpus.documents / name).parents:
            if folder == corpus.documents:
                break
            with suppress(OSError):  # something is in it
                folder.rmdir()
