"""What cannot be read: passed over when an index is made, and no reason to lose what it held."""

from __future__ import annotations

import gzip
import json
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.indexing.small_changes import counts
from tests.small_indexes import rows, search_ids, write_rows

from hoptree.core.errors import CorpusError, HoptreeError
from hoptree.retrieval.index.folder import MANIFEST, Index, Settings, read_manifest
from hoptree.retrieval.indexing import (
    add_to_index,
    build_index,
    compact_index,
    remove_from_index,
    update_index,
)
from hoptree.retrieval.indexing.sources import Reading


def test_broken_lines_are_passed_over_up_to_a_limit(docs: Path, tmp_path: Path) -> None:
    (docs / "bad.jsonl").write_text("nothing\n" * 5, encoding="utf-8")
    outcome = build_index(docs, tmp_path / "idx")
    assert (outcome.added, outcome.passed_over) == (30, "broken lines: 5")
    assert "Line 1 of bad.jsonl" in outcome.examples[0]
    with pytest.raises(CorpusError, match="More than 4 rows"):
        build_index(docs, tmp_path / "idx", reading=Reading(skip_broken=4))
    assert read_manifest(tmp_path / "idx") == outcome.manifest


def test_an_empty_corpus_is_no_index(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text(" ", encoding="utf-8")
    with pytest.raises(CorpusError, match="empty"):
        build_index(tmp_path / "docs", tmp_path / "idx")
    assert not (tmp_path / "idx").exists()


def test_an_index_that_cannot_be_read_can_be_built_again(docs: Path, out: Path) -> None:
    (out / MANIFEST).write_text('{"format": 1}', encoding="utf-8")
    with pytest.raises(CorpusError):
        add_to_index([docs], out)
    assert build_index(docs, out).manifest.passages == 30
    assert search_ids(out, "number3")
    assert len([path for path in out.iterdir() if path.is_dir()]) == 1


def test_an_unknown_language_leaves_nothing_behind(docs: Path, tmp_path: Path) -> None:
    with pytest.raises(HoptreeError, match="klingon"):
        build_index(docs, tmp_path / "idx", settings=Settings(language="klingon"))
    assert not (tmp_path / "idx").exists()


def unreadable(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Opening files of this name fails."""
    plain = Path.open

    def opener(path: Path, *args: Any, **kwargs: Any) -> Any:
        if path.name == name:
            raise PermissionError(13, "Permission denied")
        return plain(path, *args, **kwargs)

    monkeypatch.setattr(Path, "open", opener)


def test_a_file_that_cannot_be_read_keeps_what_it_held(
    docs: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = read_manifest(out).digest
    write_rows(docs / "1.jsonl", [*rows(8, 11), *rows(1, 90)], ns=2 * 10**18)
    for _ in range(2):
        with monkeypatch.context() as patch:
            unreadable(patch, "1.jsonl")
            outcome = update_index(out)
        assert outcome.passed_over == "unreadable files: 1"
        assert outcome.manifest.digest == digest and outcome.removed == 0
    with closing(Index(out).ledger()) as ledger:
        assert len(ledger.files()) == 3 and ledger.broken_off() == {"1.jsonl": True}, "its passages are old ones"
    outcome = update_index(out)
    with closing(Index(out).ledger()) as ledger:
        assert ledger.broken_off() == {}
    assert (counts(outcome), outcome.passed_over) == ((1, 8, 0, 2, 0), "")
    assert outcome.manifest.digest == build_index(docs, tmp_path / "fresh").manifest.digest
    assert counts(update_index(out)) == (0, 0, 0, 0, 0)


def test_a_file_that_could_not_be_read_when_the_index_was_made_is_read_by_an_update(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        unreadable(patch, "1.jsonl")
        assert build_index(docs, tmp_path / "idx").manifest.passages == 20
    with closing(Index(tmp_path / "idx").ledger()) as ledger:
        assert ledger.broken_off() == {"1.jsonl": False}, "it has no passages"
    assert counts(update_index(tmp_path / "idx")) == (10, 0, 0, 0, 0)


def test_what_moved_from_a_file_that_cannot_be_read_moves_and_may_change(
    docs: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rows(docs / "0.jsonl", rows(8), ns=2 * 10**18)
    write_rows(docs / "2.jsonl", [*rows(10, 20), *rows(1, 8), {"id": "p9", "title": "", "text": "x"}], ns=2 * 10**18)
    with monkeypatch.context() as patch:
        unreadable(patch, "0.jsonl")
        assert counts(update_index(out)) == (0, 11, 1, 0, 0)
    assert counts(update_index(out)) == (0, 8, 0, 0, 0)


def test_a_passage_that_stands_in_a_file_that_cannot_be_read_too_stays(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "idx"
    write_rows(docs / "3.jsonl", rows(2))
    build_index(docs, out)
    write_rows(docs / "3.jsonl", rows(3), ns=2 * 10**18)
    (docs / "0.jsonl").unlink()
    unreadable(monkeypatch, "3.jsonl")
    assert counts(update_index(out)) == (0, 2, 0, 8, 0)


def test_what_lies_in_a_folder_that_cannot_be_listed_is_not_gone(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "idx"
    write_rows(docs / "below" / "deep" / "a.jsonl", rows(5, 100))
    write_rows(docs / "below2" / "a.jsonl", rows(5, 200))
    build_index(docs, out)
    (docs / "below2" / "a.jsonl").unlink()
    (docs / "0.jsonl").unlink()
    plain = os.scandir

    def scandir(path: Any) -> Any:
        if str(path).endswith("below"):
            raise PermissionError(13, "Permission denied")
        return plain(path)

    with monkeypatch.context() as patch:
        patch.setattr("hoptree.corpus.files.os.scandir", scandir)
        outcome = update_index(out)
    assert (counts(outcome), outcome.passed_over) == ((0, 0, 0, 15, 0), "unreadable files: 1")
    assert counts(update_index(out)) == (0, 0, 0, 0, 0)
    assert search_ids(out, "number103")


def test_an_array_that_breaks_midway_loses_nothing(tmp_path: Path) -> None:
    path, out = tmp_path / "a.json", tmp_path / "idx"
    path.write_text(json.dumps(rows(10)), encoding="utf-8")
    build_index(path, out)
    changed = [{"id": "new", "title": "", "text": "A walrus."}, {**rows(1)[0], "text": "Other."}, *rows(8, 1)]
    complete = json.dumps(changed)
    path.write_text(complete[: complete.index("Number4")], encoding="utf-8")
    outcome = update_index(out)
    assert (counts(outcome), outcome.passed_over) == ((1, 2, 1, 0, 0), "broken lines: 1")
    assert search_ids(out, "walrus") == ["new"] and search_ids(out, "number9")
    path.write_text(complete, encoding="utf-8")
    assert counts(update_index(out)) == (0, 10, 0, 1, 0)


def test_a_damaged_archive_loses_nothing(tmp_path: Path) -> None:
    path, out = tmp_path / "a.jsonl.gz", tmp_path / "idx"
    packed = gzip.compress("".join(f"{json.dumps(row)}\n" for row in rows(3000)).encode())
    path.write_bytes(packed)
    build_index(path, out, settings=Settings(links=False))
    path.write_bytes(packed[: len(packed) // 2])
    outcome = update_index(out)
    assert (outcome.removed, outcome.manifest.passages) == (0, 3000)
    assert outcome.passed_over == "damaged archives: 1"


def test_questions_and_tokenizer_are_needed_only_where_something_is_read(docs: Path, tmp_path: Path) -> None:
    out = tmp_path / "idx"
    held = write_rows(tmp_path / "dev.jsonl", [{"id": "q", "question": "Which river flows through Velmora?"}])
    build_index(docs, out, reading=Reading(without=(held,)))
    held.unlink()
    assert remove_from_index(out, ids=["p1"]).removed == 1
    assert compact_index(out).manifest.passages == 29
    assert counts(update_index(out)) == (0, 0, 0, 0, 0)
    write_rows(docs / "new.jsonl", rows(1, 90))
    with pytest.raises(HoptreeError, match=r"dev\.jsonl"):
        update_index(out)
