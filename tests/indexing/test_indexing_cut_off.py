"""Commands that were cut off: the same one goes on, another one does not, and nothing is lost or comes twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.indexing.small_changes import broken, counts, readmes
from tests.small_indexes import rows, search_ids, write_rows

from hoptree.core.errors import CorpusError
from hoptree.core.values import Passage
from hoptree.retrieval.index.change import Change
from hoptree.retrieval.index.folder import Settings, read_manifest
from hoptree.retrieval.indexing import build_index, index_passages, remove_from_index, update_index
from hoptree.retrieval.indexing.sources import Reading


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
        patch.setattr("hoptree.retrieval.indexing.run._SAVE_EVERY", 1)
        patch.setattr("hoptree.retrieval.indexing.run._AT_ONCE", 2)
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
    monkeypatch.setattr("hoptree.retrieval.indexing.run._SAVE_EVERY", 1)
    monkeypatch.setattr("hoptree.retrieval.indexing.run._AT_ONCE", 4)
    before = read_manifest(out)
    (docs / "1.jsonl").rename(tmp_path / "1.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr("hoptree.retrieval.indexing.run.Run.finish", broken)
        patch.setattr("hoptree.retrieval.index.ledger.Ledger.drop_file", broken)
        with pytest.raises(RuntimeError):
            update_index(out)
    (tmp_path / "1.jsonl").rename(docs / "1.jsonl")
    outcome = update_index(out)
    assert outcome.resumed and outcome.manifest.digest == before.digest


def test_a_removal_that_was_cut_off_is_not_taken_up_by_another(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("hoptree.retrieval.indexing.run.link_passages", broken)
        with pytest.raises(RuntimeError):
            remove_from_index(out, ids=["p1"])
    assert counts(remove_from_index(out, ids=["p2"])) == (0, 0, 0, 1, 0)
    assert read_manifest(out).passages == 29


def test_a_removal_that_was_cut_off_can_be_repeated(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("hoptree.retrieval.indexing.run.link_passages", broken)
        with pytest.raises(RuntimeError):
            remove_from_index(out, ids=["p1"])
    assert remove_from_index(out, ids=["p1"]).manifest.passages == 29


def test_passages_of_a_program_that_were_cut_off_are_not_mixed_with_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("hoptree.retrieval.indexing.run.link_passages", broken)
        with pytest.raises(RuntimeError):
            index_passages([Passage("a", "", "ant")], tmp_path / "idx")
    assert index_passages([Passage("b", "", "bee")], tmp_path / "idx").passages == 1
    assert search_ids(tmp_path / "idx", "ant bee") == ["b"]


def test_a_build_that_was_cut_off_forgets_a_file_that_is_gone(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file was being read: part of it had been made safe."""
    monkeypatch.setattr("hoptree.retrieval.indexing.run._SAVE_EVERY", 1)
    monkeypatch.setattr("hoptree.retrieval.indexing.run._AT_ONCE", 3)
    (docs / "1.jsonl").write_text("broken\n", encoding="utf-8")
    write_rows(docs / "0.jsonl", rows(10))
    with (docs / "0.jsonl").open("a") as file:
        file.write("broken\n")
    with pytest.raises(CorpusError, match="not JSON"):
        build_index(docs, tmp_path / "idx", reading=Reading(skip_broken=0))
    (docs / "0.jsonl").unlink()
    (docs / "1.jsonl").unlink()
    outcome = build_index(docs, tmp_path / "idx", reading=Reading(skip_broken=0))
    assert outcome.resumed
    assert outcome.manifest.passages == 10
    assert search_ids(tmp_path / "idx", "number3") == []


def test_a_run_that_failed_can_be_repeated_in_the_same_program(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failed run holds no lock, although its error is still at hand."""
    monkeypatch.setattr("hoptree.retrieval.indexing.run._SAVE_EVERY", 5)
    bad = write_rows(docs / "9.jsonl", [{"id": "p3", "title": "", "text": "Other."}])
    with pytest.raises(CorpusError, match="p3") as failure:
        build_index(docs, tmp_path / "idx")
    bad.unlink()
    outcome = build_index(docs, tmp_path / "idx")
    assert failure.value is not None and outcome.resumed
    assert outcome.manifest.passages == 30


def test_a_build_of_two_folders_that_was_cut_off_names_documents_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = readmes(tmp_path, "The aardvark.", "The bear.")
    with monkeypatch.context() as patch:
        patch.setattr("hoptree.retrieval.indexing.run.link_passages", broken)
        with pytest.raises(RuntimeError):
            build_index(sources, tmp_path / "idx")
    (sources[1] / "more.txt").write_text("The crane.", encoding="utf-8")
    assert build_index(sources, tmp_path / "idx").resumed
    assert search_ids(tmp_path / "idx", "aardvark bear crane") == ["readme.txt#1", "t2/more.txt#1", "t2/readme.txt#1"]


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
        patch.setattr("hoptree.retrieval.indexing.run._SAVE_EVERY", 1)
        patch.setattr("hoptree.retrieval.indexing.run._AT_ONCE", 4)
        patch.setattr(Change, "save", save)
        with pytest.raises(KeyboardInterrupt):
            act()
