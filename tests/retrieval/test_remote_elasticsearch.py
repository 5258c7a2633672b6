"""The Elasticsearch adapter against a local server that takes and answers what the real ones do, and no more."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.errors import ConfigError, CorpusError, EndpointError, HoptreeError, InputError, RateLimited, UnusableReply
from hoptree.retrieval.opening import open_retriever
from hoptree.retrieval.remote import is_remote, load, open_remote
from hoptree.retrieval.remote.address import read_address
from hoptree.retrieval.remote.elasticsearch import MOST_HITS, Elasticsearch
from hoptree.retrieval.retriever import Retriever
from hoptree.values import Passage

STOP_WORDS = {"the", "of", "and", "is", "a", "in"}
QUICKWIT = "/api/v1/_elastic"
Answer = tuple[int, Any]


def words(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text.lower()) if word not in STOP_WORDS]


def at(source: dict[str, Any], path: str) -> Any:
    first, _, rest = path.partition(".")
    return source[path] if path in source else at(source.get(first, {}), rest) if rest else ""


def leaves(value: Any) -> list[str]:
    return list(value) if isinstance(value, dict) else []


def error(status: int, kind: str, reason: str) -> Answer:
    cause = {"type": kind, "reason": reason}
    return status, {"error": {"root_cause": [cause], **cause}, "status": status}


class Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


class Server:
    """One node with indices in memory; it scores by counting words, a title's doubly.

    Like the real ones it refuses what it does not know: other parameters, other keys of a request, other queries.
    `quickwit` makes it speak as Quickwit does.
    """

    def __init__(self, *, quickwit: bool = False) -> None:
        self.indices: dict[str, dict[str, dict[str, Any]]] = {}
        self.mappings: dict[str, Any] = {}
        self.quickwit = quickwit
        self.login = ""
        self.clauses = 1024
        self.clause_status = 400
        self.before: Callable[[str, str, bytes], Answer | None] | None = None
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self.versions = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one piece

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                server.seen.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
                status, answer = server.answer(self.command, self.path, body, self.headers.get("authorization", ""))
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                if status == 429:
                    self.send_header("Retry-After", "0")
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_HEAD = handle_any  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """It has nothing to say."""

        self._http = Listener(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def url(self, index: str = "docs", query: str = "", login: str = "") -> str:
        settings = "&".join(part for part in ("api=quickwit" if self.quickwit else "", query) if part)
        return f"elasticsearch://{login}127.0.0.1:{self._http.server_port}/{index}{'?' if settings else ''}{settings}"

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def answer(self, method: str, path: str, body: bytes, authorization: str) -> Answer:
        if self.before and (answer := self.before(method, path, body)):
            return answer
        if self.login and authorization != f"Basic {base64.b64encode(self.login.encode()).decode()}":
            return error(401, "security_exception", "unable to authenticate user")
        parts = urlsplit(path)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if self.quickwit and parts.path.startswith("/api/v1/indexes"):
            return self._quickwit_index(method, parts.path, body)
        prefix = QUICKWIT if self.quickwit else ""
        if not parts.path.startswith(prefix):
            return 404, {"message": "Route not found"}
        names = parts.path.removeprefix(prefix).strip("/").split("/")
        if names[:2] == ["_cat", "indices"]:
            return self._cat(names[2], asked)
        index, action = names[0], names[1] if len(names) > 1 else ""
        if action == "" and method == "PUT":
            return self._create(index, json.loads(body))
        if index not in self.indices:
            return error(404, "index_not_found_exception", f"no such index [{index}]")
        actions: dict[str, Callable[[], Answer]] = {
            "": lambda: (200, {}),
            "_bulk": lambda: self._bulk(index, body),
            "_refresh": lambda: (200, {"_shards": {"total": 2, "successful": 1, "failed": 0}}),
            "_count": lambda: (200, {"count": len(self.indices[index]), "_shards": {"failed": 0}}),
            "_field_caps": lambda: self._field_caps(index, asked),
            "_search": lambda: self._search(index, asked, json.loads(body)),
        }
        return actions[action]() if action in actions else error(400, "invalid", f"no handler for [{path}]")

    def _quickwit_index(self, method: str, path: str, body: bytes) -> Answer:
        if method == "GET":
            index = path.rpartition("/")[2]
            return (200, {}) if index in self.indices else (404, {"message": f"index `{index}` not found"})
        config = json.loads(body)
        assert {field["name"] for field in config["doc_mapping"]["field_mappings"]} >= {"id", "title", "text"}
        self.indices[config["index_id"]] = {}
        self.mappings[config["index_id"]] = config["doc_mapping"]
        return 200, {"index_uid": config["index_id"] + ":01"}

    def _create(self, index: str, body: dict[str, Any]) -> Answer:
        if index in self.indices:
            return error(400, "resource_already_exists_exception", f"index [{index}/uuid] already exists")
        if index != index.lower():
            return error(400, "invalid_index_name_exception", f"Invalid index name [{index}], must be lowercase")
        self.indices[index] = {}
        self.mappings[index] = body["mappings"]
        return 200, {"acknowledged": True, "shards_acknowledged": True, "index": index}

    def _cat(self, index: str, asked: dict[str, str]) -> Answer:
        if index not in self.indices:
            return error(404, "index_not_found_exception", f"no such index [{index}]")
        assert (
            asked["format"] == "json"
            and asked["h"].startswith("uuid,docs.count")
            and ("bytes" in asked) != self.quickwit
        )
        row = {"uuid": f"u-{index}", "docs.count": str(len(self.indices[index])), "docs.deleted": str(self.versions)}
        return 200, [row]

    def _field_caps(self, index: str, asked: dict[str, str]) -> Answer:
        known = {"title", "text"} | {name for source in self.indices[index].values() for name in source}
        known |= {f"{name}.{inner}" for s in self.indices[index].values() for name in s for inner in leaves(s[name])}
        fields = {name: {"text": {"type": "text", "searchable": True}} for name in asked["fields"].split(",")}
        return 200, {"indices": [index], "fields": {n: c for n, c in fields.items() if n in known}}

    def _bulk(self, index: str, body: bytes) -> Answer:
        lines = [json.loads(line) for line in body.decode().splitlines()]
        items = []
        for action, source in zip(lines[::2], lines[1::2], strict=True):
            ((verb, target),) = action.items()
            if self.quickwit:
                assert verb == "create"
                self.indices[index][str(len(self.indices[index]))] = source
                continue
            assert verb == "index"
            item: dict[str, Any] = {"_index": index, "_id": target["_id"], "status": 201, "result": "created"}
            if len(target["_id"].encode()) > 512:
                reason = f"id is too long, must be no longer than 512 bytes but was: {len(target['_id'])}"
                item |= {"status": 400, "error": {"type": "illegal_argument_exception", "reason": reason}}
            else:
                self.versions += target["_id"] in self.indices[index]
                self.indices[index][target["_id"]] = source
            items.append({verb: item})
        if self.quickwit:
            return 200, {"num_docs_for_processing": len(lines) // 2}
        return 200, {"took": 3, "errors": any("error" in item["index"] for item in items), "items": items}

    def _search(self, index: str, asked: dict[str, str], body: dict[str, Any]) -> Answer:
        parameters = set() if self.quickwit else {"allow_partial_search_results", "search_type", "preference"}
        keys = {"size", "query", "sort"} | (set() if self.quickwit else {"track_total_hits"})
        if asked.keys() - parameters or body.keys() - keys:
            return error(400, "illegal_argument_exception", f"unknown {asked} {body.keys()}")
        if body["size"] > MOST_HITS:
            return error(400, "illegal_argument_exception", "Result window is too large")
        assert body["sort"] == [{"_score": {"order": "desc"}}]
        match = body["query"]["bool"]["must"][0]["multi_match"]
        fields = [(name, float(boost or 1)) for name, _, boost in (field.partition("^") for field in match["fields"])]
        if self.quickwit and any("^" in field for field in match["fields"]):
            return error(400, "parse", "Quickwit does not support field boosting in the multi match query fields")
        terms = words(match["query"])
        if len(terms) * len(fields) > self.clauses:
            return error(self.clause_status, "too_many_clauses", f"maxClauseCount is set to {self.clauses}")
        filters = [next(iter(one["term"].items())) for one in body["query"]["bool"]["filter"]]
        hits: list[dict[str, Any]] = []
        for identifier, source in reversed(self.indices[index].items()):
            score = sum(b * words(str(at(source, n))).count(term) for term in terms for n, b in fields)
            if score and all(
                v["value"] in several(source.get("metadata", {}).get(n.partition(".")[2])) for n, v in filters
            ):
                known = {"_id": "", "_score": None} if self.quickwit else {"_id": identifier, "_score": score}
                hits.append({"_index": index, **known, "_source": source, "sort": [score]})
        hits.sort(key=lambda hit: -hit["sort"][0])
        shards = {"total": 1, "successful": 1, "skipped": 0, "failed": 0}
        found = {"max_score": None, "hits": hits[: body["size"]]}
        return 200, {"took": 1, "timed_out": False, "_shards": shards, "hits": found}


def several(value: Any) -> list[Any]:
    """Any field may hold one value or more."""
    return value if isinstance(value, list) else [value]


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
    monkeypatch.setattr("hoptree.retrieval.remote.bulk._PAUSE", 0.0)
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
    monkeypatch.setattr("hoptree.retrieval.remote.sending.BATCH", 10)
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
    monkeypatch.setattr("hoptree.retrieval.remote.elasticsearch.MOST_HITS", 20)
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
    with pytest.raises(ConfigError, match="'elasticsearh://' is no known kind of address") as failure:
        open_retriever("elasticsearh://host:9200/wiki")
    assert "Did you mean elasticsearch://?" in failure.value.remedy
    assert is_remote("https://host/x") and not is_remote("docs/a:b/idx") and not is_remote("://x")
