"""A file that is replaced is the old one or the new one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hoptree.core.files import atomic_write


def test_a_file_is_replaced_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    atomic_write(path, ["old\n"])
    atomic_write(path, ["one\n", "twö \ud800\n"])
    assert path.read_bytes() == "one\ntwö ?\n".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_what_breaks_off_leaves_the_old_file(tmp_path: Path) -> None:
    def breaking() -> Iterator[str]:
        yield "new\n"
        raise ZeroDivisionError

    path = tmp_path / "a.json"
    atomic_write(path, ["old\n"])
    with pytest.raises(ZeroDivisionError):
        atomic_write(path, breaking())
    assert path.read_text(encoding="utf-8") == "old\n" and list(tmp_path.iterdir()) == [path]
