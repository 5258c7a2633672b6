"""Folders of tantivy: what its errors mean, and how one that may not be written to is opened."""

from __future__ import annotations

import errno
import json
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, BinaryIO

import tantivy

from hoptree.core.errors import CorpusError, IndexUnavailable
from hoptree.core.files import atomic_write

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


_META = "meta.json"
_ALWAYS = (".fast", ".fieldnorm", ".idx", ".pos", ".store", ".term")
"""What every segment has; one from which something was taken out has a .del as well."""
_SUFFIXES = (*_ALWAYS, ".del")
_END = struct.Struct("<II")
_MAGIC = 1337
_LARGEST_FOOTER = 4096
_BLOCK = 2**20


def summed_files(folder: Path) -> list[Path]:
    """The files of a tantivy folder that end in a checksum."""
    return sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES)


def check_present(folder: Path) -> None:
    """A ValueError that names a file that is not there: tantivy opens some of them only when a search needs them."""
    there = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if _META not in there:
        raise ValueError(f"{_META} is missing")
    try:
        segments = json.loads((folder / _META).read_text(encoding="utf-8"))["segments"]
        named = [name for segment in segments for name in _names(segment)]
    except (AttributeError, LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"{_META} is garbled") from error
    missing = [name for name in named if name not in there]
    if missing:
        raise ValueError(f"{missing[0]} is missing")


def _names(segment: dict[str, Any]) -> list[str]:
    """The files of a segment, by what the folder's list says of it (tantivy, `src/index/segment_id.rs`)."""
    stem, deletes = segment["segment_id"].replace("-", ""), segment["deletes"]
    return [f"{stem}{suffix}" for suffix in _ALWAYS] + ([f"{stem}.{deletes['opstamp']}.del"] if deletes else [])


def check_files(folder: Path, on_bytes: Callable[[int], None]) -> None:
    """A ValueError that names the first file that is not what tantivy wrote; `on_bytes` hears how much was read."""
    for path in summed_files(folder):
        try:
            with path.open("rb") as file:
                sound = _is_sound(file, on_bytes)
        except OSError as error:  # one that came up while reading names no file
            raise OSError(error.errno, error.strerror, str(path)) from error
        if not sound:
            raise ValueError(f"{path.name} is not what was written")


def _is_sound(file: BinaryIO, on_bytes: Callable[[int], None]) -> bool:
    size = os.fstat(file.fileno()).st_size
    if size < _END.size:
        return False
    file.seek(size - _END.size)
    length, magic = _END.unpack(file.read(_END.size))
    left = size - _END.size - length
    if magic != _MAGIC or length > _LARGEST_FOOTER or left < 0:
        return False
    file.seek(left)
    try:
        told = json.loads(file.read(length))["crc"]
    except (ValueError, KeyError, TypeError):
        return False
    file.seek(0)
    found = 0
    while left > 0 and (block := file.read(min(_BLOCK, left))):
        found = zlib.crc32(block, found)
        left -= len(block)
        on_bytes(len(block))
    return left == 0 and bool(found == told)


def failed_change(folder: Path, error: OSError) -> CorpusError:
    """What kept an index from being changed: its own folder, or what it was to be made of."""
    if _in_writing(error, folder):
        return unwritable(folder, error)
    what = error.filename if error.filename is not None else "What the index is to be made of"
    cause = f"{what} cannot be read: {error.strerror or error}; what was in {folder} is as it was."
    return CorpusError(cause, "Give what can be read.")


def _in_writing(error: OSError, folder: Path) -> bool:
    """Whether an error came up in writing: one with a file elsewhere did not, nor one that is not the system's own."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        return True
    named = [Path(os.fsdecode(name)) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    return error.errno is not None and (not named or any(path.is_relative_to(folder) for path in named))


def unwritable(folder: Path, error: OSError) -> CorpusError:
    """An index folder that cannot be written to, with the remedy for it."""
    cause = f"The index cannot be written to {folder}: {error.strerror or error}; what was there is as it was."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return IndexUnavailable(cause, FREE_SPACE)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return CorpusError(cause, "Allow writing there, or choose another --out.")
    never = isinstance(error, NotADirectoryError | FileExistsError | IsADirectoryError)
    return (CorpusError if never else IndexUnavailable)(cause, "Look at that folder, or choose another --out.")


_STORE_BLOCK_BYTES = 4_096
"""Bytes of stored passages that are packed together: a passage is read from tantivy's own 16,384 in twice the time."""


def open_packed(folder: Path, schema: tantivy.Schema) -> tantivy.Index:
    """An index to write to, new or old.

    How much is packed together is told to tantivy in a new index's file: no argument does; an old one stays as it is.
    A ValueError, as tantivy's own are, where that file is not as it is known, or cannot be written.
    """
    meta = folder / "meta.json"
    fresh = not meta.exists()
    index = tantivy.Index(schema, path=str(folder))
    if not fresh:
        return index
    try:
        settings = json.loads(meta.read_text(encoding="utf-8"))
        settings["index_settings"]["docstore_blocksize"] = _STORE_BLOCK_BYTES
        atomic_write(meta, [json.dumps(settings)])
    except (LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"{meta.name} is garbled") from error
    except PermissionError:
        raise
    except OSError as error:
        raise ValueError(f"{meta.name} cannot be written ({error.strerror or error})") from error
    return tantivy.Index(schema, path=str(folder))
