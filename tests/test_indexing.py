"""Building, adding, updating, removing: only what changed is touched, and nothing is lost or comes twice."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.small_indexes import found, graph, hoptree, inodes, rows, write_rows

from hoptree.corpus.chunk import Chunking
from hoptree.errors import CorpusError, HoptreeError
from hoptree.indexing import (
    Outcome,
    Progress,
    Reading,
    add_to_index,
    build_index,
    compact_index,
    encode_index,
    estimate,
    estimate_change,
    estimate_encoding,
    index_passages,
    remove_from_index,
    update_index,
)
from hoptree.indexing.sources import prefix_for
from hoptree.retrieval.index.folder import Change, Index
from hoptree.retrieval.index.ledger import Ledger, key_of
from hoptree.retrieval.index.manifest import MANIFEST, Settings, read_manifest
from hoptree.retrieval.opening import open_retriever
from hoptree.retrieval.vectors import Vectors
from hoptree.values import Passage


def counts(outcome: Outcome) -> tuple[int, int, int, int, int]:
    """Added, unchanged, replaced, removed, repeated."""
    return outcome.added, outcome.unchanged, outcome.replaced, outcome.removed, outcome.repeated


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Three files of ten passages each."""
    for number in range(3):
        write_rows(tmp_path / "docs" / f"{number}.jsonl", rows(10, number * 10), ns=10**18 + number)
    return tmp_path / "docs"


@pytest.fixture
def out(docs: Path, tmp_path: Path) -> Path:
    outcome = build_index(docs, tmp_path / "idx")
    assert counts(outcome) == (30, 0, 0, 0, 0)
    return tmp_path / "idx"


# What is touched


def test_an_update_without_a_change_touches_nothing(out: Path) -> None:
    before, manifest = inodes(out), read_manifest(out)
    outcome = update_index(out)
    assert counts(outcome) == (0, 0, 0, 0, 0)
    assert inodes(out) == before
    assert outcome.manifest.digest == manifest.digest


def test_added_documents_leave_what_was_there_as_it_was(out: Path, tmp_path: Path) -> None:
    before = inodes(out)
    outcome = add_to_index([write_rows(tmp_path / "more.jsonl", rows(5, 100))], out)
    assert counts(outcome) == (5, 0, 0, 0, 0)
    assert before < inodes(out)
    assert found(out, "number104")[0] == "p104"
    assert found(out, "number3")[0] == "p3"


def test_what_is_added_twice_is_not_read_again(out: Path, tmp_path: Path) -> None:
    more = write_rows(tmp_path / "more.jsonl", rows(5, 100))
    add_to_index([more], out)
    before = inodes(out)
    assert counts(add_to_index([more], out)) == (0, 0, 0, 0, 0)
    assert inodes(out) == before


def test_add_then_remove_gives_the_digest_of_before(out: Path, tmp_path: Path) -> None:
    before = read_manifest(out)
    more = write_rows(tmp_path / "more.jsonl", rows(5, 100))
    assert add_to_index([more], out).manifest.digest != before.digest
    removed = remove_from_index(out, sources=[more])
    assert counts(removed) == (0, 0, 0, 5, 0)
    assert (removed.manifest.digest, removed.manifest.passages) == (before.digest, before.passages)
    assert removed.manifest.sources == before.sources
    assert found(out, "number104") == []


def test_one_changed_line_of_many_is_replaced_alone(docs: Path, out: Path) -> None:
    before = inodes(out)
    records = rows(10)
    records[4]["text"] = "Quite another text about zebras."
    write_rows(docs / "0.jsonl", records, ns=2 * 10**18)
    assert counts(update_index(out)) == (0, 9, 1, 0, 0)
    assert before < inodes(out)
    assert found(out, "zebras") == ["p4"]
    assert found(out, "number5")[0] == "p5"


def test_a_file_of_another_time_with_the_same_content_is_unchanged(docs: Path, out: Path) -> None:
    before, digest = inodes(out), read_manifest(out).digest
    os.utime(docs / "1.jsonl", ns=(2 * 10**18, 2 * 10**18))
    outcome = update_index(out)
    assert counts(outcome) == (0, 10, 0, 0, 0)
    assert outcome.manifest.digest == digest
    assert inodes(out) == before
    assert counts(update_index(out)) == (0, 0, 0, 0, 0)


def test_an_update_sees_what_is_new_changed_and_gone(docs: Path, out: Path, tmp_path: Path) -> None:
    write_rows(docs / "0.jsonl", [*rows(9), {"id": "new", "title": "New One", "text": "A walrus."}], ns=2 * 10**18)
    (docs / "1.jsonl").unlink()
    write_rows(docs / "9.jsonl", rows(3, 200))
    outcome = update_index(out)
    assert counts(outcome) == (4, 9, 0, 11, 0)
    assert found(out, "walrus") == ["new"]
    assert found(out, "number13") == ["p12"] or found(out, "number13") == []
    fresh = build_index(docs, tmp_path / "fresh")
    assert outcome.manifest.digest == fresh.manifest.digest


@pytest.mark.parametrize("new", ["0.first.jsonl", "zz.jsonl", "below/1.jsonl"])
def test_a_renamed_file_loses_nothing(docs: Path, out: Path, new: str) -> None:
    before, digest = inodes(out), read_manifest(out).digest
    (docs / new).parent.mkdir(exist_ok=True)
    (docs / "1.jsonl").rename(docs / new)
    outcome = update_index(out)
    assert counts(outcome) == (0, 10, 0, 0, 0)
    assert outcome.manifest.digest == digest
    assert inodes(out) == before
    (docs / new).unlink()
    assert counts(update_index(out)) == (0, 0, 0, 10, 0)


@pytest.mark.parametrize(("giver", "taker"), [("2.jsonl", "0.jsonl"), ("0.jsonl", "2.jsonl"), ("2.jsonl", "00.jsonl")])
def test_a_passage_that_moves_to_another_file_is_not_lost(docs: Path, out: Path, giver: str, taker: str) -> None:
    digest = read_manifest(out).digest
    given = [json.loads(line) for line in (docs / giver).read_text().splitlines()]
    kept = [json.loads(line) for line in (docs / taker).read_text().splitlines()] if (docs / taker).exists() else []
    write_rows(docs / giver, given[1:], ns=2 * 10**18)
    write_rows(docs / taker, [*kept, given[0]], ns=2 * 10**18)
    outcome = update_index(out)
    assert outcome.manifest.digest == digest
    assert (outcome.added, outcome.replaced, outcome.removed, outcome.repeated) == (0, 0, 0, 0)


def test_a_text_file_that_is_renamed_keeps_its_text(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("The aardvark digs.", encoding="utf-8")
    (tmp_path / "docs" / "b.txt").write_text("The bear sleeps.", encoding="utf-8")
    build_index(tmp_path / "docs", tmp_path / "idx")
    (tmp_path / "docs" / "a.txt").rename(tmp_path / "docs" / "c.txt")
    assert counts(update_index(tmp_path / "idx")) == (1, 0, 0, 1, 0)
    assert found(tmp_path / "idx", "aardvark") == ["c.txt#1"]


# Ids


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
    assert found(out, "number3")[0] == "p3"


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
    assert found(out, "number1")[0] in ("p0", "p1") and read_manifest(out).passages == 29


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


@pytest.mark.parametrize("after", [1, 4, 6, 8, 10, 12, 14, 15, 16, 17])
def test_a_run_that_was_cut_off_anywhere_loses_and_keeps_nothing(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Passages that vanished, moved, changed, and that stand in two files; every batch is made safe."""
    out = tmp_path / "idx"
    write_rows(docs / "3.jsonl", [*rows(2), *rows(3, 40)])
    build_index(docs, out, settings=Settings(links=False))
    write_rows(docs / "0.jsonl", [*rows(7, 3), *rows(2, 10), {"id": "new", "title": "", "text": "x"}], ns=2 * 10**18)
    (docs / "1.jsonl").unlink()
    write_rows(docs / "2.jsonl", [{**rows(1, 20)[0], "text": "Other."}, *rows(4, 21), *rows(2, 12)], ns=2 * 10**18)
    saves = 0

    def save(change: Change) -> None:
        nonlocal saves
        saves += 1
        original(change)
        if saves == after:
            raise RuntimeError("cut off")

    original = Change.save
    with monkeypatch.context() as patch:
        patch.setattr("hoptree.indexing.run._SAVE_EVERY", 1)
        patch.setattr("hoptree.indexing.run._AT_ONCE", 2)
        patch.setattr(Change, "save", save)
        with pytest.raises(RuntimeError):
            update_index(out)
    outcome = update_index(out)
    fresh = build_index(docs, tmp_path / "fresh", settings=Settings(links=False)).manifest
    assert (outcome.manifest.passages, outcome.manifest.digest) == (fresh.passages, fresh.digest)
    assert counts(update_index(out)) == (0, 0, 0, 0, 0)
    (docs / "3.jsonl").unlink()
    fresh = build_index(docs, tmp_path / "fresh", settings=Settings(links=False)).manifest
    assert update_index(out).manifest.digest == fresh.digest


def test_a_file_that_came_back_while_its_removal_was_cut_off_is_read_again(
    docs: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hoptree.indexing.run._SAVE_EVERY", 1)
    monkeypatch.setattr("hoptree.indexing.run._AT_ONCE", 4)
    before = read_manifest(out)
    (docs / "1.jsonl").rename(tmp_path / "1.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr("hoptree.indexing.run.Run.finish", broken)
        patch.setattr("hoptree.retrieval.index.ledger.Ledger.drop_file", broken)
        with pytest.raises(RuntimeError):
            update_index(out)
    (tmp_path / "1.jsonl").rename(docs / "1.jsonl")
    outcome = update_index(out)
    assert outcome.resumed and outcome.manifest.digest == before.digest


def test_a_changed_file_of_questions_with_contexts_is_taken_in(tmp_path: Path) -> None:
    def write(name: str, text: str) -> None:
        context = [["Title", [f"The text of {name}."]], [f"Only {name}", [text]], ["Both", ["The same."]]]
        row = {"_id": name, "question": "Who?", "answer": "a", "supporting_facts": [], "context": context}
        write_rows(tmp_path / "docs" / f"{name}.jsonl", [row])  # type: ignore[list-item]

    write("a", "short")
    write("b", "short")
    assert counts(build_index(tmp_path / "docs", tmp_path / "idx")) == (5, 0, 0, 0, 1)
    write("b", "a longer one")
    assert counts(update_index(tmp_path / "idx")) == (1, 1, 0, 1, 1)
    assert read_manifest(tmp_path / "idx").passages == 5


# Removing


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
    assert found(out, "friend") == ["p0", "p3"]


def test_what_is_not_there_cannot_be_removed(out: Path) -> None:
    before = read_manifest(out)
    with pytest.raises(CorpusError, match=r"Neither a passage nor a document, file or source .* 'nobody'"):
        remove_from_index(out, ids=["p1", "nobody"])
    with pytest.raises(CorpusError, match="is no source"):
        remove_from_index(out, sources=[out.parent])
    with pytest.raises(CorpusError, match="empty"):
        remove_from_index(out, ids=[f"p{n}" for n in range(30)])
    assert read_manifest(out) == before
    assert found(out, "number1")[0] in ("p0", "p1")


def test_a_removal_that_was_cut_off_is_not_taken_up_by_another(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("hoptree.indexing.run.link_passages", broken)
        with pytest.raises(RuntimeError):
            remove_from_index(out, ids=["p1"])
    assert counts(remove_from_index(out, ids=["p2"])) == (0, 0, 0, 1, 0)
    assert read_manifest(out).passages == 29


def test_a_removal_that_was_cut_off_can_be_repeated(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("hoptree.indexing.run.link_passages", broken)
        with pytest.raises(RuntimeError):
            remove_from_index(out, ids=["p1"])
    assert remove_from_index(out, ids=["p1"]).manifest.passages == 29


def broken(*args: object, **kwargs: object) -> None:
    raise RuntimeError("cut off")


def test_passages_of_a_program_that_were_cut_off_are_not_mixed_with_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("hoptree.indexing.run.link_passages", broken)
        with pytest.raises(RuntimeError):
            index_passages([Passage("a", "", "ant")], tmp_path / "idx")
    assert index_passages([Passage("b", "", "bee")], tmp_path / "idx").passages == 1
    assert found(tmp_path / "idx", "ant bee") == ["b"]


def test_a_build_that_was_cut_off_forgets_a_file_that_is_gone(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file was being read: part of it had been made safe."""
    monkeypatch.setattr("hoptree.indexing.run._SAVE_EVERY", 1)
    monkeypatch.setattr("hoptree.indexing.run._AT_ONCE", 3)
    (docs / "1.jsonl").write_text("broken\n", encoding="utf-8")
    write_rows(docs / "0.jsonl", rows(10))
    with (docs / "0.jsonl").open("a") as file:
        file.write("broken\n")
    with pytest.raises(CorpusError, match="no JSON"):
        build_index(docs, tmp_path / "idx", reading=Reading(skip_broken=0))
    (docs / "0.jsonl").unlink()
    (docs / "1.jsonl").unlink()
    outcome = build_index(docs, tmp_path / "idx", reading=Reading(skip_broken=0))
    assert outcome.resumed
    assert outcome.manifest.passages == 10
    assert found(tmp_path / "idx", "number3") == []


def test_a_run_that_failed_can_be_repeated_in_the_same_program(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failed run holds no lock, although its error is still at hand."""
    monkeypatch.setattr("hoptree.indexing.run._SAVE_EVERY", 5)
    bad = write_rows(docs / "9.jsonl", [{"id": "p3", "title": "", "text": "Other."}])
    with pytest.raises(CorpusError, match="p3") as failure:
        build_index(docs, tmp_path / "idx")
    bad.unlink()
    outcome = build_index(docs, tmp_path / "idx")
    assert failure.value is not None and outcome.resumed
    assert outcome.manifest.passages == 30


# Sources


def test_a_source_that_is_gone_is_named(docs: Path, out: Path) -> None:
    docs.rename(docs.parent / "elsewhere")
    with pytest.raises(CorpusError, match="is gone") as failure:
        update_index(out)
    assert "hoptree index remove" in failure.value.remedy
    assert found(out, "number3")


def test_an_update_takes_out_what_an_emptied_source_held(docs: Path, out: Path, tmp_path: Path) -> None:
    more = write_rows(tmp_path / "more" / "a.jsonl", rows(5, 100))
    add_to_index([more.parent], out)
    more.unlink()
    outcome = update_index(out)
    assert counts(outcome) == (0, 0, 0, 5, 0)
    assert outcome.manifest.sources == (str(docs), str(more.parent))
    write_rows(more, rows(3, 200))
    assert counts(update_index(out)) == (3, 0, 0, 0, 0)
    more.unlink()
    update_index(out)
    assert remove_from_index(out, sources=[more.parent]).manifest.sources == (str(docs),)


def test_an_update_that_would_leave_nothing_is_an_error(docs: Path, out: Path) -> None:
    before = read_manifest(out)
    for path in docs.iterdir():
        path.unlink()
    with pytest.raises(CorpusError, match="No source") as failure:
        update_index(out)
    assert f"Put documents into {docs}" in failure.value.remedy
    assert read_manifest(out) == before
    write_rows(docs / "new.jsonl", rows(2))
    assert update_index(out).manifest.passages == 2


def test_an_update_that_would_leave_nothing_says_what_was_refused(tmp_path: Path) -> None:
    question = "Which river flows through the old town of Velmora?"
    held = write_rows(tmp_path / "dev.jsonl", [{"id": "q", "question": question}])
    docs, out = tmp_path / "docs", tmp_path / "idx"
    write_rows(docs / "a.jsonl", rows(2))
    build_index(docs, out, reading=Reading(without=(held,)))
    write_rows(docs / "a.jsonl", [{"id": "leak", "title": "", "text": question}])
    with pytest.raises(CorpusError, match="1 passage left out because of an evaluation question") as failure:
        update_index(out)
    assert "No source" not in failure.value.cause and "the index is as it was" in failure.value.cause
    (docs / "a.jsonl").write_bytes(b"\0\1\2" * 100)
    with pytest.raises(CorpusError, match=r"a\.jsonl is no text: it is binary") as failure:
        update_index(out)
    assert "No source" not in failure.value.cause and "--out" not in failure.value.remedy
    write_rows(docs / "a.jsonl", [{"id": "leak", "title": "", "text": question}])
    with pytest.raises(CorpusError, match="evaluation question"):
        build_index(docs, tmp_path / "new", reading=Reading(without=(held,)))


def readmes(folder: Path, *texts: str) -> list[Path]:
    """Folders t1, t2, … with a readme each."""
    sources = [folder / f"t{number}" for number, _ in enumerate(texts, 1)]
    for source, text in zip(sources, texts, strict=True):
        source.mkdir(parents=True, exist_ok=True)
        (source / "readme.txt").write_text(text, encoding="utf-8")
    return sources


@pytest.mark.parametrize("added", [False, True])
def test_documents_of_further_folders_are_named_after_them(tmp_path: Path, added: bool) -> None:
    first, second = readmes(tmp_path, "The aardvark.", "The bear.")
    write_rows(second / "rows.jsonl", rows(1))
    out = tmp_path / "idx"
    build_index(first if added else [second, first, second], out)
    if added:
        add_to_index([second, first], out)
    plain, further = ("aardvark", "bear") if added else ("bear", "aardvark")
    assert found(out, plain) == ["readme.txt#1"]
    assert found(out, further) == [f"{'t2' if added else 't1'}/readme.txt#1"]
    assert found(out, "friend") == ["p0"]
    assert counts(update_index(out)) == (0, 0, 0, 0, 0)


def test_the_names_stay_through_updates_compaction_and_removal(tmp_path: Path) -> None:
    first, second = readmes(tmp_path, "The aardvark.", "The bear.")
    out = tmp_path / "idx"
    build_index([first, second], out)
    compact_index(out)
    readmes(tmp_path, "The aardvark digs.", "The bear sleeps.")
    assert counts(update_index(out)) == (0, 0, 2, 0, 0)
    assert (found(out, "digs"), found(out, "sleeps")) == (["readme.txt#1"], ["t2/readme.txt#1"])
    remove_from_index(out, sources=[first])
    (second / "more.txt").write_text("The crane.", encoding="utf-8")
    update_index(out)
    assert found(out, "crane") == ["t2/more.txt#1"]
    add_to_index([first], out)
    assert found(out, "digs") == ["t1/readme.txt#1"]


def test_a_build_of_two_folders_that_was_cut_off_names_documents_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = readmes(tmp_path, "The aardvark.", "The bear.")
    with monkeypatch.context() as patch:
        patch.setattr("hoptree.indexing.run.link_passages", broken)
        with pytest.raises(RuntimeError):
            build_index(sources, tmp_path / "idx")
    (sources[1] / "more.txt").write_text("The crane.", encoding="utf-8")
    assert build_index(sources, tmp_path / "idx").resumed
    assert found(tmp_path / "idx", "aardvark bear crane") == ["readme.txt#1", "t2/more.txt#1", "t2/readme.txt#1"]


def namesakes(folder: Path, *animals: str) -> list[Path]:
    """Folders a/docs, b/docs, … with a readme each."""
    sources = [folder / letter / "docs" for letter, _ in zip("abcdefg", animals, strict=False)]
    for source, animal in zip(sources, animals, strict=True):
        source.mkdir(parents=True, exist_ok=True)
        (source / "readme.txt").write_text(f"The {animal}.", encoding="utf-8")
    return sources


@pytest.mark.parametrize("added", [False, True])
def test_folders_of_one_name_keep_their_own_documents(tmp_path: Path, added: bool) -> None:
    animals = ["aardvark", "bear", "crane", "dingo"]
    sources, out = namesakes(tmp_path, *animals), tmp_path / "idx"
    build_index(sources[: 1 if added else 4], out)
    for source in sources[1:] if added else ():
        add_to_index([source], out)
    names = ["readme.txt#1", "docs/readme.txt#1", "c/docs/readme.txt#1", "d/docs/readme.txt#1"]
    assert [found(out, animal) for animal in animals] == [[name] for name in names]
    assert counts(update_index(out)) == (0, 0, 0, 0, 0)
    compact_index(out)
    (sources[2] / "readme.txt").write_text("The crane flies.", encoding="utf-8")
    (sources[2] / "more.txt").write_text("The emu.", encoding="utf-8")
    assert counts(update_index(out)) == (1, 0, 1, 0, 0)
    assert (found(out, "flies"), found(out, "emu")) == (["c/docs/readme.txt#1"], ["c/docs/more.txt#1"])
    assert remove_from_index(out, ids=["c/docs/more.txt"]).removed == 1
    assert remove_from_index(out, sources=[sources[1]]).removed == 1
    assert [found(out, animal) for animal in animals] == [["readme.txt#1"], [], [names[2]], [names[3]]]


def test_files_of_one_name_keep_their_own_documents(tmp_path: Path) -> None:
    sources = [source / "readme.txt" for source in namesakes(tmp_path, "aardvark", "bear", "crane")]
    out = tmp_path / "idx"
    build_index(sources, out)
    assert [found(out, animal) for animal in ("aardvark", "bear", "crane")] == [
        ["readme.txt#1"],
        ["docs/readme.txt#1"],
        ["c/docs/readme.txt#1"],
    ]
    assert counts(update_index(out)) == (0, 0, 0, 0, 0)
    assert remove_from_index(out, sources=sources[1:2]).removed == 1
    assert found(out, "crane") == ["c/docs/readme.txt#1"]


def test_a_further_folder_is_told_from_one_inside_the_first(tmp_path: Path) -> None:
    (second,) = namesakes(tmp_path, "bear")
    (tmp_path / "first" / "docs").mkdir(parents=True)
    (tmp_path / "first" / "docs" / "readme.txt").write_text("The aardvark.", encoding="utf-8")
    out = tmp_path / "idx"
    build_index([tmp_path / "first", second], out)
    assert (found(out, "aardvark"), found(out, "bear")) == (["docs/readme.txt#1"], ["a/docs/readme.txt#1"])


def test_a_source_inside_another_is_the_same_documents(tmp_path: Path) -> None:
    namesakes(tmp_path / "all", "aardvark", "bear")
    out = tmp_path / "idx"
    build_index(tmp_path / "all", out)
    inside = [tmp_path / "all" / "b", tmp_path / "all" / "a" / "docs" / "readme.txt"]
    assert counts(add_to_index(inside, out)) == (0, 0, 0, 0, 2)
    assert counts(remove_from_index(out, sources=[tmp_path / "all"])) == (0, 2, 0, 0, 0)
    assert found(out, "aardvark bear") == ["a/docs/readme.txt#1", "b/docs/readme.txt#1"]


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("inner", ["a", "a/docs/readme.txt"])
def test_a_source_around_another_is_taken_in_with_a_warning(tmp_path: Path, added: bool, inner: str) -> None:
    namesakes(tmp_path / "all", "aardvark", "bear")
    inside, around, out = tmp_path / "all" / inner, tmp_path / "all", tmp_path / "idx"
    if added:
        assert build_index(inside, out).examples == ()
        outcome = add_to_index([around], out)
    else:
        outcome = build_index([inside, around], out)
    (warning,) = outcome.examples
    assert f"{around} holds {inside}" in warning and f"hoptree index remove {inside} --out {out}" in warning
    assert len(found(out, "aardvark")) == 2
    assert update_index(out).examples == ()
    remove_from_index(out, sources=[inside])
    assert len(found(out, "aardvark")) == 1


def test_a_source_whose_name_no_index_can_hold_is_refused(docs: Path, out: Path, tmp_path: Path) -> None:
    strange = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    try:
        strange.mkdir()
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    (strange / "x.txt").write_text("A house.", encoding="utf-8")
    for act in (build_index, lambda sources, out: add_to_index([sources], out), estimate_of):
        with pytest.raises(CorpusError, match=r"caf\\xe9 is not written in UTF-8"):
            act(strange, out)
    assert counts(update_index(out)) == (0, 0, 0, 0, 0)


def estimate_of(source: Path, out: Path) -> None:
    estimate([source], out, Settings())


def test_a_prefix_is_found_whatever_is_taken(tmp_path: Path) -> None:
    with closing(Ledger(tmp_path / "ledger.sqlite", writable=True)) as ledger:
        ledger.enter_source("/a", "")
        for prefix in ("tmp", "tmp~2"):
            ledger.enter_source(f"/{prefix}/elsewhere", prefix)
        assert prefix_for("/tmp", ledger) == "tmp~3"
        ledger.enter_source("/", "")
        assert prefix_for("/tmp", ledger) == "tmp", "it lies inside"


def test_names_that_collide_all_the_same_are_an_error_that_names_both(tmp_path: Path) -> None:
    first, second = readmes(tmp_path, "One.", "Two.")
    build_index([first, second], tmp_path / "idx")
    (first / "t2").mkdir()
    (first / "t2" / "readme.txt").write_text("Three.", encoding="utf-8")
    with pytest.raises(CorpusError, match=rf"'t2/readme.txt#1'.*{first}.*{second}") as failure:
        update_index(tmp_path / "idx")
    assert "Build the index again" in failure.value.remedy
    assert build_index([first, second], tmp_path / "idx").added == 3
    assert {*found(tmp_path / "idx", "two three")} == {"t2/readme.txt#1", f"{tmp_path.name}/t2/readme.txt#1"}


def test_an_index_of_old_keeps_plain_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ledger knows no prefixes: the names of its documents are as they were."""
    first, second = readmes(tmp_path, "The aardvark.", "The bear.")
    (second / "readme.txt").rename(second / "other.txt")
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "enter_source", lambda *args: None)
        build_index([first, second], tmp_path / "idx")
    (second / "other.txt").write_text("The bear sleeps.", encoding="utf-8")
    assert counts(update_index(tmp_path / "idx")) == (0, 0, 1, 0, 0)
    assert found(tmp_path / "idx", "sleeps") == ["other.txt#1"]


def test_another_index_inside_a_source_is_not_read(docs: Path, tmp_path: Path) -> None:
    index_passages([Passage("a", "", "ant")], docs / "ants.idx")
    outcome = build_index(docs, tmp_path / "idx")
    assert counts(outcome) == (30, 0, 0, 0, 0)
    assert outcome.passed_over == "indexes: 1"


def test_an_index_inside_its_own_source_does_not_index_itself(docs: Path) -> None:
    first = build_index(docs, docs / "idx")
    assert first.manifest.passages == 30
    assert counts(update_index(docs / "idx")) == (0, 0, 0, 0, 0)
    assert build_index(docs, docs / "idx").manifest.digest == first.manifest.digest


def test_a_source_inside_the_index_folder_is_refused(tmp_path: Path) -> None:
    write_rows(tmp_path / "idx" / "docs" / "a.jsonl", rows(2))
    with pytest.raises(CorpusError, match="is no index"):
        build_index(tmp_path / "idx" / "docs", tmp_path / "idx")
    assert (tmp_path / "idx" / "docs" / "a.jsonl").exists()


def test_a_program_s_passages_cannot_be_updated_but_added_to(tmp_path: Path) -> None:
    index_passages([Passage("a", "", "ant")], tmp_path / "idx")
    with pytest.raises(CorpusError, match="not made from files"):
        update_index(tmp_path / "idx")
    add_to_index([write_rows(tmp_path / "more.jsonl", rows(1))], tmp_path / "idx")
    assert found(tmp_path / "idx", "ant friend") == ["a", "p0"]


@pytest.mark.parametrize("act", [update_index, compact_index])
def test_what_is_no_index_cannot_be_changed(act: object, tmp_path: Path) -> None:
    assert callable(act)
    with pytest.raises(CorpusError, match="There is no index"):
        act(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_the_way_of_reading_is_kept_for_updates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the questions has a space in its name, and the update is run from elsewhere."""
    monkeypatch.chdir(tmp_path)
    question = "Which river flows through the old town of Velmora?"
    (tmp_path / "my questions").mkdir()
    write_rows(tmp_path / "my questions" / "dev.jsonl", [{"id": "q", "question": question}])
    write_rows(tmp_path / "docs" / "a.jsonl", [*rows(3), {"id": "leak", "title": "", "text": f"{question} The Orn."}])
    reading = Reading(without=(Path("my questions/dev.jsonl"),))
    first = build_index(Path("docs"), tmp_path / "idx", reading=reading)
    assert (first.held_questions, first.manifest.passages) == (1, 3)
    write_rows(tmp_path / "docs" / "b.jsonl", [{"id": "leak2", "title": "", "text": f"Asked: {question}"}])
    monkeypatch.chdir("/")
    second = update_index(tmp_path / "idx")
    assert (second.held_questions, second.manifest.passages) == (1, 3)


def test_reading_comes_back_as_it_was_stored() -> None:
    reading = Reading(Chunking.parse("words:50:5"), Path("/a b/t.json"), 0, (Path("/x y/q.json"), Path("/z.json")))
    assert Reading.restored(reading.stored()) == reading
    assert Reading.restored({}) == Reading()


# Compaction


def test_compaction_gives_the_scores_of_a_fresh_build(docs: Path, out: Path, tmp_path: Path) -> None:
    for number in range(3):
        write_rows(tmp_path / "more.jsonl", rows(5, 100 * (number + 1)), ns=3 * 10**18 + number)
        add_to_index([tmp_path / "more.jsonl"], out)
    (docs / "1.jsonl").unlink()
    update_index(out)
    outcome = compact_index(out)
    assert outcome.unchanged == outcome.manifest.passages == 25
    fresh = tmp_path / "fresh"
    assert build_index([docs, tmp_path / "more.jsonl"], fresh).manifest.digest == outcome.manifest.digest
    for kind in ("bm25", "linked"):
        for query in ("friend of Person Number3", "town4 number301", "Who lives with Person Number5?"):
            assert searched(out, kind, query) == searched(fresh, kind, query)
    assert graph(out) == graph(fresh)
    assert counts(update_index(out)) == (0, 0, 0, 0, 0)


def searched(folder: Path, kind: str, query: str) -> tuple[Passage, ...]:
    return asyncio.run(open_retriever(folder, kind).search(query, k=8))


# Vectors


class Letters:
    """An encoder that counts letters: 26 numbers."""

    name = "letters"
    dimensions = 26

    def __init__(self, identity: str = "letters:1") -> None:
        self.identity = identity
        self.encoded: list[str] = []
        self.fails_after = 10**9

    async def encode(self, texts: list[str], *, role: str) -> Any:
        import numpy as np

        if len(self.encoded) + len(texts) > self.fails_after:
            raise CorpusError("The encoder went away.")
        self.encoded += texts
        rows = np.array([[text.lower().count(chr(97 + n)) + 0.01 for n in range(26)] for text in texts], np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    async def aclose(self) -> None:
        return None


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> Letters:
    pytest.importorskip("usearch")
    encoder = Letters()
    monkeypatch.setattr("hoptree.retrieval.index.encoding.open_encoder", lambda spec: encoder)
    monkeypatch.setattr("hoptree.indexing.commands.open_encoder", lambda spec: encoder)
    monkeypatch.setattr("hoptree.retrieval.index.encoding._AT_ONCE", 4)
    monkeypatch.setattr("hoptree.retrieval.index.encoding._SAVE_EVERY", -1.0)
    return encoder


def nearest(out: Path, encoder: Letters, text: str) -> int:
    (vector,) = asyncio.run(encoder.encode([text], role="query"))
    return Vectors(Index(out).vectors).search(vector, 1)[0][0]


def test_only_what_is_new_is_encoded(docs: Path, out: Path, letters: Letters) -> None:
    assert encode_index(out, "letters").manifest.settings.encoder == "letters"
    assert len(letters.encoded) == 30
    letters.encoded.clear()
    encode_index(out, "letters")
    assert letters.encoded == []
    write_rows(docs / "0.jsonl", [{"id": "p0", "title": "Zzz", "text": "zzzz zzzz"}, *rows(8, 1)], ns=2 * 10**18)
    assert counts(update_index(out)) == (0, 8, 1, 1, 0)
    assert letters.encoded == [letters.encoded[0]] and "zzzz" in letters.encoded[0]
    assert len(Vectors(Index(out).vectors)) == 29
    assert nearest(out, letters, "zzzz") == key_of("p0")


@pytest.mark.parametrize("after", [0, 4, 8])
def test_an_update_whose_encoding_failed_goes_on(docs: Path, out: Path, letters: Letters, after: int) -> None:
    """Among what changed is a passage that is gone and one with another text: no vector of old is left."""
    encode_index(out, "letters")
    letters.encoded.clear()
    changed = [{"id": f"p{n}", "title": "Zzz", "text": "zzzz zzzz" if n == 5 else "q" * n} for n in range(1, 10)]
    write_rows(docs / "0.jsonl", changed, ns=2 * 10**18)
    letters.fails_after = after
    with pytest.raises(CorpusError, match="went away"):
        update_index(out)
    letters.fails_after = 10**9
    letters.encoded.clear()
    outcome = update_index(out)
    assert outcome.resumed
    assert len(letters.encoded) == 9 - after
    assert len(Vectors(Index(out).vectors)) == 29
    assert nearest(out, letters, "zzzz") == key_of("p5")


def test_compaction_encodes_nothing(docs: Path, out: Path, letters: Letters) -> None:
    encode_index(out, "letters")
    (docs / "1.jsonl").unlink()
    update_index(out)
    letters.encoded.clear()
    compact_index(out)
    assert letters.encoded == []
    assert len(Vectors(Index(out).vectors)) == 20
    letters.encoded.clear()
    write_rows(docs / "5.jsonl", [{"id": "z", "title": "Zzz", "text": "zzzz zzzz"}])
    assert counts(update_index(out)) == (1, 0, 0, 0, 0)
    assert len(letters.encoded) == 1
    assert nearest(out, letters, "zzzz") == key_of("z")


def test_a_compaction_that_was_cut_off_goes_on_with_the_vectors(
    out: Path, letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode_index(out, "letters")
    letters.encoded.clear()
    with monkeypatch.context() as patch:
        patch.setattr("hoptree.indexing.run.link_passages", broken)
        with pytest.raises(RuntimeError):
            compact_index(out)
    assert compact_index(out).resumed
    assert letters.encoded == []
    assert len(Vectors(Index(out).vectors)) == 30


def test_an_index_can_be_made_while_an_event_loop_runs(docs: Path, tmp_path: Path, letters: Letters) -> None:
    async def notebook() -> Outcome:
        return build_index(docs, tmp_path / "idx", settings=Settings(encoder="letters"))

    assert asyncio.run(notebook()).added == len(letters.encoded) == 30


def test_vectors_of_an_encoder_that_changed_are_made_anew(out: Path, letters: Letters, tmp_path: Path) -> None:
    encode_index(out, "letters")
    letters.identity = "letters:2"
    with pytest.raises(CorpusError, match="another encoder") as failure:
        add_to_index([write_rows(tmp_path / "more.jsonl", rows(2, 100))], out)
    assert "hoptree index encode" in failure.value.remedy
    letters.encoded.clear()
    encode_index(out, "letters")
    assert len(letters.encoded) == 30


# Estimates, progress, and what is passed over


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


def test_broken_lines_are_passed_over_up_to_a_limit(docs: Path, tmp_path: Path) -> None:
    (docs / "bad.jsonl").write_text("nothing\n" * 5, encoding="utf-8")
    outcome = build_index(docs, tmp_path / "idx")
    assert (outcome.added, outcome.passed_over) == (30, "broken lines: 5")
    assert "Line 1 of bad.jsonl" in outcome.examples[0]
    with pytest.raises(CorpusError, match="More than 4 places"):
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
    assert found(out, "number3")
    assert len([path for path in out.iterdir() if path.is_dir()]) == 1


def test_an_unknown_language_leaves_nothing_behind(docs: Path, tmp_path: Path) -> None:
    with pytest.raises(HoptreeError, match="klingon"):
        build_index(docs, tmp_path / "idx", settings=Settings(language="klingon"))
    assert not (tmp_path / "idx").exists()


# What cannot be read


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
        assert len(ledger.files()) == 3
    outcome = update_index(out)
    assert (counts(outcome), outcome.passed_over) == ((1, 8, 0, 2, 0), "")
    assert outcome.manifest.digest == build_index(docs, tmp_path / "fresh").manifest.digest
    assert counts(update_index(out)) == (0, 0, 0, 0, 0)


def test_a_file_that_could_not_be_read_when_the_index_was_made_is_read_by_an_update(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        unreadable(patch, "1.jsonl")
        assert build_index(docs, tmp_path / "idx").manifest.passages == 20
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
    assert found(out, "number103")


def test_an_array_that_breaks_midway_loses_nothing(tmp_path: Path) -> None:
    path, out = tmp_path / "a.json", tmp_path / "idx"
    path.write_text(json.dumps(rows(10)), encoding="utf-8")
    build_index(path, out)
    changed = [{"id": "new", "title": "", "text": "A walrus."}, {**rows(1)[0], "text": "Other."}, *rows(8, 1)]
    whole = json.dumps(changed)
    path.write_text(whole[: whole.index("Number4")], encoding="utf-8")
    outcome = update_index(out)
    assert (counts(outcome), outcome.passed_over) == ((1, 2, 1, 0, 0), "broken lines: 1")
    assert found(out, "walrus") == ["new"] and found(out, "number9")
    path.write_text(whole, encoding="utf-8")
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


def test_damaged_vectors_are_made_anew(out: Path, letters: Letters) -> None:
    encode_index(out, "letters")
    (base,) = Index(out).vectors.glob("base-*.usearch")
    base.write_bytes(base.read_bytes()[:-100])
    letters.encoded.clear()
    encode_index(out, "letters")
    assert len(letters.encoded) == len(Vectors(Index(out).vectors)) == 30


@pytest.mark.parametrize("name", ["base-*.usearch", "vectors.json"])
def test_damaged_vectors_are_told_with_the_command_that_mends_them(
    docs: Path, out: Path, letters: Letters, tmp_path: Path, name: str
) -> None:
    encode_index(out, "letters")
    before = read_manifest(out)
    (emptied,) = Index(out).vectors.glob(name)
    emptied.write_bytes(b"")
    (docs / "1.jsonl").unlink()
    acts: list[Callable[[], object]] = [
        lambda: update_index(out),
        lambda: remove_from_index(out, ids=["p1"]),
        lambda: compact_index(out),
        lambda: Index(out).open_vectors(),
    ]
    for act in acts:
        with pytest.raises(CorpusError, match=f"^The vectors of the index {out} are damaged") as failure:
            act()
        assert failure.value.remedy == f"Make them again: hoptree index encode --encoder letters --out {out}"
        assert ".part" not in failure.value.cause
    assert read_manifest(out) == before
    done = hoptree(tmp_path, "index", "info", "--out", "idx")
    assert done.returncode == 2 and "hoptree index encode --encoder letters --out idx" in done.stderr
    encode_index(out, "letters")
    assert hoptree(tmp_path, "index", "info", "--out", "idx").returncode == 0
    assert update_index(out).removed == 10


def test_an_encoder_that_is_refused_leaves_nothing_behind(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("usearch")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(HoptreeError, match="needs a key"):
        encode_index(out, "openai/text-embedding-3-small")
    assert not list(out.glob("*.part"))


def test_an_index_inside_its_source_says_nothing_of_its_own_files(docs: Path) -> None:
    for outcome in (build_index(docs, docs / "idx"), update_index(docs / "idx")):
        assert (outcome.passed_over, outcome.examples) == ("", ())


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
    assert (found(out, "aardvark"), found(out, "bear")) == ([], ["docs/readme.txt#1"])
    monkeypatch.chdir(tmp_path / "b")
    assert remove_from_index(out, ids=["docs/rows.jsonl"]).removed == 2, "both lead to one file"


@pytest.mark.parametrize("after", [1, 3, 6, 8])
def test_a_build_that_was_cut_off_tells_in_the_end_what_all_of_it_did(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Among the passages are one that stands in two files and one that holds a question."""
    question = "Which river flows through the old town of Velmora?"
    held = write_rows(tmp_path / "dev.jsonl", [{"id": "q", "question": question}])
    write_rows(docs / "1.jsonl", [*rows(10, 10), *rows(1), {"id": "leak", "title": "", "text": question}])
    reading = Reading(without=(held,))
    interrupted(monkeypatch, after, lambda: build_index(docs, tmp_path / "idx", reading=reading))
    outcome = build_index(docs, tmp_path / "idx", reading=reading)
    assert outcome.resumed
    assert (counts(outcome), outcome.held_questions) == ((30, 0, 0, 0, 1), 1)
    assert counts(update_index(tmp_path / "idx")) == (0, 0, 0, 0, 0)


def interrupted(monkeypatch: pytest.MonkeyPatch, after: int, act: Callable[[], object]) -> None:
    """Ctrl-C after so many times that work was made safe, every four passages."""
    saves = 0

    def save(change: Change) -> None:
        nonlocal saves
        saves += 1
        original(change)
        if saves == after:
            raise KeyboardInterrupt

    original = Change.save
    with monkeypatch.context() as patch:
        patch.setattr("hoptree.indexing.run._SAVE_EVERY", 1)
        patch.setattr("hoptree.indexing.run._AT_ONCE", 4)
        patch.setattr(Change, "save", save)
        with pytest.raises(KeyboardInterrupt):
            act()


@pytest.mark.parametrize("where", ["same", "other"])
def test_two_passages_with_one_id_are_told_with_their_files(docs: Path, tmp_path: Path, where: str) -> None:
    other = {"id": "p3", "title": "", "text": "Other."}
    if where == "same":
        write_rows(docs / "0.jsonl", [*rows(10), other])
    else:
        write_rows(docs / "9.jsonl", [other])
    said = r"both are in .*0\.jsonl" if where == "same" else r"one is in 9\.jsonl, the other one in 0\.jsonl"
    with pytest.raises(CorpusError, match=said):
        build_index(docs, tmp_path / "idx")


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
    whole = sum(path.stat().st_size for path in (*docs.iterdir(), more))
    assert estimate_change(out, reread=True).source_bytes == whole


def test_an_estimate_counts_vectors(
    docs: Path, out: Path, letters: Letters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hoptree.indexing.forecast.open_encoder", lambda spec: letters)
    plain, dense = (estimate([docs], tmp_path / "new", Settings(encoder=encoder)) for encoder in ("", "letters"))
    assert dense.disk_bytes > plain.disk_bytes and dense.memory_bytes > plain.memory_bytes
    encoding = estimate_encoding(out, "letters")
    assert 30 * 26 * 4 < encoding.disk_bytes < 100_000 and encoding.memory_bytes > 2 * 30 * 26 * 4
    monkeypatch.setattr(letters, "dimensions", 0)
    assert estimate_encoding(out, "letters").disk_bytes > encoding.disk_bytes, "not known before the first answer"


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
    monkeypatch.setattr(os, "scandir", refuse)
    assert estimate([docs], tmp_path / "new", Settings()).source_bytes
    assert estimate_change(out).source_bytes == 0
