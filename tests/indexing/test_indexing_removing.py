"""Removing passages, documents, files and sources."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.indexing.small_changes import counts, namesakes
from tests.small_indexes import rows, search_ids, write_rows

from hoptree.core.errors import CorpusError
from hoptree.corpus.chunk import Chunking
from hoptree.retrieval.index.folder import read_manifest
from hoptree.retrieval.indexing import build_index, remove_from_index, update_index
from hoptree.retrieval.indexing.sources import Reading


def test_passages_documents_and_sources_are_removed(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("one two three four. " * 100, encoding="utf-8")
    write_rows(tmp_path / "rows.jsonl", rows(4))
    reading = Reading(Chunking.parse("words:50"))
    out = tmp_path / "idx"
    cut = build_index([tmp_path / "long.txt", tmp_path / "rows.jsonl"], out, reading=reading)
    pieces = cut.added - 4
    assert pieces > 3
    assert counts(remove_from_index(out, ids=["long.txt"])) == (0, 0, 0, pieces, 0)
    assert counts(remove_from_index(out, ids=["p1", "p2", "p1"])) == (0, 0, 0, 2, 0)
    assert search_ids(out, "friend") == ["p0", "p3"]


def test_what_is_not_there_cannot_be_removed(out: Path) -> None:
    before = read_manifest(out)
    with pytest.raises(CorpusError, match=r"Neither a passage nor a document, file or source .* 'nobody'"):
        remove_from_index(out, ids=["p1", "nobody"])
    with pytest.raises(CorpusError, match="is not a source"):
        remove_from_index(out, sources=[out.parent])
    with pytest.raises(CorpusError, match="empty"):
        remove_from_index(out, ids=[f"p{n}" for n in range(30)])
    assert read_manifest(out) == before
    assert search_ids(out, "number1")[0] in ("p0", "p1")


def test_a_file_is_removed_by_its_name(docs: Path, tmp_path: Path) -> None:
    out = tmp_path / "idx"
    write_rows(docs / "3.jsonl", rows(2))
    write_rows(tmp_path / "more" / "1.jsonl", rows(4, 50))
    build_index([docs, tmp_path / "more"], out)
    assert counts(remove_from_index(out, ids=["p5", "0.jsonl", "p6"])) == (0, 2, 0, 8, 0)
    assert counts(remove_from_index(out, ids=["more/1.jsonl"])) == (0, 0, 0, 4, 0)
    assert counts(update_index(out)) == (0, 0, 0, 0, 0)
    (docs / "3.jsonl").unlink()
    assert counts(update_index(out)) == (0, 0, 0, 2, 0)


def test_a_file_is_removed_by_its_path(docs: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(docs.parent)
    assert counts(remove_from_index(out, ids=["docs/1.jsonl"])) == (0, 0, 0, 10, 0)
    assert counts(remove_from_index(out, ids=[str(docs / "2.jsonl")])) == (0, 0, 0, 10, 0)
    for name in ("docs", "docs/9.jsonl", "\0", "x" * 10_000):
        with pytest.raises(CorpusError, match="Neither a passage"):
            remove_from_index(out, ids=[name])


def test_a_path_that_is_the_name_of_another_file_removes_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, out = namesakes(tmp_path, "aardvark", "bear"), tmp_path / "idx"
    for number, source in enumerate(sources):
        write_rows(source / "rows.jsonl", rows(2, number * 10))
    build_index(sources, out)
    monkeypatch.chdir(tmp_path / "a")
    for name in ("readme.txt", "rows.jsonl"):
        with pytest.raises(CorpusError, match=rf"'docs/{name}' .*{sources[0]}/{name}.*{sources[1]}/{name}") as failure:
            remove_from_index(out, ids=[f"docs/{name}"])
        assert "whole path" in failure.value.remedy
    assert remove_from_index(out, ids=[str(sources[0] / "readme.txt")]).removed == 1
    assert (search_ids(out, "aardvark"), search_ids(out, "bear")) == ([], ["docs/readme.txt#1"])
    monkeypatch.chdir(tmp_path / "b")
    assert remove_from_index(out, ids=["docs/rows.jsonl"]).removed == 2, "both lead to one file"
