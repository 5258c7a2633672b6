"""What an index will take, before it is made."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hoptree.corpus.files import find_files
from hoptree.retrieval.index.linking import LINK_MEMORY
from hoptree.retrieval.index.manifest import Settings

__all__ = ["Estimate", "estimate"]

_DISK = 50_000
_DISK_PER_BYTE = 1.05
_LINKS_PER_BYTE = 0.55
_UNPACKED = 2.8
_MEMORY = 600 * 2**20


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an index will take, before it is made."""

    source_bytes: int
    disk_bytes: int
    memory_bytes: int
    free_bytes: int


def estimate(sources: Sequence[Path], out: Path, settings: Settings) -> Estimate:
    """Expected size on disk and in memory, from the sizes of the sources."""
    packed = plain = 0
    for source in sources:
        for file in find_files(source, never=out):
            if _is_gzip(file.path):
                packed += file.size
            else:
                plain += file.size
    text = plain + packed * _UNPACKED
    disk = _DISK + text * (_DISK_PER_BYTE + (_LINKS_PER_BYTE if settings.links else 0))
    near = next(folder for folder in (out.resolve(), *out.resolve().parents) if folder.exists())
    memory = _MEMORY + (LINK_MEMORY if settings.links else 0)
    return Estimate(
        packed + plain, round(disk), min(memory, _MEMORY // 3 + round(3 * text)), shutil.disk_usage(near).free
    )


def _is_gzip(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == b"\x1f\x8b"
    except OSError:
        return False
