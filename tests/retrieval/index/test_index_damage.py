"""Damage of an index is told in one sentence, wherever it is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.retrieval.index.numbered_people import PASSAGES
from tests.small_indexes import hoptree, replace_file, rows, search_ids, write_rows

from hoptree.core.errors import CorpusError
from hoptree.core.values import Passage
from hoptree.retrieval.bm25 import BM25
from hoptree.retrieval.index.folder import MANIFEST, Index, read_manifest
from hoptree.retrieval.indexing import add_to_index, build_index, compact_index, index_passages, update_index
from hoptree.retrieval.linked import Linked


@pytest.mark.parametrize(
    "text",
    ["", "garbage", "[]", "{}", "null", '{"format": 1}', '{"format": 3}', '{"format": 2}', "[" * 5000, "\udc80"],
)
def test_a_damaged_manifest_is_one_sentence(out: Path, tmp_path: Path, text: str) -> None:
    (out / MANIFEST).write_bytes(text.encode("utf-8", "surrogateescape"))
    for act in (Index, update_index, compact_index):
        with pytest.raises(CorpusError) as failure:
            act(out)
        assert "index" in failure.value.remedy


@pytest.mark.parametrize("field", ["generation", "passages", "digest", "settings", "sources", "reading", "bytes"])
@pytest.mark.parametrize("value", [None, 99, "x", [], {}])
def test_a_manifest_with_a_field_of_another_kind_never_gives_a_traceback(out: Path, field: str, value: object) -> None:
    data = json.loads((out / MANIFEST).read_text())
    (out / MANIFEST).write_text(json.dumps(data | {field: value}))
    try:
        BM25(Index(out)).search_now("friend", 3)
        update_index(out)
    except CorpusError:
        pass


def test_a_missing_generation_is_damage(out: Path) -> None:
    shutil.rmtree(out / "000001")
    for act in (Index, update_index, compact_index):
        with pytest.raises(CorpusError, match="damaged"):
            act(out)


@pytest.mark.parametrize("damage", ["missing", "empty", "garbage", "cut", "another"])
def test_a_damaged_ledger_is_found_before_anything_is_changed(out: Path, tmp_path: Path, damage: str) -> None:
    ledger = out / "000001" / "ledger.sqlite"
    whole = ledger.read_bytes()
    ledger.unlink()
    if damage == "another":
        index_passages(PASSAGES[:3], tmp_path / "other")
        shutil.copy(tmp_path / "other" / "000001" / "ledger.sqlite", ledger)
    elif damage != "missing":
        ledger.write_bytes({"empty": b"", "garbage": b"x" * 5000, "cut": whole[: len(whole) // 2]}[damage])
    before = read_manifest(out)
    more = write_rows(tmp_path / "more.jsonl", rows(3, 50))
    for _ in range(2):
        with pytest.raises(CorpusError):
            add_to_index([more], out)
        with pytest.raises(CorpusError):
            update_index(out)
        with pytest.raises(CorpusError):
            compact_index(out)
    assert read_manifest(out) == before
    assert search_ids(out, "number3"), "the texts are whole"
    assert build_index(tmp_path / "docs", out).manifest.passages == 20


@pytest.mark.parametrize("name", ["meta.json", "*.store", "*.term", "*.idx", "*.fast", "*.fieldnorm"])
def test_a_damaged_text_index_is_one_sentence(out: Path, tmp_path: Path, name: str) -> None:
    for path in (out / "000001" / "text").glob(name):
        replace_file(path, path.read_bytes()[: path.stat().st_size // 2])
    done = hoptree(tmp_path, "search", "friend", "--corpus", "idx")
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr and "damaged" in done.stderr
    assert "hoptree index" in done.stderr


def test_texts_that_are_garbled_are_found_by_info(out: Path, tmp_path: Path) -> None:
    """The place where the texts begin is looked at in every segment; their end is what an index is opened by."""
    stores = sorted((out / "000001" / "text").glob("*.store"))
    for path in stores:
        whole = path.read_bytes()
        replace_file(path, bytes(64) + whole[64:])
        done = hoptree(tmp_path, "index", "info", "--out", "idx")
        assert done.returncode == 2 and "damaged" in done.stderr and "Traceback" not in done.stderr, done.stderr
        replace_file(path, whole)
    assert stores and hoptree(tmp_path, "index", "info", "--out", "idx").returncode == 0


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A folder that is not in memory: there tantivy at times ends the process over a byte, for want of 13 TB."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


def test_one_byte_anywhere_in_the_texts_is_one_sentence_at_most(on_disk: Path) -> None:
    index_passages([PASSAGES[0], Passage("b#1", "Title", "A friend.", document="b", metadata=(("k", "v"),))], on_disk)
    told = 0
    for path in sorted(path for path in (on_disk / "000001" / "text").iterdir() if path.suffix in (".store", ".term")):
        whole = path.read_bytes()
        for place in range(len(whole)):
            replace_file(path, whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
            try:
                texts = Index(on_disk).texts
                texts.check()
                texts.rarity(["friend"]), texts.search("friend", 5), list(texts.scan())
                list(texts.containing("friend", before=9, most=5))
            except CorpusError:
                told += 1
        replace_file(path, whole)
    assert told


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_damaged_links_are_one_sentence(out: Path, damage: str) -> None:
    if damage == "missing":
        shutil.rmtree(out / "000001" / "links")
    else:
        (out / "000001" / "links" / "meta.json").write_text("{")
    with pytest.raises(CorpusError, match="links"):
        Linked(Index(out))
    assert search_ids(out, "number3")
    compact_index(out)
    assert Linked(Index(out)).search_now("number3", 1)
