"""One writer at a time: a lock on a file, which the system gives back when its holder dies."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from hoptree.errors import HoptreeError

__all__ = ["WriteLock"]


class WriteLock:
    """The right to change a folder; `busy` is the error if another process has it."""

    NAME = "write.lock"

    def __init__(self, folder: Path, busy: type[HoptreeError]) -> None:
        self._path = folder / self.NAME
        self._busy = busy
        self._file: int | None = None

    def take(self) -> None:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(file)
        except OSError as error:
            os.close(file)
            raise self._busy(
                f"Another process is writing to {self._path.parent}.", "Wait until it is done, or end it."
            ) from error
        self._file = file

    def give_back(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> None:
        self.take()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.give_back()


def _lock(file: int) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
