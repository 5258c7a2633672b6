"""Retrievers that are opened while their corpus goes."""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.graph.graph_files import TRUTHY, jsonl, written

pytest.importorskip("fastapi")

from hoptree.core.values import Passage
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.indexing import index_passages
from hoptree.server import resources
from hoptree.server.error_responses import Refusal
from hoptree.server.resources import Corpora, Graphs, Retrievers


class _Opened:
    closed = False

    async def aclose(self) -> None:
        self.closed = True


def test_what_is_opened_while_its_corpus_is_removed_is_closed_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    index_passages([Passage("bee", "Bee", "Bees fly.")], index)
    begun, go_on, opened = threading.Event(), threading.Event(), _Opened()

    def opens(*_: Any, **__: Any) -> _Opened:
        begun.set()
        assert go_on.wait(10)
        return opened

    monkeypatch.setattr(resources, "open_retriever", opens)

    async def remove_meanwhile() -> None:
        retrievers = Retrievers(lambda name: str(index), {}, cached=False, keep_seconds=60)
        finding = asyncio.create_task(retrievers.find("mine", "bm25"))
        await asyncio.to_thread(begun.wait, 10)
        retrievers.forget("mine")
        shutil.rmtree(index)
        go_on.set()
        with pytest.raises(Refusal, match="removed meanwhile"):
            await finding
        assert opened.closed
        assert not retrievers._open

    asyncio.run(remove_meanwhile())


def test_nothing_is_kept_of_names_that_nobody_has() -> None:
    def place(corpus: str) -> str:
        raise Refusal(404, "NoCorpus", f"There is no corpus {corpus}.")

    retrievers = Retrievers(place, {}, cached=False, keep_seconds=0)
    for name in ("a", "b"):
        with pytest.raises(Refusal, match="There is no corpus"):
            asyncio.run(retrievers.find(name, "bm25"))
    assert not retrievers._opening


def test_an_index_is_opened_once_to_show_its_passages_and_again_once_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening one reads all of its files; a client that asks for passages must not have that done each time."""
    index, opened = tmp_path / "mine" / "index", list[Path]()
    (tmp_path / "mine" / "documents").mkdir(parents=True)
    index_passages([Passage("bee", "Bee", "Bees fly.")], index)

    def opens(folder: Path) -> Index:
        opened.append(folder)
        return Index(folder)

    monkeypatch.setattr(resources, "Index", opens)
    corpora = Corpora({}, tmp_path)
    for _ in range(5):
        assert corpora.passage("mine", "bee")[1].text == "Bees fly."
        assert not corpora.topics("mine")
    assert opened == [index]
    index_passages([Passage("bee", "Bee", "Bees hum.")], index)
    assert corpora.passage("mine", "bee")[1].text == "Bees hum." and opened == [index, index]
    corpora.forget("mine")
    assert not corpora._open


def test_a_graph_is_opened_once_and_again_once_it_has_changed(tmp_path: Path) -> None:
    loading = pytest.importorskip("hoptree.graph.loading")
    kg = tmp_path / "kg"
    loading.load_graph(kg, [written(tmp_path / "truthy.nt", TRUTHY)])

    async def facts() -> None:
        graphs = Graphs({"kg": str(kg)})
        before = await graphs.find("kg")
        assert await graphs.find("kg") is before
        loading.load_graph(kg, [jsonl(tmp_path / "more.jsonl", [{"s_id": "Q1615", "p": "spouse", "o": "Janet"}])])
        after = await graphs.find("kg")
        assert len((await after.facts("Q1615")).facts) == len((await before.facts("Q1615")).facts) + 1
        assert await graphs.find("kg") is after
        await graphs.aclose()

    asyncio.run(facts())
