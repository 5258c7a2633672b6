"""Append-only JSON Lines files that survive a kill."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hoptree.core.errors import HoptreeError, InputError


class LineFile:
    """Append lines durably, from one process."""

    def __init__(self, path: Path) -> None:
        mend(path)
        self._path = path
        self._file: int | None = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._written = self._synced = 0
        self._disk = asyncio.Lock()

    async def add(self, value: Any) -> None:
        """Append a value and wait until it is on disk; lines that arrive meanwhile share one fsync."""
        assert self._file is not None
        try:
            left = memoryview((json.dumps(value) + "\n").encode())
            while left:  # a disk that is almost full takes a part
                left = left[os.write(self._file, left) :]
            self._written += 1
            mine = self._written
            async with self._disk:
                if self._synced < mine:
                    written = self._written
                    await asyncio.to_thread(os.fsync, self._file)
                    self._synced = written
        except OSError as error:
            raise HoptreeError(
                f"{self._path} could not be written: {error.strerror or error}.",
                "What stands in it is kept: free some space, and give the same command again.",
            ) from error

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def read_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (line number, value); a truncated last line is skipped."""
    if not path.exists():
        return
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                return
            raise InputError(f"Line {number} of {path} is no JSON.", "Take the line out, and run it again.") from error


def mend(path: Path) -> None:
    """Cut off a half-written last line."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        end = whole = file.seek(0, os.SEEK_END)
        while whole:
            step = min(whole, 1 << 16)
            file.seek(whole - step)
            place = file.read(step).rfind(b"\n")
            if place >= 0:
                whole += place + 1 - step
                break
            whole -= step
        if whole < end:
            file.truncate(whole)
