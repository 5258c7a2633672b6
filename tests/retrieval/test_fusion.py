"""Several rankings become one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.retrieval.small_models import Fixed

from hoptree.core.errors import EndpointError
from hoptree.core.values import Passage
from hoptree.retrieval.rerank import Fused, normalise_scores


def ranking(kind: str, *scored: tuple[str, float]) -> Fixed:
    return Fixed([Passage(name, "", name, score) for name, score in scored], kind, f"{kind}:1")


def ids(found: Sequence[Passage]) -> list[str]:
    return [passage.id for passage in found]


WORDS = ranking("bm25", ("a", 9.0), ("b", 5.0), ("c", 1.0))
MEANING = ranking("dense", ("b", 0.9), ("d", 0.8), ("a", 0.4))


def test_the_weighted_sum_is_that_of_scores_between_nought_and_one() -> None:
    found = asyncio.run(Fused([WORDS, MEANING], [0.75, 0.25]).search("q", k=10))
    assert {passage.id: passage.score for passage in found} == pytest.approx(
        {"a": 0.75, "b": 0.625, "d": 0.2, "c": 0.0}
    )
    assert found[1].stages == (("bm25", 5.0), ("dense", 0.9), ("weighted", found[1].score))
    assert found[2].stages == (("dense", 0.8), ("weighted", found[2].score))


def test_ties_are_broken_by_id() -> None:
    fused = Fused([ranking("one", ("z", 1.0), ("b", 0.5)), ranking("two", ("b", 3.0), ("z", 2.0))], [1, 1])
    assert ids(asyncio.run(fused.search("q", k=2))) == ["b", "z"]


def test_all_are_asked_to_the_depth_or_to_k_and_with_the_filter() -> None:
    one = Fixed([Passage("a", "", ""), Passage("b", "", "", metadata=(("lang", "de"),))])
    fused = Fused([one], [1])
    assert ids(asyncio.run(fused.search("q", k=3, where={"lang": "de"}))) == ["b"]
    asyncio.run(fused.search("q", k=130))
    assert one.asked == [100, 130]
    assert asyncio.run(fused.search("q", k=0)) == ()


def test_what_determines_the_results_is_in_the_identity_and_closing_closes_all() -> None:
    identities = {
        Fused([WORDS, MEANING], [1, 1]).identity,
        Fused([MEANING, WORDS], [1, 1]).identity,
        Fused([WORDS, MEANING], [2, 1]).identity,
    }
    assert len(identities) == 3
    far = Fixed([], remote=True)
    fused = Fused([WORDS, far], [1, 1])
    assert fused.remote and not Fused([WORDS], [1]).remote
    asyncio.run(fused.aclose())
    assert far.closed and WORDS.closed


def test_the_error_of_one_is_the_error_of_all() -> None:
    class Broken(Fixed):
        async def search(self, query: str, *, k: int, where: Any = None) -> tuple[Passage, ...]:
            raise EndpointError("down", retryable=True)

    with pytest.raises(EndpointError, match="down"):
        asyncio.run(Fused([WORDS, Broken([])], [1, 1]).search("q", k=1))


@given(st.lists(st.floats(-1e6, 1e6)))
def test_normalised_scores_keep_their_order_between_nought_and_one(scores: list[float]) -> None:
    brought = normalise_scores(scores)
    assert len(brought) == len(scores) and all(0 <= score <= 1 for score in brought)
    order = sorted(range(len(scores)), key=lambda place: scores[place])
    assert [brought[place] for place in order] == sorted(brought)
