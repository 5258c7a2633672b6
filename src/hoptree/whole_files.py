"""Files that are the old one or the new one, whatever happens."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["write_whole"]


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
