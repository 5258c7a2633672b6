"""The cache folder, atomic writes and a lock for folders."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_cache_path

from hoptree.core.errors import HoptreeError

if TYPE_CHECKING:
    import filelock


def cache_dir() -> Path:
    """Return the user's cache folder for Hoptree: $XDG_CACHE_HOME/hoptree, or ~/.cache/hoptree on Linux."""
    return user_cache_path("hoptree", appauthor=False)


def atomic_write(path: Path, lines: Iterable[str], *, mode: int = 0o666) -> None:
    """Replace a text file in one step; until then the new content is in NAME.new beside it.

    `mode` holds the permissions of the new file, as far as the umask allows them.
    """
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)  # a leftover of an interrupted write would keep its own mode
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace", newline="\n") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


class FolderLock:
    """The exclusive right to change a folder; the system releases it when its holder dies.

    `busy` is the error to raise when another process holds it.
    """

    NAME = "write.lock"

    def __init__(self, folder: Path, busy: type[HoptreeError]) -> None:
        self._folder = folder
        self._busy = busy
        self._lock: filelock.BaseFileLock | None = None

    def acquire(self) -> None:
        import filelock  # takes a tenth of a second, and most commands change no folder

        # The file is kept, as two processes could otherwise lock two files of the same name.
        lock = filelock.FileLock(self._folder / self.NAME, thread_local=False, preserve_lock_file=True)
        try:
            lock.acquire(blocking=False)
        except filelock.Timeout as error:
            raise self._busy(
                f"Another process is writing to {self._folder}.", "Wait until it is done, or end it."
            ) from error
        self._lock = lock

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def is_busy(error: HoptreeError) -> bool:
    """Tell whether an error means that another process holds the lock of a folder."""
    return isinstance(error.__cause__, TimeoutError)
