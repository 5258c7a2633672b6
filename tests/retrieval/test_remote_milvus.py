"""Milvus for real: a collection in a file, by Milvus Lite."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hoptree.core.errors import ConfigError, CorpusError, EndpointError, HoptreeError
from hoptree.core.values import Passage
from hoptree.retrieval.remote import load, open_remote
from hoptree.retrieval.retriever import Retriever

# Not imported here, as every process that collects tests would load pandas with it.
pytestmark = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("pymilvus", "milvus_lite"))), reason="needs the extra [milvus]"
)
T = TypeVar("T")

PASSAGES = (
    Passage("p3", "Moon", "Cats cats cats look at it.", metadata=(("lang", "en"), ("year", "1969"))),
    Passage("p1", "Dogs", "Dogs chase cats and mice.", metadata=(("lang", 'd"e\\'),)),
    Passage("p2", "Cats", "They sleep all day.", document="d2", start=5, end=24, aliases=("Felis", "Kater")),
    *(Passage(f"tie{number:02}", "", "exactly the same words", metadata=(("lang", "en"),)) for number in range(40)),
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"milvus://{tmp_path_factory.mktemp('milvus')}/corpus.db/docs"
    told: list[int] = []
    assert asyncio.run(load(url, PASSAGES, told.append)) == len(PASSAGES)
    assert told[-1] == len(PASSAGES)
    return url


@pytest.fixture(scope="module")
def engine(url: str) -> Iterator[Retriever]:
    engine = open_remote(url)
    yield engine
    asyncio.run(engine.aclose())


@pytest.fixture
def find(engine: Retriever) -> Callable[..., list[str]]:
    def find(query: str, k: int = 5, **where: str) -> list[str]:
        return [passage.id for passage in asyncio.run(engine.search(query, k=k, where=where))]

    return find


def test_the_best_come_first_with_positive_scores(engine: Retriever) -> None:
    found = asyncio.run(engine.search("cats", k=5))
    assert {passage.id for passage in found} == {"p1", "p2", "p3"}
    assert found[-1].id == "p1", "it names them once in a text, not thrice or in its title"
    scores = [passage.score for passage in found]
    assert scores == sorted(scores, reverse=True) and scores[-1] > 0


def test_a_name_may_have_several_values(tmp_path: Path) -> None:
    url = f"milvus://{tmp_path}/tags.db/docs"
    tagged = Passage("a", "", "cats", metadata=(("lang", "en"), ("tag", "x"), ("tag", "y\udfff")))

    async def look() -> list[tuple[Passage, ...]]:
        await load(url, [tagged, Passage("b", "", "cats", metadata=(("tag", "z"),))])
        engine = await asyncio.to_thread(open_remote, url)
        try:
            return [await engine.search("cats", k=5, where={"tag": tag}) for tag in ("x", "y?", "z", "xy")]
        finally:
            await engine.aclose()

    (x,), (y,), (z,), none = asyncio.run(look())
    assert x.metadata == y.metadata == (("lang", "en"), ("tag", "x"), ("tag", "y?"))
    assert (z.id, z.metadata, none) == ("b", (("tag", "z"),), ())


def test_a_passage_comes_back_as_it_was_put_there(engine: Retriever) -> None:
    (found,) = asyncio.run(engine.search("sleep", k=1))
    assert (found.id, found.title, found.text) == ("p2", "Cats", "They sleep all day.")
    assert (found.document, found.start, found.end, found.aliases) == ("d2", 5, 24, ("Felis", "Kater"))
    (moon,) = asyncio.run(engine.search("moon", k=1))
    assert moon.metadata == (("lang", "en"), ("year", "1969"))


def test_ties_are_broken_by_id_also_at_the_cut(find: Callable[..., list[str]]) -> None:
    assert find("same words", k=3) == ["tie00", "tie01", "tie02"]
    assert find("same words", k=30) == [f"tie{number:02}" for number in range(30)]


def test_k_larger_than_the_corpus_finds_what_there_is(find: Callable[..., list[str]]) -> None:
    assert len(find("cats", k=1_000)) == 3
    assert len(find("cats", k=100_000)) == 3


@pytest.mark.parametrize("query", ["the of and", "", "   ", "\n", "?!"])
def test_a_query_without_content_finds_nothing(query: str, find: Callable[..., list[str]]) -> None:
    assert find(query) == []


@pytest.mark.parametrize("query", ['cats" or id != "', "cats AND (", "{cats}", "cats\\", "cats \ud83d", "cats\0"])
def test_a_query_is_words_and_nothing_else(query: str, find: Callable[..., list[str]]) -> None:
    assert set(find(query)) == {"p1", "p2", "p3"}


def test_a_query_of_ten_thousand_words(find: Callable[..., list[str]]) -> None:
    assert find("sleep " + " ".join(f"w{number}" for number in range(10_000)), k=1) == ["p2"]


def test_filters_keep_what_has_these_values(find: Callable[..., list[str]]) -> None:
    assert find("cats", lang="en") == ["p3"]
    assert find("cats", lang='d"e\\') == ["p1"]
    assert find("cats", lang="en", year="1969") == ["p3"]
    assert find("cats", lang="en", year="1970") == []
    assert find("cats", colour="red") == []
    assert find("cats", lang='x" or 1 == 1 or "') == []


def test_the_same_passages_replace_those_that_are_there(tmp_path: Path) -> None:
    url = f"milvus://{tmp_path}/corpus.db/docs"

    async def run() -> tuple[Passage, ...]:
        await load(url, [Passage("a", "", "an old word")])
        await load(url, [Passage("a", "", "a new word"), Passage("b", "", "nothing")])
        engine = await asyncio.to_thread(open_remote, url)
        try:
            return await engine.search("word", k=5)
        finally:
            await engine.aclose()

    assert [passage.text for passage in asyncio.run(run())] == ["a new word"]


def test_the_identity_changes_with_the_number_of_passages(tmp_path: Path) -> None:
    def identity_with(*texts: str) -> str:
        url = f"milvus://{tmp_path}/corpus.db/docs"
        asyncio.run(load(url, [Passage(text, "", text) for text in texts]))
        engine = open_remote(url)
        asyncio.run(engine.aclose())
        return engine.identity

    first, again, more = identity_with("a"), identity_with("a"), identity_with("a", "b")
    assert first == again != more
    assert first.startswith("milvus://") and "/corpus.db/docs#" in first


def test_a_server_whose_scores_are_positive_gives_the_same_order(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_remote(url)
    usual = asyncio.run(engine.search("cats", k=5))
    client = engine._client  # type: ignore[attr-defined]
    lite = client.search

    def search(*args: Any, **options: Any) -> list[list[dict[str, Any]]]:
        return [[{**hit, "distance": -hit["distance"]} for hit in hits] for hits in lite(*args, **options)]

    monkeypatch.setattr(client, "search", search)
    assert asyncio.run(engine.search("cats", k=5)) == usual
    asyncio.run(engine.aclose())


def test_it_is_opened_inside_a_running_loop(url: str) -> None:
    async def run() -> int:
        engine = open_remote(url)
        found = await asyncio.gather(*(engine.search("cats", k=5) for _ in range(8)))
        await engine.aclose()
        return len({tuple(passages) for passages in found})

    assert asyncio.run(run()) == 1


def refused(work: Callable[[], Any], kind: type[HoptreeError], *words: str) -> None:
    with pytest.raises(kind) as refusal:
        work()
    assert all(word in str(refusal.value) for word in words), str(refusal.value)
    assert refusal.value.exit_code == 2


def test_what_is_not_there_is_said(url: str, tmp_path: Path) -> None:
    refused(lambda: open_remote(f"milvus://{tmp_path}/none.db/docs"), CorpusError, "no collection 'docs'")
    assert not (tmp_path / "none.db").exists(), "looking must not make it"
    refused(lambda: open_remote(url.replace("/docs", "/others")), CorpusError, "no collection 'others'")
    refused(lambda: open_remote(f"{url}?text=body"), CorpusError, "no field 'body'", "?text=FIELD", "words")
    refused(lambda: open_remote(f"{url}?vector=text"), CorpusError, "not made by a BM25 function")
    engine = open_remote(f"{url}?metadata=tags")
    refused(lambda: asyncio.run(engine.search("cats", k=1, where={"a": "b"})), CorpusError, "'tags'", "?metadata=")


@pytest.mark.parametrize("address", ["milvus://host:1/a-b", "milvus://host/x?colour=1", "milvus://host", "milvus:///x"])
def test_addresses_that_name_no_collection_are_refused(address: str) -> None:
    refused(lambda: open_remote(address), ConfigError)


def test_a_server_that_nobody_runs_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoptree.retrieval.remote.milvus._CONNECT_TIMEOUT_S", 1.0)
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        with pytest.raises(EndpointError, match="cannot be reached") as failed:
            open_remote(f"milvus://user:secret@127.0.0.1:{port}/docs")
    assert failed.value.retryable and "secret" not in str(failed.value)


def test_a_search_that_takes_too_long_is_said(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """pymilvus passes a missed deadline on as gRPC's own error."""
    grpc: Any = importlib.import_module("grpc")

    class Late(grpc.RpcError):  # type: ignore[misc]
        def code(self) -> Any:
            return grpc.StatusCode.DEADLINE_EXCEEDED

        def details(self) -> str:
            return "Deadline Exceeded"

    def search(*_: Any, **__: Any) -> None:
        raise Late

    engine = open_remote(url)
    monkeypatch.setattr(engine._client, "search", search)  # type: ignore[attr-defined]
    with pytest.raises(EndpointError, match=r"cannot be reached .DEADLINE_EXCEEDED: Deadline Exceeded") as failed:
        asyncio.run(engine.search("cats", k=5))
    assert failed.value.retryable
    asyncio.run(engine.aclose())


def passages_that_cannot_be_loaded() -> list[tuple[list[Passage], str]]:
    return [
        ([], "empty"),
        ([Passage("", "Title", "text")], "no id"),
        ([Passage("a", "", "x" * 70_000)], "longer than"),
        ([Passage("a", "", "é" * 40_000)], "longer than"),
        ([Passage("a", "", "x"), Passage("a", "", "y")], "same id"),
    ]


@pytest.mark.parametrize(("passages", "said"), passages_that_cannot_be_loaded())
def test_passages_that_cannot_be_loaded(passages: list[Passage], said: str, tmp_path: Path) -> None:
    refused(lambda: run(load(f"milvus://{tmp_path}/c.db/docs", passages)), CorpusError, said)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    refused(lambda: run(load(f"milvus://{tmp_path}/no/c.db/docs", PASSAGES)), CorpusError, "no folder")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)
