"""What has one id is one passage: kept once, in all its files, and never two texts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.indexing.small_changes import counts
from tests.small_indexes import rows, search_ids, write_rows

from hoptree.core.errors import CorpusError
from hoptree.retrieval.index.folder import read_manifest
from hoptree.retrieval.indexing import (
    add_to_index,
    build_index,
    compact_index,
    remove_from_index,
    update_index,
)


def test_the_same_passage_twice_is_kept_once_and_counted(docs: Path, tmp_path: Path) -> None:
    write_rows(docs / "3.jsonl", [*rows(2), *rows(1, 29)])
    outcome = build_index(docs, tmp_path / "idx")
    assert counts(outcome) == (30, 0, 0, 0, 3)
    assert outcome.manifest.passages == 30


@pytest.mark.parametrize("between", [0, 1500])
def test_the_same_id_with_another_text_is_an_error(docs: Path, out: Path, between: int) -> None:
    before = read_manifest(out)
    records = [*rows(10), *rows(between, 1000), {"id": "p3", "title": "Person Number3", "text": "Other."}]
    write_rows(docs / "0.jsonl", records, ns=2 * 10**18)
    with pytest.raises(CorpusError, match="Two passages have the id 'p3'"):
        update_index(out)
    assert read_manifest(out) == before
    assert search_ids(out, "number3")[0] == "p3"


def test_an_id_that_another_file_has_is_an_error(out: Path, tmp_path: Path) -> None:
    before = read_manifest(out)
    more = write_rows(tmp_path / "more.jsonl", [{"id": "p13", "title": "", "text": "Other."}])
    with pytest.raises(CorpusError, match=r"'p13'.*1\.jsonl"):
        add_to_index([more], out)
    assert read_manifest(out) == before
    assert not list(out.glob("*.part"))


def test_a_passage_of_two_files_stays_while_one_of_them_does(docs: Path, tmp_path: Path) -> None:
    out = tmp_path / "idx"
    write_rows(docs / "3.jsonl", rows(2))
    write_rows(docs / "4.jsonl", rows(1))
    build_index(docs, out)
    (docs / "0.jsonl").unlink()
    assert counts(update_index(out)) == (0, 2, 0, 8, 0)
    assert read_manifest(out).digest == build_index(docs, tmp_path / "fresh").manifest.digest
    (docs / "3.jsonl").unlink()
    assert counts(update_index(out)) == (0, 1, 0, 1, 0)
    (docs / "4.jsonl").unlink()
    assert counts(update_index(out)) == (0, 0, 0, 1, 0)
    assert read_manifest(out).passages == 20


def test_a_passage_that_its_file_loses_stays_in_the_other(docs: Path, tmp_path: Path) -> None:
    out = tmp_path / "idx"
    write_rows(docs / "3.jsonl", rows(2))
    build_index(docs, out)
    write_rows(docs / "0.jsonl", rows(9, 1), ns=2 * 10**18)
    assert counts(update_index(out)) == (0, 10, 0, 0, 0)
    write_rows(docs / "3.jsonl", rows(1, 1), ns=2 * 10**18)
    assert counts(update_index(out)) == (0, 0, 0, 1, 1)  # p1 is that of 0.jsonl
    write_rows(docs / "0.jsonl", rows(8, 2), ns=3 * 10**18)
    assert counts(update_index(out)) == (0, 9, 0, 0, 0)
    assert search_ids(out, "number1")[0] in ("p0", "p1") and read_manifest(out).passages == 29


def test_files_that_go_together_take_what_they_share_along(docs: Path, tmp_path: Path) -> None:
    out = tmp_path / "idx"
    write_rows(docs / "3.jsonl", rows(2))
    build_index(docs, out)
    (docs / "0.jsonl").unlink()
    (docs / "3.jsonl").unlink()
    assert counts(update_index(out)) == (0, 0, 0, 10, 0)


def test_a_source_that_is_removed_leaves_what_another_holds_too(out: Path, tmp_path: Path) -> None:
    add_to_index([write_rows(tmp_path / "more.jsonl", rows(35))], out)
    compact_index(out)
    assert counts(remove_from_index(out, sources=[tmp_path / "docs"])) == (0, 30, 0, 0, 0)
    assert read_manifest(out).sources == (str(tmp_path / "more.jsonl"),)
    assert counts(update_index(out)) == (0, 0, 0, 0, 0)


def test_a_passage_that_is_removed_by_id_is_gone_from_all_files(docs: Path, tmp_path: Path) -> None:
    out = tmp_path / "idx"
    write_rows(docs / "3.jsonl", rows(2))
    build_index(docs, out)
    assert counts(remove_from_index(out, ids=["p1"])) == (0, 0, 0, 1, 0)
    (docs / "0.jsonl").unlink()
    assert counts(update_index(out)) == (0, 1, 0, 8, 0)


def test_a_passage_cannot_change_in_one_of_its_files_alone(docs: Path, tmp_path: Path) -> None:
    out = tmp_path / "idx"
    write_rows(docs / "3.jsonl", rows(2))
    build_index(docs, out)
    changed = {"id": "p1", "title": "Person Number1", "text": "Other."}
    write_rows(docs / "0.jsonl", [changed], ns=2 * 10**18)
    with pytest.raises(CorpusError, match=r"'p1'.*3\.jsonl"):
        update_index(out)
    write_rows(docs / "3.jsonl", [changed], ns=2 * 10**18)
    assert counts(update_index(out)) == (0, 0, 1, 9, 1)


@pytest.mark.parametrize("where", ["same", "other"])
def test_two_passages_with_one_id_are_told_with_their_files(docs: Path, tmp_path: Path, where: str) -> None:
    other = {"id": "p3", "title": "", "text": "Other."}
    if where == "same":
        write_rows(docs / "0.jsonl", [*rows(10), other])
    else:
        write_rows(docs / "9.jsonl", [other])
    message = r"both are in .*0\.jsonl" if where == "same" else r"one is in 9\.jsonl, the other one in 0\.jsonl"
    with pytest.raises(CorpusError, match=message):
        build_index(docs, tmp_path / "idx")
