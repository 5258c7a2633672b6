"""One writer at a time: a lock on a file, which the system gives back when its holder dies."""

from __future__ import annotations

import os
from pathlib import Path

from hoptree.errors import IndexUnavailable

__all__ = ["WriteLock"]


class WriteLock:
    """The right to change an index folder."""

    NAME = "write.lock"

    def __init__(self, folder: Path) -> None:
        self._path = folder / self.NAME
        self._file: int | None = None

    def take(self) -> None:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(file)
        except OSError as error:
            os.close(file)
            raise IndexUnavailable(
                f"Another process is writing to {self._path.parent}.", "Wait until it is done, or end it."
            ) from error
        self._file = file

    def give_back(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _lock(file: int) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
