"""Adding, updating, compacting: only what changed is touched."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from tests.corpus.test_corpus_pdf import pdf
from tests.indexing.small_changes import counts
from tests.small_indexes import inodes, mention_pairs, rows, search_ids, write_rows

import hoptree
from hoptree.core.values import Passage
from hoptree.corpus.chunk import Chunking
from hoptree.corpus.document import Document
from hoptree.corpus.files import text_reader
from hoptree.corpus.read import _DOCUMENTS
from hoptree.retrieval.index.change import Change
from hoptree.retrieval.index.folder import read_manifest
from hoptree.retrieval.indexing import (
    add_to_index,
    build_index,
    cached_index,
    compact_index,
    remove_from_index,
    update_index,
)
from hoptree.retrieval.indexing.sources import Reading
from hoptree.retrieval.retriever import open_retriever


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
    assert search_ids(out, "number104")[0] == "p104"
    assert search_ids(out, "number3")[0] == "p3"


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
    assert search_ids(out, "number104") == []


def test_one_changed_line_of_many_is_replaced_alone(docs: Path, out: Path) -> None:
    before = inodes(out)
    records = rows(10)
    records[4]["text"] = "Quite another text about zebras."
    write_rows(docs / "0.jsonl", records, ns=2 * 10**18)
    assert counts(update_index(out)) == (0, 9, 1, 0, 0)
    assert before < inodes(out)
    assert search_ids(out, "zebras") == ["p4"]
    assert search_ids(out, "number5")[0] == "p5"


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
    assert search_ids(out, "walrus") == ["new"]
    assert search_ids(out, "number13") == ["p12"] or search_ids(out, "number13") == []
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
    assert search_ids(tmp_path / "idx", "aardvark") == ["c.txt#1"]


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
    assert mention_pairs(out) == mention_pairs(fresh)
    assert counts(update_index(out)) == (0, 0, 0, 0, 0)


def searched(folder: Path, kind: str, query: str) -> tuple[Passage, ...]:
    return asyncio.run(open_retriever(folder, kind).search(query, k=8))


def test_documents_have_an_index_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    docs = tmp_path / "docs"
    write_rows(docs / "a.jsonl", rows(5))
    place, outcome = cached_index(docs)
    assert outcome is not None and outcome.added == 5 and place.is_relative_to(tmp_path / "cache")
    assert cached_index(docs) == (place, None)
    write_rows(docs / "b.jsonl", rows(2, 50))
    with Change(place, intent={}):  # another process brings it up to date
        assert cached_index(docs) == (place, None)
    assert cached_index(docs)[1] is not None
    assert cached_index(docs / "b.jsonl")[0] != place
    script = tmp_path / "script.json"
    script.write_text('{"replies": [{"reply": "Ada"}]}', encoding="utf-8")
    result = hoptree.ask("Who lives in town1?", method="oner", model=f"scripted/{script}", corpus=docs)
    assert result.answer == "Ada" and result.consulted


def test_documents_in_the_cache_are_read_again_by_new_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    docs = tmp_path / "docs"
    write_rows(docs / "a.jsonl", rows(5))
    (docs / "b.txt").write_text("Words that the old reader took.", encoding="utf-8")
    place, _ = cached_index(docs)
    monkeypatch.setattr("hoptree.retrieval.indexing.readers_version", lambda: "new")
    monkeypatch.setitem(_DOCUMENTS, ".txt", text_reader(lambda text, name: Document(name, "", f"{text} And more.")))
    again = cached_index(docs)[1]
    assert again is not None and (again.replaced, again.added, again.removed) == (1, 0, 0)
    assert cached_index(docs) == (place, None)
    write_rows(docs / "a.jsonl", rows(6))
    assert cached_index(docs)[1] is not None and cached_index(docs) == (place, None)


def test_a_library_that_is_installed_later_reads_what_was_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    docs = tmp_path / "docs"
    write_rows(docs / "a.jsonl", rows(5))
    (docs / "b.pdf").write_bytes(pdf("A film of 2014"))
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pypdfium2", None)
        place, outcome = cached_index(docs)
        assert outcome is not None and outcome.added == 5
        assert cached_index(docs) == (place, None)
    again = cached_index(docs)[1]
    assert again is not None and again.added == 1 and not again.report
