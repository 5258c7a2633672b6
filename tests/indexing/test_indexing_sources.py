"""Several sources: what their documents are called, what is refused, and what an update finds gone."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest
from tests.indexing.small_changes import counts, namesakes, readmes
from tests.small_indexes import rows, search_ids, write_rows

from hoptree.core.errors import CorpusError
from hoptree.core.values import Passage
from hoptree.retrieval.index.folder import Settings, read_manifest
from hoptree.retrieval.index.ledger import Ledger
from hoptree.retrieval.indexing import (
    add_to_index,
    build_index,
    compact_index,
    index_passages,
    remove_from_index,
    update_index,
)
from hoptree.retrieval.indexing.check import estimate
from hoptree.retrieval.indexing.sources import Reading, prefix_for


def test_a_source_that_is_gone_is_named(docs: Path, out: Path) -> None:
    docs.rename(docs.parent / "elsewhere")
    with pytest.raises(CorpusError, match="is gone") as failure:
        update_index(out)
    assert "hoptree index remove" in failure.value.remedy
    assert search_ids(out, "number3")


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
    with pytest.raises(CorpusError, match=r"a\.jsonl is not text: it is binary") as failure:
        update_index(out)
    assert "No source" not in failure.value.cause and "--out" not in failure.value.remedy
    write_rows(docs / "a.jsonl", [{"id": "leak", "title": "", "text": question}])
    with pytest.raises(CorpusError, match="evaluation question"):
        build_index(docs, tmp_path / "new", reading=Reading(without=(held,)))


@pytest.mark.parametrize("added", [False, True])
def test_documents_of_further_folders_are_named_after_them(tmp_path: Path, added: bool) -> None:
    first, second = readmes(tmp_path, "The aardvark.", "The bear.")
    write_rows(second / "rows.jsonl", rows(1))
    out = tmp_path / "idx"
    build_index(first if added else [second, first, second], out)
    if added:
        add_to_index([second, first], out)
    plain, further = ("aardvark", "bear") if added else ("bear", "aardvark")
    assert search_ids(out, plain) == ["readme.txt#1"]
    assert search_ids(out, further) == [f"{'t2' if added else 't1'}/readme.txt#1"]
    assert search_ids(out, "friend") == ["p0"]
    assert counts(update_index(out)) == (0, 0, 0, 0, 0)


def test_the_names_stay_through_updates_compaction_and_removal(tmp_path: Path) -> None:
    first, second = readmes(tmp_path, "The aardvark.", "The bear.")
    out = tmp_path / "idx"
    build_index([first, second], out)
    compact_index(out)
    readmes(tmp_path, "The aardvark digs.", "The bear sleeps.")
    assert counts(update_index(out)) == (0, 0, 2, 0, 0)
    assert (search_ids(out, "digs"), search_ids(out, "sleeps")) == (["readme.txt#1"], ["t2/readme.txt#1"])
    remove_from_index(out, sources=[first])
    (second / "more.txt").write_text("The crane.", encoding="utf-8")
    update_index(out)
    assert search_ids(out, "crane") == ["t2/more.txt#1"]
    add_to_index([first], out)
    assert search_ids(out, "digs") == ["t1/readme.txt#1"]


@pytest.mark.parametrize("added", [False, True])
def test_folders_of_one_name_keep_their_own_documents(tmp_path: Path, added: bool) -> None:
    animals = ["aardvark", "bear", "crane", "dingo"]
    sources, out = namesakes(tmp_path, *animals), tmp_path / "idx"
    build_index(sources[: 1 if added else 4], out)
    for source in sources[1:] if added else ():
        add_to_index([source], out)
    names = ["readme.txt#1", "docs/readme.txt#1", "c/docs/readme.txt#1", "d/docs/readme.txt#1"]
    assert [search_ids(out, animal) for animal in animals] == [[name] for name in names]
    assert counts(update_index(out)) == (0, 0, 0, 0, 0)
    compact_index(out)
    (sources[2] / "readme.txt").write_text("The crane flies.", encoding="utf-8")
    (sources[2] / "more.txt").write_text("The emu.", encoding="utf-8")
    assert counts(update_index(out)) == (1, 0, 1, 0, 0)
    assert (search_ids(out, "flies"), search_ids(out, "emu")) == (["c/docs/readme.txt#1"], ["c/docs/more.txt#1"])
    assert remove_from_index(out, ids=["c/docs/more.txt"]).removed == 1
    assert remove_from_index(out, sources=[sources[1]]).removed == 1
    assert [search_ids(out, animal) for animal in animals] == [["readme.txt#1"], [], [names[2]], [names[3]]]


def test_files_of_one_name_keep_their_own_documents(tmp_path: Path) -> None:
    sources = [source / "readme.txt" for source in namesakes(tmp_path, "aardvark", "bear", "crane")]
    out = tmp_path / "idx"
    build_index(sources, out)
    assert [search_ids(out, animal) for animal in ("aardvark", "bear", "crane")] == [
        ["readme.txt#1"],
        ["docs/readme.txt#1"],
        ["c/docs/readme.txt#1"],
    ]
    assert counts(update_index(out)) == (0, 0, 0, 0, 0)
    assert remove_from_index(out, sources=sources[1:2]).removed == 1
    assert search_ids(out, "crane") == ["c/docs/readme.txt#1"]


def test_a_further_folder_is_told_from_one_inside_the_first(tmp_path: Path) -> None:
    (second,) = namesakes(tmp_path, "bear")
    (tmp_path / "first" / "docs").mkdir(parents=True)
    (tmp_path / "first" / "docs" / "readme.txt").write_text("The aardvark.", encoding="utf-8")
    out = tmp_path / "idx"
    build_index([tmp_path / "first", second], out)
    assert (search_ids(out, "aardvark"), search_ids(out, "bear")) == (["docs/readme.txt#1"], ["a/docs/readme.txt#1"])


def test_a_source_inside_another_is_the_same_documents(tmp_path: Path) -> None:
    namesakes(tmp_path / "all", "aardvark", "bear")
    out = tmp_path / "idx"
    build_index(tmp_path / "all", out)
    inside = [tmp_path / "all" / "b", tmp_path / "all" / "a" / "docs" / "readme.txt"]
    assert counts(add_to_index(inside, out)) == (0, 0, 0, 0, 2)
    assert counts(remove_from_index(out, sources=[tmp_path / "all"])) == (0, 2, 0, 0, 0)
    assert search_ids(out, "aardvark bear") == ["a/docs/readme.txt#1", "b/docs/readme.txt#1"]


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
    assert len(search_ids(out, "aardvark")) == 2
    assert update_index(out).examples == ()
    remove_from_index(out, sources=[inside])
    assert len(search_ids(out, "aardvark")) == 1


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
    assert {*search_ids(tmp_path / "idx", "two three")} == {"t2/readme.txt#1", f"{tmp_path.name}/t2/readme.txt#1"}


def test_an_index_of_old_keeps_plain_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ledger knows no prefixes: the names of its documents are as they were."""
    first, second = readmes(tmp_path, "The aardvark.", "The bear.")
    (second / "readme.txt").rename(second / "other.txt")
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "enter_source", lambda *args: None)
        build_index([first, second], tmp_path / "idx")
    (second / "other.txt").write_text("The bear sleeps.", encoding="utf-8")
    assert counts(update_index(tmp_path / "idx")) == (0, 0, 1, 0, 0)
    assert search_ids(tmp_path / "idx", "sleeps") == ["other.txt#1"]


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
    with pytest.raises(CorpusError, match="is not an index"):
        build_index(tmp_path / "idx" / "docs", tmp_path / "idx")
    assert (tmp_path / "idx" / "docs" / "a.jsonl").exists()


def test_a_program_s_passages_cannot_be_updated_but_added_to(tmp_path: Path) -> None:
    index_passages([Passage("a", "", "ant")], tmp_path / "idx")
    with pytest.raises(CorpusError, match="not made from files"):
        update_index(tmp_path / "idx")
    add_to_index([write_rows(tmp_path / "more.jsonl", rows(1))], tmp_path / "idx")
    assert search_ids(tmp_path / "idx", "ant friend") == ["a", "p0"]


@pytest.mark.parametrize("act", [update_index, compact_index])
def test_what_is_no_index_cannot_be_changed(act: object, tmp_path: Path) -> None:
    assert callable(act)
    with pytest.raises(CorpusError, match="There is no index"):
        act(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_an_index_inside_its_source_says_nothing_of_its_own_files(docs: Path) -> None:
    for outcome in (build_index(docs, docs / "idx"), update_index(docs / "idx")):
        assert (outcome.passed_over, outcome.examples) == ("", ())
