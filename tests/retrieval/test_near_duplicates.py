"""Passages that repeat a better one are left out, and others take their place."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from tests.retrieval.small_models import Fixed

from hoptree.core.values import Passage
from hoptree.retrieval.rerank import Distinct, drop_duplicates

LONG = "The river Elbe rises in the Giant Mountains and flows through Dresden and Hamburg to the North Sea in the end"


def ids(found: Sequence[Passage]) -> list[str]:
    return [passage.id for passage in found]


def test_the_same_words_and_nearly_the_same_are_left_out() -> None:
    passages = [
        Passage("a", "Elbe", LONG),
        Passage("b", "Elbe (river)", LONG.upper().replace(" and", ", and") + "!"),
        Passage("c", "Elbe", LONG + " again"),
        Passage("d", "Elbe", LONG.replace("Dresden", "Magdeburg").replace("rises", "begins")),
        Passage("e", "", "Another text"),
        Passage("f", "", "another  TEXT."),
    ]
    assert ids(drop_duplicates(passages, 10)) == ["a", "d", "e"]


def test_passages_without_words_are_told_apart_by_title() -> None:
    passages = [Passage("a", "One", ""), Passage("b", "Two", "…"), Passage("c", "One", "!")]
    assert ids(drop_duplicates(passages, 10)) == ["a", "b"]


def test_more_is_fetched_until_there_are_enough() -> None:
    repeated = [Passage(f"r{place:02}", "", LONG) for place in range(40)]
    others = [Passage(f"z{place}", "", f"text number {place}") for place in range(5)]
    first = Fixed(repeated + others)
    assert ids(asyncio.run(Distinct(first).search("q", k=3))) == ["r00", "z0", "z1"]
    assert first.asked[0] < 40 < first.asked[-1]
    assert len(asyncio.run(Distinct(first).search("q", k=100))) == 6
    assert asyncio.run(Distinct(first).search("q", k=0)) == ()


def test_it_stands_for_the_retriever_it_wraps() -> None:
    first = Fixed([Passage("a", "", "x", metadata=(("l", "de"),)), Passage("b", "", "y")], remote=True)
    wrapped = Distinct(first)
    assert (wrapped.kind, wrapped.remote) == ("fixed", True)
    assert wrapped.identity != first.identity
    found = asyncio.run(wrapped.search("q", k=2, where={"l": "de"}))
    assert ids(found) == ["a"] and found[0].stages == (("fixed", 0.0),)
    asyncio.run(wrapped.aclose())
    assert first.closed


@given(st.lists(st.text(max_size=30), max_size=12))
def test_the_first_is_kept_and_none_repeats_another(texts: list[str]) -> None:
    passages = [Passage(str(place), "", text) for place, text in enumerate(texts)]
    kept = drop_duplicates(passages, len(texts))
    assert kept[:1] == tuple(passages[:1])
    assert drop_duplicates(kept, len(texts)) == kept
    assert drop_duplicates([*passages, *passages], 99) == kept
