"""Dense retrieval over real vectors and a real static encoder."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.retrieval.small_models import Store, save_static

from hoptree.core.values import Passage
from hoptree.retrieval.encoder import Encoder, Role, open_encoder
from hoptree.retrieval.rerank import full_text
from hoptree.retrieval.vectors import Dense, Vectors, VectorWriter

pytest.importorskip("usearch")
pytest.importorskip("model2vec")

PASSAGES = [
    Passage("p1", "", "river water"),
    Passage("p2", "", "king queen", metadata=(("lang", "de"),)),
    Passage("p3", "", "moon"),
    Passage("p4", "", "river king", metadata=(("lang", "de"), ("year", "1900"))),
]


class Counting:
    """A real encoder that remembers how many texts each call held."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.calls: list[int] = []
        self.name, self.identity, self.remote = encoder.name, encoder.identity, False
        self.dimensions = encoder.dimensions

    async def encode(self, texts: Sequence[str], *, role: Role) -> Any:
        self.calls.append(len(texts))
        return await self.encoder.encode(texts, role=role)

    async def aclose(self) -> None:
        return None


def dense_over(folder: Path, passages: Sequence[Passage]) -> tuple[Dense, Counting, Store]:
    encoder = Counting(open_encoder(f"static/{save_static(folder / 'encoder')}"))
    writer = VectorWriter.create(folder / "vectors", encoder.dimensions)
    rows = asyncio.run(encoder.encode([full_text(passage) for passage in passages], role="passage"))
    writer.add(list(range(10, 10 + len(passages))), rows)
    writer.save()
    encoder.calls.clear()
    store = Store({10 + place: passage for place, passage in enumerate(passages)})
    return Dense(store, Vectors(folder / "vectors"), encoder), encoder, store


def ids(found: Sequence[Passage]) -> list[str]:
    return [passage.id for passage in found]


def test_the_nearest_passages_come_first_with_their_stage(tmp_path: Path) -> None:
    dense, _, _ = dense_over(tmp_path, PASSAGES)
    found = asyncio.run(dense.search("water river", k=2))
    assert ids(found) == ["p1", "p4"]
    assert found[0].score == 1.0 and found[0].stages == (("dense", 1.0),)
    assert dense.kind == "dense" and "d1" in dense.identity and not dense.remote


def test_queries_at_once_are_encoded_in_one_call_with_the_results_of_one_by_one(tmp_path: Path) -> None:
    dense, encoder, _ = dense_over(tmp_path, PASSAGES)
    queries = ["river", "king moon", "queen", "water king"] * 5
    alone = [asyncio.run(dense.search(query, k=4)) for query in queries]
    encoder.calls.clear()

    async def together() -> list[tuple[Passage, ...]]:
        return await asyncio.gather(*(dense.search(query, k=4) for query in queries))

    assert asyncio.run(together()) == alone
    assert encoder.calls == [20]


def test_a_filter_looks_on_until_enough_fit(tmp_path: Path) -> None:
    many = [Passage(f"n{place:03}", "", "river water") for place in range(100)]
    dense, _, _ = dense_over(tmp_path, many + PASSAGES)
    assert ids(asyncio.run(dense.search("river", k=2, where={"lang": "de"}))) == ["p4", "p2"]
    assert ids(asyncio.run(dense.search("river", k=1, where={"lang": "de", "year": "1900"}))) == ["p4"]
    assert asyncio.run(dense.search("river", k=3, where={"lang": "fr"})) == ()


def test_ties_are_broken_by_id_and_not_by_key(tmp_path: Path) -> None:
    dense, _, _ = dense_over(tmp_path, [Passage(f"n{place:03}", "", "moon") for place in range(300, 0, -1)])
    assert ids(asyncio.run(dense.search("moon", k=3))) == ["n001", "n002", "n003"]


def test_a_vector_whose_passage_is_gone_is_passed_over(tmp_path: Path) -> None:
    dense, _, store = dense_over(tmp_path, PASSAGES)
    del store.passages[10]
    assert ids(asyncio.run(dense.search("river", k=3))) == ["p4", "p2", "p3"]


@pytest.mark.parametrize(("query", "k"), [("", 3), ("  ", 3), ("river", 0), ("unheard of", 3)])
def test_nothing_to_look_for_finds_nothing(tmp_path: Path, query: str, k: int) -> None:
    dense, _, _ = dense_over(tmp_path, PASSAGES)
    assert asyncio.run(dense.search(query, k=k)) == ()


def test_more_than_there_are_gives_all(tmp_path: Path) -> None:
    dense, _, _ = dense_over(tmp_path, PASSAGES)
    assert len(asyncio.run(dense.search("river " * 10_000, k=1000))) == 4
