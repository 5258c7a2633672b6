"""Reranking by embeddings, by an endpoint and by a cross-encoder."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.retrieval.json_server import json_server
from tests.retrieval.small_models import Fixed, save_static, save_transformer

from hoptree.core.errors import ConfigError, EndpointError, MissingExtra, UnusableReply
from hoptree.core.values import Passage
from hoptree.retrieval import rerank as module
from hoptree.retrieval.encoder import open_encoder
from hoptree.retrieval.rerank import EmbeddingReranker, Reranked, full_text, open_reranker

PASSAGES = [
    Passage("a", "moon", "king", 9.0),
    Passage("b", "", "river", 5.0),
    Passage("c", "", "water", 4.0),
    Passage("d", "", "river", 1.0),
]


def ids(found: Sequence[Passage]) -> list[str]:
    return [passage.id for passage in found]


class TestEmbedding:
    @pytest.fixture
    def spec(self, tmp_path: Path) -> str:
        pytest.importorskip("model2vec")
        return f"static/{save_static(tmp_path / 'encoder')}"

    def test_the_nearest_of_the_first_search_come_first_ties_by_id(self, spec: str) -> None:
        reranked = Reranked(Fixed(PASSAGES), open_reranker(f"embed/{spec}"))
        found = asyncio.run(reranked.search("river", k=3))
        assert ids(found) == ["b", "d", "c"]
        assert found[0].score == 1.0 and found[0].stages == (("fixed", 5.0), ("rerank", 1.0))

    def test_only_the_depth_is_reranked_and_the_filter_goes_down(
        self, spec: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = Fixed(PASSAGES)
        monkeypatch.setattr(module, "_DEPTH", 2)
        assert ids(asyncio.run(Reranked(first, open_reranker(f"embed/{spec}")).search("river", k=1))) == ["b"]
        assert first.asked == [2]
        assert asyncio.run(Reranked(first, open_reranker(f"embed/{spec}")).search("x", k=2, where={"l": "de"})) == ()
        assert asyncio.run(Reranked(first, open_reranker(f"embed/{spec}")).search("x", k=0)) == ()

    def test_passages_are_encoded_once(self, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
        encoder = open_encoder(spec)
        seen: list[str] = []
        plain = encoder.encode

        async def counting(texts: Sequence[str], *, role: Any) -> Any:
            seen.extend(texts if role == "passage" else ())
            return await plain(texts, role=role)

        monkeypatch.setattr(encoder, "encode", counting)
        reranked = Reranked(Fixed(PASSAGES), EmbeddingReranker(encoder))
        first = asyncio.run(reranked.search("river", k=4))
        assert asyncio.run(reranked.search("river", k=4)) == first
        assert sorted(seen) == ["moon\nking", "river", "water"]

    def test_the_cache_is_bounded(self, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_KEPT_VECTORS", 3)
        reranker = EmbeddingReranker(open_encoder(spec))
        asyncio.run(reranker.score("x", [Passage(str(place), "", f"moon {place}") for place in range(9)]))
        assert len(reranker._kept) == 3


def overlap(query: str, text: str) -> float:
    return len(set(query.split()) & set(text.split())) / 4


class TestEndpoint:
    def search(self, url: str, query: str = "moon king") -> tuple[Passage, ...]:
        reranker = open_reranker(f"endpoint/some-reranker@{url}")
        assert reranker.remote
        return asyncio.run(Reranked(Fixed(PASSAGES), reranker).search(query, k=2))

    def test_results_with_relevance_scores_in_any_order(self) -> None:
        def answer(path: str, body: Any) -> tuple[int, Any]:
            scored = [(overlap(body["query"], text), place) for place, text in enumerate(body["documents"])]
            results = [{"index": place, "relevance_score": score} for score, place in sorted(scored, reverse=True)]
            return 200, {"results": results}

        with json_server(answer) as server:
            found = self.search(server.url)
            assert server.requests == [
                (
                    "/v1/rerank",
                    {
                        "model": "some-reranker",
                        "query": "moon king",
                        "documents": [full_text(passage) for passage in PASSAGES],
                        "top_n": 4,
                    },
                )
            ]
        assert [(passage.id, passage.score) for passage in found] == [("a", 0.5), ("b", 0.0)]

    def test_only_its_own_key_is_sent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def answer(path: str, body: Any) -> tuple[int, Any]:
            return 200, [{"index": place, "score": 1.0} for place, _ in enumerate(body["documents"])]

        monkeypatch.setenv("OPENAI_API_KEY", "sk-for-others")
        monkeypatch.delenv("HOPTREE_RERANK_KEY", raising=False)
        with json_server(answer) as server:
            self.search(server.url)
            monkeypatch.setenv("HOPTREE_RERANK_KEY", "for-this")
            self.search(server.url)
            assert server.keys == ["", "Bearer for-this"]

    def test_a_server_that_wants_texts_gets_them_from_then_on(self) -> None:
        def answer(path: str, body: Any) -> tuple[int, Any]:
            if "texts" not in body:
                return 422, {"error": "Failed to deserialize: missing field `texts`"}
            return 200, [{"index": place, "score": overlap("river", text)} for place, text in enumerate(body["texts"])]

        with json_server(answer) as server:
            reranked = Reranked(Fixed(PASSAGES), open_reranker(f"endpoint/x@{server.url}"))

            async def twice() -> list[tuple[Passage, ...]]:
                return [await reranked.search("river", k=2), await reranked.search("river", k=2)]

            assert [ids(found) for found in asyncio.run(twice())] == [["b", "d"]] * 2
            assert ["texts" in body for _, body in server.requests] == [False, True, True]

    @pytest.mark.parametrize(
        "reply",
        [
            {},
            [],
            {"results": 3},
            {"results": [{"index": 0, "relevance_score": 1.0}]},
            {"results": ["x"] * 4},
            [{"index": place, "score": "high"} for place in range(4)],
            [{"index": 9, "score": 1.0}] * 4,
        ],
    )
    def test_a_reply_without_a_score_for_each_is_unusable(self, reply: Any) -> None:
        with json_server(lambda path, body: (200, reply)) as server, pytest.raises(UnusableReply, match="4 passages"):
            self.search(server.url)

    def test_other_refusals_are_passed_on(self) -> None:
        refusal = {"error": {"message": "no such model"}}
        with json_server(lambda path, body: (400, refusal)) as server:
            with pytest.raises(EndpointError, match="no such model"):
                self.search(server.url)
            assert len(server.requests) == 1


@pytest.mark.parametrize("spec", ["", "embed", "embed/", "endpoint/x", "endpoint/@http://h", "cross/", "other/x"])
def test_a_name_that_stands_for_nothing_is_refused(spec: str) -> None:
    with pytest.raises(ConfigError, match="no reranker"):
        open_reranker(spec)


def test_a_cross_encoder_that_is_no_folder_here_is_refused_at_once(tmp_path: Path) -> None:
    for name in (tmp_path / "NOTHERE", Path("cross-encoder/ms-marco-MiniLM-L6-v2")):
        with pytest.raises(ConfigError, match=f"There is no folder {name}") as refusal:
            open_reranker(f"cross/{name}")
        assert "cross/FOLDER" in refusal.value.remedy


def test_a_cross_encoder_names_its_extra_when_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtra, match="whitebox"):
        asyncio.run(Reranked(Fixed(PASSAGES), open_reranker(f"cross/{tmp_path}")).search("q", k=1))


def test_a_cross_encoder_scores_pairs(tmp_path: Path) -> None:
    """With the smallest model there can be: its scores mean nothing, but they are the model's own."""
    library = pytest.importorskip("sentence_transformers")
    save_transformer(tmp_path, "BertForSequenceClassification", num_labels=1)
    reranker = open_reranker(f"cross/{tmp_path}")
    assert str(tmp_path) not in reranker.identity and not reranker.remote
    found = asyncio.run(Reranked(Fixed(PASSAGES), reranker).search("river", k=4))
    pairs = [("river", full_text(passage)) for passage in sorted(PASSAGES, key=lambda each: ids(found).index(each.id))]
    expected = library.CrossEncoder(str(tmp_path)).predict(pairs, show_progress_bar=False)
    assert [passage.score for passage in found] == pytest.approx([float(score) for score in expected], abs=1e-5)
