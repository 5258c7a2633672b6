"""Indexes for experiment files: made once, brought up to date, and never those of another corpus."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hoptree.core.errors import InputError
from hoptree.evaluation.plan import IndexPlan, index_for
from hoptree.retrieval.bm25 import BM25
from hoptree.retrieval.index.folder import Index


def corpus(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"id": "p", "title": "Kite", "text": text}) + "\n", encoding="utf-8")
    return path


def held(index: Path) -> str:
    return BM25(Index(index)).search_now("Kite", 1)[0].text


def test_a_corpus_that_changed_is_indexed_again(tmp_path: Path) -> None:
    path = corpus(tmp_path / "set" / "corpus.jsonl", "A film of 1950.")
    first = index_for(path, tmp_path / "indexes")
    assert held(first) == "A film of 1950."
    digest = Index(first).manifest.digest
    assert index_for(path, tmp_path / "indexes") == first and Index(first).manifest.digest == digest
    corpus(path, "A film of 1951, rather.")
    assert index_for(path, tmp_path / "indexes") == first
    assert held(first) == "A film of 1951, rather." and Index(first).manifest.digest != digest


def test_corpora_of_like_names_have_indexes_of_their_own(tmp_path: Path) -> None:
    one, two = (corpus(tmp_path / version / "corpus.jsonl", f"Version {version}.") for version in ("v.1", "v.2"))
    first, second = (index_for(path, tmp_path / "indexes") for path in (one, two))
    assert first != second and (held(first), held(second)) == ("Version v.1.", "Version v.2.")


def test_an_index_is_used_as_it_is_and_what_is_not_there_is_named(tmp_path: Path) -> None:
    made = index_for(corpus(tmp_path / "corpus.jsonl", "x"), tmp_path / "indexes")
    assert index_for(made, tmp_path / "others") == made
    with pytest.raises(InputError, match="no corpus at"):
        index_for(tmp_path / "none.jsonl", tmp_path / "indexes")


def test_several_corpora_share_an_index_which_no_index_can(tmp_path: Path) -> None:
    one = corpus(tmp_path / "one" / "corpus.jsonl", "A film of 1950.")
    two = tmp_path / "two" / "corpus.jsonl"
    two.parent.mkdir()
    two.write_text(json.dumps({"id": "q", "title": "Boat", "text": "A boat."}) + "\n", encoding="utf-8")
    both = index_for((one, two), tmp_path / "indexes")
    assert {passage.id for passage in BM25(Index(both)).search_now("kite boat", 5)} == {"p", "q"}
    assert index_for((one, two), tmp_path / "indexes") == both != index_for((one,), tmp_path / "indexes")
    corpus(one, "A film of 1951, rather.")
    assert held(index_for((one, two), tmp_path / "indexes")) == "A film of 1951, rather."
    with pytest.raises(InputError, match="is an index"):
        index_for((both, two), tmp_path / "indexes")
    with pytest.raises(InputError, match="no corpus at"):
        index_for((one, tmp_path / "none"), tmp_path / "indexes")


def test_chunks_of_tokens_and_vectors_are_as_the_plan_says(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("usearch")
    path = corpus(tmp_path / "set" / "corpus.jsonl", "One two three four. " * 20)
    how = IndexPlan("tokens:30", "minilm")
    made = index_for(path, tmp_path / "indexes", how)
    manifest = Index(made).manifest
    assert manifest.settings.encoder == "minilm" and manifest.passages == 4
    assert index_for(path, tmp_path / "indexes", how) == made != index_for(path, tmp_path / "indexes")
    facts = IndexPlan(facts=True)
    assert index_for(path, tmp_path / "indexes", facts, "a") != index_for(path, tmp_path / "indexes", facts, "b")
