"""Questions, searches and what a server tells of itself, over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from tests.server.running import QUESTION, Running, events_of, running, script, settings

from hoptree.engine import ask
from hoptree.methods.registry import list_methods
from hoptree.models.scripted import Rule

_JSON = {"content-type": "application/json"}


def test_it_answers_as_the_engine_does(server: Running) -> None:
    reply = server.ask()
    assert reply.status_code == 200
    expected = ask(QUESTION, model=script(), corpus=server.house.corpora.place("films"), cache=None).as_dict()
    told = reply.json()
    for timed in (told["usage"], expected["usage"]):
        del timed["seconds"], timed["critical_path_seconds"]
    assert told == expected | {"model": "demo"}
    assert told["answer"] == "1948"


def test_the_tree_grows_before_the_result_comes(server: Running) -> None:
    reply = server.ask(stream=True, model="slow")
    assert reply.headers["content-type"].startswith("text/event-stream")
    events = events_of(reply)
    assert [kind for kind, _ in events][-1] == "result"
    assert events[-1][1]["answer"] == "1948"
    trees = [data for kind, data in events if kind == "tree"]
    assert [node["state"] for node in trees[-1]["tree"]] == ["answered", "answered"]
    assert any(node["state"] == "asking" for data in trees for node in data["tree"])
    steps = [data["text"] for kind, data in events if kind == "step"]
    assert "Planned 2 sub-questions" in steps
    assert "Sub-question 1: Bille August (from documents)" in steps
    passages = [passage["id"] for kind, data in events if kind == "passages" for passage in data["passages"]]
    assert sorted(passages) == ["bille", "night"]
    assert "trace" not in dict(events)


def test_raw_events_come_on_request_with_the_model_by_its_name(server: Running) -> None:
    traces = [data for kind, data in events_of(server.ask(stream=True, events=True)) if kind == "trace"]
    assert traces[0]["event"] == "start"
    assert traces[0]["model"] == "demo"
    assert traces[-1]["event"] == "final"


def test_options_and_budgets_reach_the_method(server: Running) -> None:
    told = server.ask(options={"k": 1}, budget={"calls": 2}).json()
    assert told["options"]["k"] == 1
    assert told["stopped_by"] == "calls"


def test_a_text_without_a_question_is_refused(server: Running) -> None:
    for question in ("", "   ", "x" * 9000):
        assert server.ask(question).status_code in (400, 422)
        assert server.ask(question, stream=True).status_code in (400, 422)
    half = b'{"question": "half \\ud800"}'
    assert server.client.post("/v1/ask", content=half, headers=_JSON).status_code == 422


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"method": "taikk"}, "taikc"),
        ({"model": "dem"}, "demo"),
        ({"corpus": "film"}, "films"),
        ({"graph": "wikidata"}, "no graph"),
        ({"retriever": "bm52"}, "bm25"),
        ({"rerank": "endpoint/x@http://127.0.0.1"}, "no reranker"),
        ({"options": {"kk": 1}}, "k"),
        ({"options": {"k": 0}}, "1 or more"),
        ({"options": {"k": 100000}}, "at most 100"),
        ({"budget": {"cost": 1}}, "tokens"),
    ],
)
def test_a_name_or_value_that_is_not_there_is_refused_with_a_remedy(
    server: Running, fields: dict[str, Any], hint: str
) -> None:
    for stream in (False, True):
        reply = server.ask(stream=stream, **fields)
        assert reply.status_code == 400
        assert hint in reply.json()["error"]["remedy"]


def test_bodies_that_are_no_requests_are_refused(server: Running) -> None:
    post = server.client.post
    assert post("/v1/ask", content=b"{", headers=_JSON).status_code == 400
    assert post("/v1/ask", json={"question": "x", "base_url": "http://127.0.0.1/"}).status_code == 422
    assert post("/v1/ask", json=[]).status_code == 422
    deep = b'{"question": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert post("/v1/ask", content=deep, headers=_JSON).status_code in (400, 422)
    assert server.client.get("/v1/ask").status_code == 405
    assert server.client.get("/nothing").json()["error"]["class"] == "NotFound"


def test_a_failing_model_is_told_with_what_there_was(tmp_path: Path) -> None:
    broken = script(before=[Rule(step="read", fault="401")])
    with running(settings(tmp_path, models={"demo": broken})) as server:
        reply = server.ask()
        assert reply.status_code == 502
        assert reply.json()["error"]["class"] == "EndpointError"
        assert len(reply.json()["result"]["tree"]) == 2
        kind, data = events_of(server.ask(stream=True))[-1]
        assert kind == "error"
        assert data["class"] == "EndpointError"


def test_methods_and_models_are_listed(server: Running) -> None:
    told = server.client.get("/v1/methods").json()
    taikc = next(method for method in told["methods"] if method["name"] == "taikc")
    assert {"name": "k", "type": "int", "default": 5} in taikc["options"]
    assert told["models"] == ["demo", "slow"]
    assert told["default"] == {"method": "taikc", "model": "demo", "corpus": "films", "retriever": "bm25"}
    names = [model["id"] for model in server.client.get("/v1/models").json()["data"]]
    assert "taikc" in names
    assert "taikc@slow" in names
    assert "taikc@demo" not in names
    assert server.client.get("/v1/models/taikc@slow").json()["hoptree"]["needs"] == ["corpus"]
    assert server.client.get("/v1/models/gpt").status_code == 404


def test_searches(server: Running) -> None:
    found = server.client.post("/v1/search", json={"query": "born", "corpus": "films", "k": 1}).json()
    assert [passage["id"] for passage in found["passages"]] == ["bille"]
    for wrong in (
        {"query": " "},
        {"query": "x", "k": 0},
        {"query": "x", "corpus": "../films"},
        {"query": "x", "retriever": "dense"},
    ):
        assert server.client.post("/v1/search", json=wrong).status_code in (400, 422)


def test_health_and_metrics(server: Running) -> None:
    assert server.client.get("/health").json()["status"] == "ok"
    server.ask()
    text = server.client.get("/metrics").text
    assert 'hoptree_questions_total{method="taikc",outcome="answered"}' in text
    assert 'route="/v1/ask"' in text
    assert "hoptree_questions_under_way 0.0" in text


def test_half_characters_of_a_model_arrive_as_json(tmp_path: Path) -> None:
    odd = script(before=[Rule("caf\ud83d", step="final"), Rule("a\ud83db", step="read")])
    with running(settings(tmp_path, models={"demo": odd})) as server:
        assert json.loads(server.ask().content)["answer"]
        assert events_of(server.ask(stream=True))[-1][0] == "result"


@pytest.mark.parametrize("method", [one.name for one in list_methods()])
def test_every_method_is_told_step_by_step(server: Running, method: str) -> None:
    events = events_of(server.ask(method=method, stream=True, events=True))
    kind, data = events[-1]
    assert kind == "result" or data["class"] != "InternalError", data
    if kind == "result":
        assert {"step", "tree"} <= {kind for kind, _ in events}
    chat = {"model": method, "messages": [{"role": "user", "content": QUESTION}]}
    reply = server.client.post("/v1/chat/completions", json=chat)
    assert (reply.status_code == 200) is (kind == "result")
    assert reply.status_code != 500
