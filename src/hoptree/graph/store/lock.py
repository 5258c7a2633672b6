"""One writer at a time: a lock on a file, which the system gives back when its holder dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hoptree.graph.errors import GraphUnavailable

__all__ = ["writing_to"]


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """The right to change a graph's folder while the block lasts."""
    file = os.open(folder / "write.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            _lock(file)
        except OSError as error:
            raise GraphUnavailable(
                f"Another process is writing to {folder}.", "Wait until it is done, or end it."
            ) from error
        yield
    finally:
        os.close(file)


def _lock(file: int) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
