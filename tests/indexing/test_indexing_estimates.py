"""What indexing says before it begins, and while it works."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pytest
from tests.small_indexes import rows, write_rows

from hoptree.retrieval.index.folder import Settings, read_manifest
from hoptree.retrieval.indexing import add_to_index, build_index
from hoptree.retrieval.indexing.check import estimate, estimate_change
from hoptree.retrieval.indexing.sources import Progress


@pytest.mark.parametrize("content", [b"\x1f\x8b", b"\x1f\x8b" + b"\xff" * 50, b"", gzip.compress(b"{}", mtime=0)])
def test_an_estimate_needs_no_whole_archive(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.jsonl.gz").write_bytes(content)
    named_twice = [tmp_path / "docs", tmp_path / "docs" / ".." / "docs"]
    assert estimate(named_twice, tmp_path / "idx", Settings()).source_bytes == len(content)


def test_progress_goes_from_nothing_to_all(docs: Path, tmp_path: Path) -> None:
    heard: list[Progress] = []
    build_index(docs, tmp_path / "idx", on_progress=heard.append)
    assert {progress.stage for progress in heard} >= {"reading", "linking"}
    assert all(0 <= progress.done <= progress.total for progress in heard if progress.stage == "reading")


def test_an_estimate_has_room_for_the_smallest_index(docs: Path, out: Path) -> None:
    announced = estimate([docs], out.parent / "new", Settings()).disk_bytes
    assert read_manifest(out).bytes * 0.8 < announced < read_manifest(out).bytes * 2


def test_an_estimate_of_a_change_counts_what_is_new_or_changed(docs: Path, out: Path, tmp_path: Path) -> None:
    more = write_rows(tmp_path / "more" / "a.jsonl", rows(40, 100))
    assert estimate_change(out).source_bytes == 0
    added = estimate_change(out, [more.parent, docs])
    assert added.source_bytes == more.stat().st_size
    assert added.disk_bytes > more.stat().st_size and added.memory_bytes and added.free_bytes
    add_to_index([more.parent], out)
    assert estimate_change(out, [more.parent]).source_bytes == 0
    grown = write_rows(docs / "0.jsonl", rows(20), ns=10**18 + 9)
    fresh = write_rows(docs / "new.jsonl", rows(2, 500))
    assert estimate_change(out).source_bytes == grown.stat().st_size + fresh.stat().st_size
    total = sum(path.stat().st_size for path in (*docs.iterdir(), more))
    assert estimate_change(out, reread=True).source_bytes == total


def test_an_estimate_leaves_what_cannot_be_read_to_the_run(
    docs: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How much of it may be passed over is said to the run, which would count it again."""
    listed = os.scandir

    def refuse(path: Path) -> Any:
        if Path(path).name.startswith("closed"):
            raise PermissionError(13, "Permission denied")
        return listed(path)

    for number in range(101):
        (docs / f"closed{number}").mkdir()
    with monkeypatch.context() as patch:  # the folder is removed after the test, which lists it
        patch.setattr(os, "scandir", refuse)
        assert estimate([docs], tmp_path / "new", Settings()).source_bytes
        assert estimate_change(out).source_bytes == 0
