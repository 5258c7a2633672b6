"""BM25 in memory scores as the index on disk does."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoptree.core.values import Passage
from hoptree.retrieval.bm25 import BM25
from hoptree.retrieval.bm25_memory import Analysis, Words, bm25
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.indexing import index_passages

PASSAGES = (
    Passage("a", "Apollo 14", "Alan Shepard was the commander of the mission to the Moon."),
    Passage("b", "Apollo 8", "The first crewed mission to orbit the Moon, in December."),
    Passage("c", "Richard Nixon", "Nixon was the president of the United States, and spoke with missions on the Moon."),
    Passage("d", "Émile Zola", "A writer who never went anywhere near it. He wrote and wrote."),
    Passage("e", "東京", "東京は日本の首都である。"),
)


@pytest.mark.parametrize(
    "query", ["Who commanded missions to the Moon?", "emile zola", "日本の首都", "apollo apollo 14", "the"]
)
def test_scores_are_those_of_an_index(query: str, tmp_path: Path) -> None:
    index_passages(PASSAGES, tmp_path / "index")
    expected = {one.id: one.score for one in BM25(Index(tmp_path / "index")).search_now(query, 10)}
    analysis = Analysis("english")
    scores = bm25([analysis.words(one.title, one.text) for one in PASSAGES], analysis.query_words(query))
    found = {passage.id: score for passage, score in zip(PASSAGES, scores, strict=True) if score}
    assert found == pytest.approx(expected, rel=0.02)


def test_nothing_is_scored_without_texts_or_words() -> None:
    empty, one = Words({}, {}), Words({"a": 1}, {})
    assert bm25([], Words({"a": 1}, {})) == [] and bm25([empty, one], Words({}, {})) == [0.0, 0.0]
    assert bm25([empty], Words({"a": 1}, {"a": 1})) == [0.0]
