"""Errors of access are distinguished from damaged and missing files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.small_indexes import rows, search_ids, write_rows

from hoptree.core.errors import CorpusError
from hoptree.corpus.files import find_files
from hoptree.retrieval.index.folder import Index, holds_documents
from hoptree.retrieval.indexing import add_to_index, build_index, compact_index, update_index
from hoptree.retrieval.indexing.check import check_all, check_parts


@pytest.fixture
def out(tmp_path: Path) -> Path:
    build_index(write_rows(tmp_path / "up" / "docs" / "a.jsonl", rows(20)), tmp_path / "idx")
    return tmp_path / "idx"


def close(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a folder inaccessible, also for root."""

    def shut(call: Callable[..., object], itself: bool) -> Callable[..., object]:
        def guarded(path: object, *args: object, **kwargs: object) -> object:
            where = Path(os.fsdecode(path)) if isinstance(path, str | bytes | os.PathLike) else Path()
            if folder in where.parents or (itself and where == folder):
                raise PermissionError(13, "Permission denied", str(where))
            return call(path, *args, **kwargs)

        return guarded

    for name in ("stat", "lstat", "open", "scandir", "listdir"):
        monkeypatch.setattr(os, name, shut(getattr(os, name), name in ("scandir", "listdir")))
    for module in ("io.open", "builtins.open"):
        monkeypatch.setattr(module, shut(open, itself=False))


@pytest.mark.parametrize("inner", ["", "000001", "000001/text"])
def test_an_unreadable_index_is_not_called_damaged(out: Path, monkeypatch: pytest.MonkeyPatch, inner: str) -> None:
    with monkeypatch.context() as closed:
        close(out / inner, closed)
        for act in (Index, update_index, compact_index):
            with pytest.raises(CorpusError) as failure:
                act(out)
            assert "damaged" not in failure.value.cause and "permission" in failure.value.remedy
            assert failure.value.exit_code == 2
    assert search_ids(out, "number3")


@pytest.mark.parametrize("look", [check_parts, check_all])
def test_unreadable_links_are_not_called_damaged(
    out: Path, monkeypatch: pytest.MonkeyPatch, look: Callable[[Index], object]
) -> None:
    index = Index(out)
    close(index.links, monkeypatch)
    with pytest.raises(CorpusError) as failure:
        look(index)
    assert "damaged" not in failure.value.cause and "permission" in failure.value.remedy


def test_an_unreachable_source_is_not_called_missing(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close(tmp_path / "up", monkeypatch)
    for act in (
        lambda: update_index(out),
        lambda: add_to_index([tmp_path / "up" / "docs"], out),
        lambda: list(find_files(tmp_path / "up" / "docs")),
    ):
        with pytest.raises(CorpusError, match="Permission denied") as failure:
            act()
        assert "Allow" in failure.value.remedy and "is gone" not in failure.value.cause


def test_a_missing_source_is_called_missing(out: Path, tmp_path: Path) -> None:
    (tmp_path / "up" / "docs" / "a.jsonl").unlink()
    with pytest.raises(CorpusError, match="is gone"):
        update_index(out)
    with pytest.raises(CorpusError, match="There is no "):
        add_to_index([tmp_path / "up" / "nosuch"], out)


def test_an_unreadable_folder_that_is_asked_is_refused_with_a_remedy(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close(out, monkeypatch)
    assert not holds_documents(out)
    with pytest.raises(CorpusError, match="may not be read by you"):
        Index(out)
