"""The Elasticsearch adapter against a local server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.retrieval.elasticsearch_server import Answer, Server, error

from hoptree.core.errors import (
    ConfigError,
    CorpusError,
    EndpointError,
    HoptreeError,
    InputError,
    RateLimited,
    UnusableReply,
)
from hoptree.core.values import Passage
from hoptree.retrieval.remote import load, open_remote, read_address
from hoptree.retrieval.remote.elasticsearch import Elasticsearch
from hoptree.retrieval.retriever import Retriever, is_remote, open_retriever

PASSAGES = (
    Passage("p3", "Moon", "Cats cats cats look at it.", metadata=(("lang", "en"), ("year", "1969"))),
    Passage("p1", "Dogs", "Dogs chase cats and mice.", metadata=(("lang", "de"),)),
    Passage("p2", "Cats", "They sleep all day.", document="d2", start=5, end=24, aliases=("Felis", "Kater")),
    *(Passage(f"tie{number:02}", "", "exactly the same words", metadata=(("lang", "en"),)) for number in range(40)),
)


@pytest.fixture(params=[False, True], ids=["elasticsearch", "quickwit"])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server with PASSAGES in the index `docs`."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = Server(quickwit=request.param)
    assert asyncio.run(load(server.url(), PASSAGES)) == len(PASSAGES)
    yield server
    server.close()


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """An empty server that speaks as Elasticsearch does, and pauses that take no time."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("hoptree.retrieval.remote.elasticsearch._RETRY_PAUSE_S", 0.0)
    server = Server()
    yield server
    server.close()


def found(server: Server, query: str, k: int = 5, *, url: str = "", **where: str) -> list[str]:
    return [passage.id for passage in search(server, query, k, url=url, **where)]


def search(server: Server, query: str, k: int = 5, *, url: str = "", **where: str) -> tuple[Passage, ...]:
    async def run() -> tuple[Passage, ...]:
        engine = open_remote(url or server.url())
        try:
            return await engine.search(query, k=k, where=where)
        finally:
            await engine.aclose()

    return asyncio.run(run())


def test_the_best_come_first(server: Server) -> None:
    passages = search(server, "cats")
    assert [(passage.id, passage.score) for passage in passages] == [("p3", 3.0), ("p2", 2.0), ("p1", 1.0)]


def test_a_passage_comes_back_as_it_was_put_there(server: Server) -> None:
    (sleepers,) = search(server, "sleep", k=1)
    (moon,) = search(server, "moon", k=1)
    assert sleepers == Passage("p2", "Cats", "They sleep all day.", 1.0, "d2", 5, 24, ("Felis", "Kater"))
    assert moon.metadata == (("lang", "en"), ("year", "1969"))


def test_a_name_may_have_several_values(server: Server) -> None:
    tagged = Passage("t", "", "walrus", metadata=(("lang", "en"), ("tag", "x"), ("tag", "y")))
    asyncio.run(load(server.url(), [tagged]))
    for tag in ("x", "y"):
        (hit,) = search(server, "walrus", tag=tag)
        assert hit.metadata == tagged.metadata
    assert found(server, "walrus", tag="z") == []


def test_ties_are_broken_by_id_also_at_the_cut(server: Server) -> None:
    assert found(server, "same words", k=3) == ["tie00", "tie01", "tie02"]
    assert found(server, "same words", k=30) == [f"tie{number:02}" for number in range(30)]


def test_k_larger_than_the_corpus_finds_what_there_is(server: Server) -> None:
    assert len(found(server, "cats", k=1_000)) == 3
    assert len(found(server, "cats", k=100_000)) == 3


@pytest.mark.parametrize("query", ["the of and", "", "  \n", "?!"])
def test_a_query_without_content_finds_nothing(query: str, server: Server) -> None:
    assert found(server, query) == []


@pytest.mark.parametrize("query", ['cats" OR "', "title:cats^9", "cats AND (", "cats \ud83d", '{"match_all": {}} cats'])
def test_a_query_is_words_and_nothing_else(query: str, server: Server) -> None:
    assert set(found(server, query)) == {"p1", "p2", "p3"}


@pytest.mark.parametrize("status", [400, 500])
def test_a_query_of_ten_thousand_words_is_cut_to_what_the_engine_takes(status: int, server: Server) -> None:
    server.clauses, server.clause_status = 200, status
    assert found(server, "sleep " + " ".join(f"w{number}" for number in range(10_000)), k=1) == ["p2"]
    assert found(server, "sleep " + "w, " * 10_000, k=1) == ["p2"]
    assert found(server, "sleep," + ",".join(f"w{number}" for number in range(5_000)), k=1) == ["p2"]


def test_filters_keep_what_has_these_values(server: Server) -> None:
    assert found(server, "cats", lang="en") == ["p3"]
    assert found(server, "cats", lang="en", year="1969") == ["p3"]
    assert found(server, "cats", lang="en", year="1970") == []
    assert found(server, "cats", colour="red") == []


def test_the_index_is_made_with_an_english_analyzer(node: Server) -> None:
    asyncio.run(load(node.url(), PASSAGES))
    mapping = node.mappings["docs"]
    assert {mapping["properties"][name]["analyzer"] for name in ("title", "text")} == {"english"}
    assert mapping["dynamic_templates"][0]["metadata"]["path_match"] == "metadata.*"
    assert asyncio.run(load(node.url(), PASSAGES)) == len(PASSAGES), "an index that is there is filled up"
    assert len(node.indices["docs"]) == len(PASSAGES)


def test_passages_are_sent_in_batches_and_counted(node: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoptree.retrieval.remote.MAX_BATCH", 10)
    told: list[int] = []
    asyncio.run(load(node.url(), iter(PASSAGES), told.append))
    assert told == [10, 20, 30, 40, 43]
    bulks = [headers for _, path, headers in node.seen if path.endswith("_bulk")]
    assert len(bulks) == 5 and {headers["content-type"] for headers in bulks} == {"application/x-ndjson"}


def test_passages_that_the_index_refuses_are_named_and_the_others_are_there(node: Server) -> None:
    bad = [Passage("x" * 600, "", "too long an id"), *(Passage("y" * 600 + str(n), "", "another") for n in range(5))]
    refused(lambda: asyncio.run(load(node.url(), [*PASSAGES, *bad])), CorpusError, "6 of 49", "id is too long", ", …")
    assert len(node.indices["docs"]) == len(PASSAGES)


def test_passages_for_which_there_was_no_room_are_sent_again(node: Server) -> None:
    busy = {"type": "es_rejected_execution_exception", "reason": "rejected execution of coordinating operation"}
    answers: list[Answer] = [
        error(429, busy["type"], busy["reason"]),
        error(503, "unavailable", "no master"),
        (
            200,
            {
                "errors": True,
                "items": [{"index": {"_id": "a", "status": 201}}, {"index": {"status": 429, "error": busy}}],
            },
        ),
    ]
    sent: list[bytes] = []

    def before(method: str, path: str, body: bytes) -> Answer | None:
        if not path.endswith("_bulk"):
            return None
        sent.append(body)
        return answers.pop(0) if answers else None

    node.before = before
    assert asyncio.run(load(node.url(), [Passage("a", "", "x"), Passage("b", "", "y")])) == 2
    assert [body.count(b'"_id"') for body in sent] == [2, 2, 2, 1], "only the one that was refused is sent again"
    node.before = lambda method, path, body: error(429, busy["type"], busy["reason"]) if "_bulk" in path else None
    with pytest.raises(RateLimited):
        asyncio.run(load(node.url(), [Passage("a", "", "x")]))


@pytest.mark.parametrize(("passages", "said"), [([], "empty"), ([Passage("", "Title", "text")], "no id")])
def test_passages_that_cannot_be_loaded(passages: list[Passage], said: str, node: Server) -> None:
    refused(lambda: asyncio.run(load(node.url(), passages)), CorpusError, said)


def refused(work: Callable[[], Any], kind: type[HoptreeError], *words: str) -> None:
    with pytest.raises(kind) as refusal:
        work()
    assert all(word in str(refusal.value) for word in words), str(refusal.value)
    assert refusal.value.exit_code == 2


def test_what_is_not_there_is_said(server: Server) -> None:
    refused(lambda: open_remote(server.url("others")), CorpusError, "no index 'others'", "load")
    refused(lambda: open_remote(server.url(query="text=body")), CorpusError, "no field 'body'", "?text=FIELD")
    refused(lambda: open_remote(server.url(query="title=head")), CorpusError, "no field 'head'", "?title=FIELD")
    engine = open_remote(server.url(query="id=number"))
    refused(lambda: asyncio.run(engine.search("cats", k=1)), CorpusError, "no 'number'", "?id=FIELD")


def test_fields_of_other_names_are_searched(node: Server) -> None:
    source = {"headline": "Cats", "page": {"body": ["They sleep.", "They sleep."]}, "number": 7, "tags": {"lang": "en"}}
    node.indices["docs"] = {"a": source, "b": {"page.body": "sleep", "number": 8}}
    url = node.url(query="title=headline&text=page.body&id=number&metadata=tags")
    first, second = search(node, "sleep", url=url)
    assert (first.id, first.title, first.text, first.metadata) == (
        "7",
        "Cats",
        "They sleep.\nThey sleep.",
        (("lang", "en"),),
    )
    assert (second.id, second.title, second.text) == ("8", "", "sleep")


def test_an_index_without_titles_is_searched_by_its_texts(node: Server) -> None:
    node.indices["docs"] = {"a": {"text": "cats"}}
    caps: Answer = 200, {"fields": {"text": {"text": {}}}}
    node.before = lambda method, path, body: caps if "_field_caps" in path else None
    assert found(node, "cats") == ["a"]


def test_user_and_password_are_sent_and_never_shown(node: Server) -> None:
    asyncio.run(load(node.url(), PASSAGES))
    node.login = "ada:s/e@cret"
    engine = open_remote(node.url(login="ada:s%2Fe%40cret@"))
    assert "cret" not in engine.identity
    asyncio.run(engine.aclose())
    for login in ("", "ada:wrong@"):
        refused(lambda login=login: open_remote(node.url(login=login)), EndpointError, "HTTP 401", "USER:PASSWORD@")  # type: ignore[misc]


def test_a_key_from_the_environment_is_sent(node: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELASTICSEARCH_API_KEY", "abc==")
    asyncio.run(load(node.url(), PASSAGES))
    assert {headers["authorization"] for _, _, headers in node.seen} == {"ApiKey abc=="}


def test_who_may_only_read_can_search(node: Server) -> None:
    asyncio.run(load(node.url(), PASSAGES))
    node.before = lambda method, path, body: error(403, "security_exception", "no") if "_cat" in path else None
    assert found(node, "moon") == ["p3"]
    node.before = lambda method, path, body: error(403, "security_exception", "no") if "_search" not in path else None
    refused(lambda: open_remote(node.url()), EndpointError, "HTTP 403")


def test_the_identity_changes_with_what_the_index_holds(node: Server) -> None:
    def identity_with(*passages: Passage, query: str = "") -> str:
        asyncio.run(load(node.url(), passages))
        return open_remote(node.url(query=query)).identity

    first = identity_with(Passage("a", "", "x"))
    assert open_remote(node.url()).identity == first
    identities = [
        first,
        identity_with(Passage("a", "", "changed")),
        identity_with(Passage("b", "", "more")),
        open_remote(node.url(query="metadata=tags")).identity,
    ]
    assert len(set(identities)) == 4
    assert all(identity.startswith("elasticsearch://127.0.0.1:") for identity in identities)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ((429, {}), RateLimited),
        ((503, {"error": {"type": "search_phase_execution_exception", "reason": "all shards failed"}}), EndpointError),
        ((200, b"<html>Welcome to nginx</html>"), UnusableReply),
        ((200, b'{"hits": {"hits": [{"_sco'), UnusableReply),
        ((200, {"hits": []}), UnusableReply),
        ((200, []), UnusableReply),
        ((200, {"hits": {"hits": [{"_id": "a", "_score": None, "sort": []}]}}), UnusableReply),
        ((200, {"timed_out": True, "hits": {"hits": []}}), EndpointError),
        ((200, {"timed_out": False, "_shards": {"failed": 1}, "hits": {"hits": []}}), EndpointError),
    ],
)
def test_what_may_pass_is_a_failure_worth_another_try(answer: Answer, kind: type[Any], node: Server) -> None:
    asyncio.run(load(node.url(), PASSAGES))
    node.before = lambda method, path, body: answer if "_search" in path else None
    with pytest.raises(kind) as failed:
        found(node, "cats")
    assert failed.value.retryable


def test_texts_that_were_not_kept_are_missed(node: Server) -> None:
    asyncio.run(load(node.url(), PASSAGES))
    bare = {"hits": {"hits": [{"_id": "a", "_score": 1.5, "sort": [1.5]}]}}
    node.before = lambda method, path, body: (200, bare) if "_search" in path else None
    refused(lambda: found(node, "cats"), CorpusError, "_source")


def test_more_ties_than_can_be_fetched_are_cut_and_more_passages_than_that_refused(
    node: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(load(node.url(), PASSAGES))
    monkeypatch.setattr("hoptree.retrieval.remote.elasticsearch.MAX_HITS", 20)
    assert len(found(node, "same words", k=20)) == 20
    refused(lambda: found(node, "same words", k=21), InputError, "at most 20")


@pytest.mark.parametrize(
    "url",
    [
        "elasticsearch://host:9200",
        "elasticsearch://host:9200/",
        "elasticsearch:///docs",
        "elasticsearch://host:99999/docs",
        "elasticsearch://host/a/b",
        "elasticsearch://host/docs*",
        "elasticsearch://host/a,b",
        "elasticsearch://host/docs?colour=red",
        "elasticsearch://host/docs?api=solr",
        "elasticsearch://host/docs?text",
        "elasticsearch://[::1/docs",
        "solr://host/docs",
        "docs",
    ],
)
def test_addresses_that_name_no_index_are_refused(url: str) -> None:
    refused(lambda: open_remote(url), ConfigError)


def test_a_server_that_nobody_runs_is_said(node: Server) -> None:
    url = node.url(login="ada:secret@")
    node.close()
    with pytest.raises(EndpointError, match="cannot be reached") as failed:
        open_remote(url)
    assert failed.value.retryable and "secret" not in str(failed.value)


def test_it_is_opened_and_asked_inside_a_running_loop(server: Server) -> None:
    async def run() -> int:
        engine: Retriever = open_remote(server.url())
        assert engine.remote and engine.kind == "elasticsearch"
        all_found = await asyncio.gather(*(engine.search("cats", k=5) for _ in range(16)))
        await engine.aclose()
        return len(set(all_found))

    assert asyncio.run(run()) == 1


def test_a_url_is_told_from_a_path() -> None:
    assert is_remote("elasticsearch://host/docs") and is_remote("milvus:///a.db/docs")
    assert not any(map(is_remote, ("elasticsearch", "docs.idx", "milvus/a.idx", "")))


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("elasticsearch://host/docs", "http://host:9200"),
        ("elasticsearch://host/docs?tls=1", "https://host:9200"),
        ("elasticsearch://host/docs?api=quickwit", "http://host:7280"),
        ("elasticsearch://a:p%40@[::1]:5/docs", "http://a:p%40@[::1]:5"),
    ],
)
def test_where_requests_go(url: str, base: str) -> None:
    assert Elasticsearch(read_address(url)).http.url == base


@given(st.text(), st.text(min_size=1))
def test_any_url_is_read_or_refused(text: str, password: str) -> None:
    for url in (text, f"elasticsearch://{text}", f"milvus://host/{text}", f"elasticsearch://a:{text}@host/docs?{text}"):
        with contextlib.suppress(ConfigError):
            read_address(url)
    secret = quote(f"<{password}>", safe="", errors="replace")
    assert secret not in read_address(f"elasticsearch://ada:{secret}@host/docs").shown


def test_a_misspelt_kind_of_address_is_no_folder() -> None:
    with pytest.raises(ConfigError, match="'elasticsearh://' is not a known kind of address") as failure:
        open_retriever("elasticsearh://host:9200/wiki")
    assert "Did you mean elasticsearch://?" in failure.value.remedy
    assert is_remote("https://host/x") and not is_remote("docs/a:b/idx") and not is_remote("://x")
