"""A replaced file is either the old or the new one; a file of lines has only complete lines."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hoptree.core.errors import HoptreeError
from hoptree.core.files import JsonlLog, atomic_write, read_lines


def test_a_file_is_replaced_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    atomic_write(path, ["old\n"])
    atomic_write(path, ["one\n", "twö \ud800\n"])
    assert path.read_bytes() == "one\ntwö ?\n".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path) -> None:
    def breaking() -> Iterator[str]:
        yield "new\n"
        raise ZeroDivisionError

    path = tmp_path / "a.json"
    atomic_write(path, ["old\n"])
    with pytest.raises(ZeroDivisionError):
        atomic_write(path, breaking())
    assert path.read_text(encoding="utf-8") == "old\n" and list(tmp_path.iterdir()) == [path]


def test_half_a_line_from_a_full_disk_does_not_damage_the_next_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several questions write to a file: after one has failed, others may still finish."""
    write, path = os.write, tmp_path / "lines.jsonl"
    room = iter([100, 10, 0])  # bytes that each attempt may write

    def on_a_full_disk(file: int, data: memoryview) -> int:
        if not (taken := next(room, 100)):
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data[:taken])

    async def add() -> None:
        log = JsonlLog(path)
        await log.add({"id": 1})
        with pytest.raises(HoptreeError, match="No space left"):
            await log.add({"id": 2})
        await log.add({"id": 3})
        log.close()

    monkeypatch.setattr(os, "write", on_a_full_disk)
    asyncio.run(add())
    assert [value["id"] for _, value in read_lines(path)] == [1, 3]
