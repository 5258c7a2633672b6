"""Files that are the old one or the new one, whatever happens."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, lines: Iterable[str]) -> None:
    """Replace a text file in one step; until then the new one stands beside it, as NAME.new."""
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
