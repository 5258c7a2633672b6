"""The right to change a folder: one process at a time has it, and gives it back whatever happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoptree.core.errors import GraphUnavailable, HoptreeError, IndexUnavailable
from hoptree.core.files import WriteLock


def test_a_lock_is_given_back(tmp_path: Path) -> None:
    first, second = WriteLock(tmp_path, IndexUnavailable), WriteLock(tmp_path, IndexUnavailable)
    first.take()
    with pytest.raises(IndexUnavailable, match="Another process"):
        second.take()
    first.give_back()
    first.give_back()
    second.take()
    second.give_back()


@pytest.mark.parametrize("busy", [IndexUnavailable, GraphUnavailable])
def test_who_comes_second_is_told_in_its_own_words(tmp_path: Path, busy: type[HoptreeError]) -> None:
    with WriteLock(tmp_path, GraphUnavailable), pytest.raises(busy, match="Another process is writing to") as refused:
        WriteLock(tmp_path, busy).take()
    assert refused.value.exit_code == 1


def test_a_block_that_fails_gives_the_lock_back(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), WriteLock(tmp_path, IndexUnavailable):
        raise ZeroDivisionError
    with WriteLock(tmp_path, IndexUnavailable):
        assert (tmp_path / WriteLock.NAME).exists()
