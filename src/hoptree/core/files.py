"""Where Hoptree keeps what it can make again."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from hoptree.core.errors import HoptreeError


def cache_folder() -> Path:
    """The user's cache folder for Hoptree: $XDG_CACHE_HOME/hoptree, or ~/.cache/hoptree."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "hoptree"


_USUAL = 0o666


def write_whole(path: Path, lines: Iterable[str], *, mode: int = _USUAL) -> None:
    """Replace a text file in one step; until then the new one stands beside it, as NAME.new.

    `mode` is who may read and write it, as far as the umask allows.
    """
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)  # one that was cut off keeps its mode

    def opened(name: str, flags: int) -> int:
        return os.open(name, flags, mode)

    with open(fresh, "w", encoding="utf-8", errors="replace", newline="\n", opener=opened) as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


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
