"""The files of a tantivy folder: those that must be there, and the checksums that tantivy writes at their ends.

A file is its content, a small JSON object with the content's CRC-32, the length of that object, and a magic number, the
last two in four bytes each (tantivy, `src/directory/footer.rs`).
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["check_files", "check_present", "summed_files"]

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
