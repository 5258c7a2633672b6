"""The page of an entity: by its title, whatever its capitals and accents, or with a bracket behind it."""

from __future__ import annotations

import asyncio

import pytest
from tests.traced import as_dicts

from hoptree.core.values import Passage
from hoptree.engine.calls import Calls
from hoptree.engine.context import Context
from hoptree.engine.trace import Trace
from hoptree.graph.facts import Entity
from hoptree.methods.steps.mentions import Titles, own_page
from hoptree.models.scripted import ScriptedModel
from hoptree.retrieval.bm25 import BM25
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.indexing import index_passages

PAGES = [
    Passage("d", "Daisies (film)", "Daisies was made by Věra Chytilová."),
    Passage("m", "Djibril Diop Mambéty", "He made Touki Bouki."),
    Passage("p", "Mercury (planet)", "Mercury is the smallest planet."),
    Passage("e", "Mercury (element)", "Mercury is a metal."),
    Passage("s", "Solaris (film)", "Solaris was made by Tarkovsky."),
    Passage("n", "solaris", "The word means of the sun; Solaris is a film, too."),
    Passage("g", "Gardens", "Gardens have daisies, and more daisies."),
]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> BM25:
    folder = tmp_path_factory.mktemp("own") / "index"
    index_passages(PAGES, folder)
    return BM25(Index(folder))


def context(shelf: BM25) -> Context:
    model = ScriptedModel(rules=[])
    return Context(method="treeqa", model=model, calls=Calls(None), trace=Trace("t"), retriever=shelf)


CASES = [
    ("Daisies", "d"),
    ("daisies (film)", "d"),
    ("DAISIES", "d"),
    ("Djibril Diop Mambety", "m"),
    ("Mercury", ""),
    ("mercury (PLANET)", "p"),
    ("Solaris", "n"),
    ("Touki Bouki", ""),
    ("Daisies (novel)", ""),
    ("…", ""),
]


@pytest.mark.parametrize(("name", "title"), CASES)
def test_a_page_is_found_by_nearly_its_title(shelf: BM25, name: str, title: str) -> None:
    page = asyncio.run(own_page(context(shelf), Entity("", name), "who made it?", k=3))
    assert [passage.id for passage in page] == ([title] if title else [])


@pytest.mark.parametrize(("name", "title"), CASES)
def test_so_is_a_name_that_the_model_read(shelf: BM25, name: str, title: str) -> None:
    titles = {passage.id: passage.title for passage in PAGES}
    candidates = asyncio.run(Titles(context(shelf)).of_mention(name))
    assert [candidate.entity.page for candidate in candidates] == ([titles[title]] if title else [])


def test_a_title_that_is_known_is_not_exchanged_for_another_with_the_same_name(shelf: BM25) -> None:
    page = asyncio.run(own_page(context(shelf), Entity("Q1", "Daisies", page="Daisies (opera)"), "who?", k=3))
    assert page == ()


def test_an_exact_title_needs_no_second_search(shelf: BM25) -> None:
    ctx = context(shelf)
    asyncio.run(own_page(ctx, Entity("", "Daisies (film)"), "who made Daisies?", k=3))
    assert len([event for event in as_dicts(ctx.trace.events) if event["event"] == "retrieve"]) == 1


def test_looking_for_a_title_is_no_search_whose_passages_were_read(shelf: BM25) -> None:
    """Else passages that nobody saw would count as found."""
    ctx = context(shelf)
    asyncio.run(Titles(ctx).of_mention("Daisies"))
    assert {event["event"] for event in as_dicts(ctx.trace.events)} == {"titles"}
    page = asyncio.run(own_page(ctx, Entity("", "Daisies"), "who made it?", k=3))
    read = [
        passage["id"]
        for event in as_dicts(ctx.trace.events)
        if event["event"] == "retrieve"
        for passage in event["passages"]
    ]
    assert read == [passage.id for passage in page] == ["d"]
