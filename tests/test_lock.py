"""One process at a time may change a folder; it always releases the lock."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoptree.core.errors import GraphUnavailable, HoptreeError, IndexUnavailable
from hoptree.core.files import FolderLock


def test_a_lock_is_released(tmp_path: Path) -> None:
    first, second = FolderLock(tmp_path, IndexUnavailable), FolderLock(tmp_path, IndexUnavailable)
    first.acquire()
    with pytest.raises(IndexUnavailable, match="Another process"):
        second.acquire()
    first.release()
    first.release()
    second.acquire()
    second.release()


@pytest.mark.parametrize("busy", [IndexUnavailable, GraphUnavailable])
def test_a_second_process_is_refused_with_its_own_error(tmp_path: Path, busy: type[HoptreeError]) -> None:
    with FolderLock(tmp_path, GraphUnavailable), pytest.raises(busy, match="Another process is writing to") as refused:
        FolderLock(tmp_path, busy).acquire()
    assert refused.value.exit_code == 1


def test_a_failing_block_releases_the_lock(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), FolderLock(tmp_path, IndexUnavailable):
        raise ZeroDivisionError
    with FolderLock(tmp_path, IndexUnavailable):
        assert (tmp_path / FolderLock.NAME).exists()
