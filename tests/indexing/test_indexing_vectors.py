"""Vectors of an index: only what is new is encoded, and what is damaged is made anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.indexing.small_changes import broken, counts
from tests.small_indexes import hoptree, rows, write_rows

from hoptree.core.errors import CorpusError, HoptreeError
from hoptree.retrieval.index.folder import Index, Settings, read_manifest
from hoptree.retrieval.index.tantivy_files import key_of
from hoptree.retrieval.indexing import (
    add_to_index,
    build_index,
    compact_index,
    encode_index,
    remove_from_index,
    update_index,
)
from hoptree.retrieval.indexing.check import estimate, estimate_encoding
from hoptree.retrieval.indexing.sources import Outcome
from hoptree.retrieval.vectors import Vectors


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
    monkeypatch.setattr("hoptree.retrieval.index.enrichment.open_encoder", lambda spec: encoder)
    monkeypatch.setattr("hoptree.retrieval.indexing.check.open_encoder", lambda spec: encoder)
    monkeypatch.setattr("hoptree.retrieval.vectors._ENCODE_AT_ONCE", 4)
    monkeypatch.setattr("hoptree.retrieval.vectors._SAVE_INTERVAL_S", -1.0)
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
        patch.setattr("hoptree.retrieval.indexing.run.link_passages", broken)
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


def test_an_estimate_counts_vectors(
    docs: Path, out: Path, letters: Letters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hoptree.retrieval.indexing.check.open_encoder", lambda spec: letters)
    plain, dense = (estimate([docs], tmp_path / "new", Settings(encoder=encoder)) for encoder in ("", "letters"))
    assert dense.disk_bytes > plain.disk_bytes and dense.memory_bytes > plain.memory_bytes
    encoding = estimate_encoding(out, "letters")
    assert 30 * 26 * 4 < encoding.disk_bytes < 100_000 and encoding.memory_bytes > 2 * 30 * 26 * 4
    monkeypatch.setattr(letters, "dimensions", 0)
    assert estimate_encoding(out, "letters").disk_bytes > encoding.disk_bytes, "not known before the first answer"
