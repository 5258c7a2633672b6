"""Folders of tantivy: what its errors mean, and how one that may not be written to is opened."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

import tantivy

from hoptree.errors import CorpusError, IndexUnavailable

__all__ = ["ALLOW", "BUILD_AGAIN", "FREE_SPACE", "open_writer", "readable", "tantivy_errors", "writing"]

BUILD_AGAIN = "Build it again: hoptree index … --out DIR"
FREE_SPACE = "Free some space, then run the same command again."
ALLOW = "Let whoever owns it allow reading (and writing, to change it)."
_FULL = re.compile("StorageFull|QuotaExceeded|No space left|Disk quota exceeded")
_LOCK = ".tantivy-meta.lock"


@dataclass(frozen=True, slots=True)
class _Told:
    """Errors of tantivy in words; no generator, since a search enters it for every name it meets."""

    what: str
    remedy: str
    kind: type[CorpusError]

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            return
        if isinstance(error, PermissionError):  # from looking into the folder
            raise CorpusError(f"{error.filename} cannot be read: {error.strerror}.", ALLOW) from error
        if isinstance(error, ValueError) or type(error).__name__ == "PanicException":
            if "PermissionDenied" in str(error):
                raise CorpusError("A file of the index may not be used by you.", ALLOW) from error
            if _FULL.search(str(error)):
                raise IndexUnavailable(f"{self.what}: {error}.", FREE_SPACE) from error
            raise self.kind(f"{self.what}: {error}.", self.remedy) from error


def tantivy_errors(
    what: str, remedy: str = BUILD_AGAIN, kind: type[CorpusError] = CorpusError
) -> AbstractContextManager[None]:
    """tantivy reports a damaged file as a ValueError, or panics. What this gives may be entered again and again."""
    return _Told(what, remedy, kind)


def writing(what: str) -> AbstractContextManager[None]:
    """For what is written to an index that could be opened: it fails where the disk is full.

    The writer's threads meet that first; what reaches the caller may only say that they are gone.
    """
    return tantivy_errors(what, FREE_SPACE, IndexUnavailable)


def open_writer(index: tantivy.Index, memory: int, threads: int) -> tantivy.IndexWriter:
    """A writer to a folder without the files of a commit that was killed: the next one writes files of these names."""
    writer = index.writer(memory, threads)
    writer.garbage_collect_files()
    return writer


@contextmanager
def readable(folder: Path) -> Iterator[Path]:
    """A place to open an index folder at, which is needed only until it is open.

    tantivy locks a folder to read it, so one that may not be written to (a read-only disk) is shown to it by links.
    """
    if not folder.is_dir() or _may_write(folder):
        yield folder
        return
    with TemporaryDirectory(prefix="hoptree-", ignore_cleanup_errors=True) as place:  # its threads may still look
        for path in folder.iterdir():
            if path.suffix != ".lock":  # one that somebody left there could not be opened; tantivy makes its own
                Path(place, path.name).symlink_to(path.resolve())
        yield Path(place)


def _may_write(folder: Path) -> bool:
    try:
        (folder / _LOCK).open("ab").close()  # what tantivy would do; asking for the right alone may lie
    except OSError:
        return False
    return True
