"""Linked search in any order of the corpus, any script and any language."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.retrieval.linked_films import QUESTION, films
from tests.small_indexes import ids_of

from hoptree.core.errors import ConfigError
from hoptree.core.values import Passage
from hoptree.retrieval.bm25 import BM25
from hoptree.retrieval.index.folder import Index, Settings
from hoptree.retrieval.indexing import index_passages
from hoptree.retrieval.retriever import open_retriever


@pytest.mark.parametrize("kind", ["bm25", "linked"])
def test_results_do_not_depend_on_order_or_segments(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = [QUESTION, "film directed by Eva", "childhood", "Grey Gull3", "Hamlet7 film"]
    passages = films()
    index_passages(passages, tmp_path / "up")
    index_passages(passages[::-1], tmp_path / "down")
    monkeypatch.setattr("hoptree.retrieval.indexing.run._AT_ONCE", 10)
    # Eight segments or more would be merged meanwhile.
    monkeypatch.setattr("hoptree.retrieval.indexing.run._SAVE_EVERY", 10)
    index_passages(passages, tmp_path / "parts")
    segments = {
        name: len(list((Index(tmp_path / name).generation / "text").glob("*.store"))) for name in ("up", "parts")
    }
    assert segments["parts"] > segments["up"]
    results = {
        name: [asyncio.run(open_retriever(tmp_path / name, kind).search(query, k=8)) for query in queries]
        for name in ("up", "down", "parts")
    }
    assert results["up"] == results["down"] == results["parts"]
    assert open_retriever(tmp_path / "up", kind).identity == open_retriever(tmp_path / "down", kind).identity


@pytest.mark.parametrize("kind", ["bm25", "linked"])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("首都", "tokyo"),
        ("日本の首都はどこですか", "tokyo"),
        ("长城有多长", "wall"),
        ("กรุงเทพ", "bangkok"),
        ("서울", "seoul"),
        ("Привет", "hello"),
        ("CAFÉ", "cafe"),
    ],
)
def test_every_script_is_found(tmp_path: Path, kind: str, query: str, expected: str) -> None:
    passages = [
        Passage("tokyo", "東京", "東京は日本の首都です。"),
        Passage("wall", "长城", "长城是中国古代的防御工程，长度超过两万公里。"),
        Passage("bangkok", "กรุงเทพ", "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย"),
        Passage("seoul", "서울", "서울 은 한국의 수도이다."),
        Passage("hello", "", "привет, мир"),
        Passage("cafe", "", "A cafe\u0301 and a cafe."),
    ]
    index_passages(passages, tmp_path / "idx")
    assert ids_of(asyncio.run(open_retriever(tmp_path / "idx", kind).search(query, k=1))) == [expected]


@pytest.mark.parametrize(
    ("language", "query", "there"),
    [("german", "Städte", True), ("german", "die", False), ("none", "Stadt", True), ("none", "die", True),
     ("none", "Städten", False), ("turkish", "Stadt", True), ("greek", "Stadt", True)],
)  # fmt: skip
def test_languages_are_stemmed_their_own_way(tmp_path: Path, language: str, query: str, there: bool) -> None:
    index_passages([Passage("a", "", "Die Stadt")], tmp_path / "idx", settings=Settings(language=language))
    assert bool(BM25(Index(tmp_path / "idx")).search_now(query, 1)) == there


def test_an_unknown_language_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="klingon"):
        index_passages(films(), tmp_path / "idx", settings=Settings(language="klingon"))
