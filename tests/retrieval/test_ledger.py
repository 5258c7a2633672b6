"""The ledger: what an index holds, counted and digested as it changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.core.errors import CorpusError
from hoptree.core.values import Passage
from hoptree.retrieval.index.ledger import Entry, Ledger, content_of
from hoptree.retrieval.index.tantivy_files import key_of

PASSAGE = Passage("a", "Title", "Text.", 0.0, "a", 0, 5)


def entry(n: int, file: int = 1) -> tuple[int, bytes, int, int]:
    return n, n.to_bytes(16), file, n


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite", writable=True)


def test_the_digest_is_that_of_the_set(ledger: Ledger, tmp_path: Path) -> None:
    ledger.add([entry(1), entry(2), entry(3)])
    other = Ledger(tmp_path / "other.sqlite", writable=True)
    other.add([entry(3)])
    other.add([entry(9), entry(2)])
    assert other.digest != ledger.digest
    other.drop(list(other.look_up([9]).values()))
    other.add([entry(1, file=5)])
    assert (other.digest, other.passages) == (ledger.digest, ledger.passages)
    ledger.drop(list(ledger.look_up([1, 2, 3, 4]).values()))
    assert (ledger.digest, ledger.passages) == ("0" * 32, 0)


def test_what_is_not_committed_is_gone_with_the_process(tmp_path: Path) -> None:
    first = Ledger(tmp_path / "ledger.sqlite", writable=True)
    first.add([entry(1)])
    first.commit()
    first.add([entry(2)])
    first.close()
    again = Ledger(tmp_path / "ledger.sqlite", writable=True)
    assert (again.passages, list(again.look_up([1, 2]))) == (1, [1])


def test_a_settled_ledger_is_one_file_that_may_only_be_read(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "a ?#%.sqlite", writable=True)
    ledger.add([entry(1)])
    ledger.settle()
    ledger.close()
    assert [path.name for path in tmp_path.iterdir()] == ["a ?#%.sqlite"]
    reader = Ledger(tmp_path / "a ?#%.sqlite")
    assert reader.look_up([1]) == {1: Entry(1, (1).to_bytes(16), 1, 1)}


def test_files_are_gone_when_nobody_saw_them(ledger: Ledger) -> None:
    first = ledger.enter_file("s", "a", 1, 1)
    ledger.complete_file(first)
    begun = ledger.enter_file("s", "b", 2, 2)
    assert ledger.enter_file("s", "b", 2, 2) == begun
    assert ledger.enter_file("s", "b", 2, 3) != begun
    ledger.enter_file("other", "a", 1, 1)
    ledger.mark_present(ledger.ids_of("s", "a"))
    assert ledger.gone("s") == ledger.ids_of("s", "b")
    assert ledger.sources() == ["other", "s"]


def test_moved_passages_are_those_of_the_other_file(ledger: Ledger) -> None:
    ledger.add([entry(n) for n in range(1, 6)])
    ledger.move([2, 4], 7)
    assert {row.key for row in ledger.of_file(7)} == {2, 4}
    assert {row.key for row in ledger.of_file(1)} == {1, 3, 5}


def test_further_files_of_a_passage_are_kept_until_they_or_it_go(ledger: Ledger) -> None:
    ledger.add([entry(n) for n in range(1, 4)])
    ledger.note_also([1, 2], 5)
    ledger.note_also([1, 1], 6)
    assert ledger.also_in([1, 2, 3]) == {1: [5, 6], 2: [5]}
    ledger.leave([5])
    assert ledger.also_in([1, 2, 3]) == {1: [6]}
    ledger.drop(ledger.look_up([1]).values())
    assert ledger.also_in([1, 2, 3]) == {}


def test_a_file_that_is_to_be_dropped_counts_as_not_read(ledger: Ledger) -> None:
    first = ledger.enter_file("s", "a", 1, 1)
    ledger.complete_file(first)
    ledger.leave([first])
    assert ledger.file("s", "a") is None
    assert ledger.enter_file("s", "a", 1, 1) != first


def test_a_source_is_known_while_it_has_files_or_was_not_forgotten(ledger: Ledger) -> None:
    ledger.enter_source("b", "prefix ")
    ledger.enter_source("a", "")
    ledger.enter_file("c", "x", 1, 1)
    assert ledger.sources() == ["a", "b", "c"]
    assert [ledger.prefix_of(source) for source in ("a", "b", "c")] == ["", "prefix ", ""]
    ledger.forget_source("b")
    assert ledger.sources() == ["a", "c"]


@pytest.mark.parametrize("old", [False, True])
def test_files_are_copied_with_what_is_known_of_them(ledger: Ledger, tmp_path: Path, old: bool) -> None:
    """A ledger of old has no table of further files."""
    file = ledger.enter_file("s", "a", 1, 1)
    ledger.add([entry(1, file)])
    ledger.note_also([1], 7)
    ledger.enter_source("s", "docs")
    ledger.set_fact("encoder identity", "letters")
    if old:
        ledger._db.execute("drop table also")
    other = Ledger(tmp_path / "other.sqlite", writable=True)
    other.copy_files(ledger)
    assert (other.place_of(file), other.prefix_of("s")) == (("s", "a"), "docs")
    assert other.fact("encoder identity") == "letters"
    assert other.also_in([1]) == ({} if old else {1: [7]})
    assert other.passages == 0 and other.digest == "0" * 32


@pytest.mark.parametrize("content", [None, b"x" * 3000, b""])
def test_what_is_no_ledger_is_a_corpus_error(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "ledger.sqlite"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CorpusError, match="ledger"):
        Ledger(path)


def test_a_number_that_is_none_is_damage(ledger: Ledger) -> None:
    assert ledger.number("nothing") == 0
    for name in ("next", "passages", "digest"):
        ledger.set_fact(name, "abc")
    for read in (lambda: ledger.next_number, lambda: ledger.passages, lambda: ledger.digest):
        with pytest.raises(CorpusError, match=r"is damaged: its '\w+' is not a number"):
            read()


def test_every_passage_is_of_a_file(ledger: Ledger) -> None:
    file = ledger.enter_file("s", "a", 1, 1)
    ledger.add([entry(1, file)])
    ledger.check()
    ledger.add([entry(2, file + 1), entry(3, file + 2)])
    with pytest.raises(CorpusError, match="2 passages are of a file that it does not know"):
        ledger.check()


@pytest.mark.parametrize(
    "change",
    [
        {"title": "Title."},
        {"text": "Text"},
        {"document": "b"},
        {"aliases": ("x",)},
        {"metadata": (("x", "y"),)},
        {"document": "d", "start": 1, "end": 6},
    ],
)
def test_the_content_is_all_that_makes_a_passage(change: dict[str, object]) -> None:
    assert content_of(replace(PASSAGE, **change)) != content_of(PASSAGE)  # type: ignore[arg-type]


def test_the_score_of_a_search_is_no_part_of_the_content() -> None:
    assert content_of(replace(PASSAGE, score=3.0, stages=(("bm25", 3.0),))) == content_of(PASSAGE)
    assert content_of(Passage("a", "Title", "Text.")) == content_of(PASSAGE)


@given(st.text())
def test_every_id_has_a_key_that_an_index_can_hold(name: str) -> None:
    assert 0 <= key_of(name) < 2**63
    assert key_of(name) == key_of(name)
    assert len(content_of(Passage(name, name, name))) == 16
