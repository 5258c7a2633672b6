"""Questions, searches and what a server tells of itself, over HTTP."""

from __future__ import annotations

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from tests.server.running import QUESTION, Running, events_in, events_of, limits, running, script, settings
from tests.timing import TIMEOUT_S, PausedModel

from hoptree.engine.calls import Call
from hoptree.engine.engine import ask
from hoptree.engine.registry import list_methods
from hoptree.models.model import Progress, on_progress
from hoptree.models.scripted import Rule
from hoptree.server.error_responses import log_internal_error

_MESSAGES = [{"role": "user", "content": QUESTION}]
_JSON = {"content-type": "application/json"}


def test_it_answers_as_the_engine_does(server: Running) -> None:
    reply = server.ask()
    assert reply.status_code == 200
    corpus = server.state.questions.corpora.place("films")
    expected = ask(QUESTION, method="taikc", model=script(), corpus=corpus, cache=None).as_dict()
    result = reply.json()
    for timed in (result["usage"], expected["usage"]):
        del timed["seconds"], timed["critical_path_seconds"]
    assert result == expected | {"model": "demo"}
    assert result["answer"] == "1948"


def test_the_tree_grows_before_the_result_comes(tmp_path: Path) -> None:
    model = PausedModel(script().rules, at="read")
    asked = {"question": QUESTION, "stream": True}
    with (
        running(settings(tmp_path, models={"demo": model})) as server,
        server.client.stream("POST", "/v1/ask", json=asked, timeout=TIMEOUT_S) as reply,
    ):
        assert reply.headers["content-type"].startswith("text/event-stream")
        received = ""
        for part in reply.iter_text():
            received += part
            if '"state":"asking"' in received:  # nothing else comes until it is let go on
                model.paused = False
    events = events_in(received)
    assert [kind for kind, _ in events][-1] == "result"
    assert events[-1][1]["answer"] == "1948"
    assert [node["answer"] for node in events[-1][1]["tree"]] == ["Bille August", "1948"]
    trees = [data for kind, data in events if kind == "tree"]
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
    result = server.ask(options={"k": 1}, budget={"calls": 2}).json()
    assert result["options"]["k"] == 1
    assert result["stopped_by"] == "calls"


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
        ({"method": "cot_sc", "options": {"samples": 101}}, "at most 100"),
        ({"method": "cok", "options": {"voters": "1e3"}}, "at most 100"),
        ({"method": "cot", "options": {"shots": 10_000}}, "at most 100"),
        ({"method": "tog", "options": {"width": -101}}, "at most 100"),
        ({"method": "cot", "options": {"max_tokens": 10_001}}, "at most 10000"),
        ({"method": "ircot", "options": {"max-sentences": 1, "max_sentences": 9}}, "once"),
        ({"question": "x" * 8_001}, "into a corpus"),
        ({"budget": {"cost": 1}}, "tokens"),
    ],
)
def test_a_name_or_value_that_is_not_there_is_refused_with_a_remedy(
    server: Running, fields: dict[str, Any], hint: str
) -> None:
    for stream in (False, True):
        reply = server.client.post("/v1/ask", json={"question": QUESTION, "stream": stream, **fields})
        assert reply.status_code == 400, reply.text
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


_SAID = "Incorrect key sk-proj-SECRETsecret1234 at host 10.9.8.7:8000, inner.example:8443, file:/srv/a/b, org-ACMEACME"
_SECRETS = ("SECRET", "10.9.8.7", ":8000", "inner.example", ":8443", "srv", "ACME", "127.0.0.1")


class _Endpoint(BaseHTTPRequestHandler):
    """One that refuses every request in words that nobody else should read."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(int(self.path.split("/")[1]))
        body = json.dumps({"error": {"message": _SAID}}).encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


def test_what_an_endpoint_says_is_in_the_log_and_nowhere_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hoptree.engine.calls._MAX_ATTEMPTS", 2)
    with HTTPServer(("127.0.0.1", 0), _Endpoint) as endpoint:
        threading.Thread(target=endpoint.serve_forever, daemon=True).start()
        here = f"http://127.0.0.1:{endpoint.server_port}"
        addresses = {"m400": f"{here}/400/v1", "m401": f"{here}/401/v1", "m404": f"{here}/404/v1"}
        with socket.socket() as unheard:
            unheard.bind(("127.0.0.1", 0))
            addresses["refused"] = f"http://127.0.0.1:{unheard.getsockname()[1]}/v1"
        models = dict.fromkeys(addresses, "openai/inner-name")
        with running(settings(tmp_path, models=models, base_urls=addresses)) as server:
            for name in models:
                caplog.clear()
                plain = server.ask(model=name, method="direct")
                assert plain.status_code == 502
                assert plain.headers.get("x-should-retry") == (None if name == "refused" else "false")
                chat = {"model": f"direct@{name}" if name != "m400" else "direct", "messages": _MESSAGES}
                shown = [
                    plain.text,
                    server.ask(model=name, method="direct", stream=True, events=True).text,
                    server.client.post("/v1/chat/completions", json=chat).text,
                    server.client.post("/v1/chat/completions", json=chat | {"stream": True}).text,
                ]
                for text in shown:
                    assert "that the server asks" in text
                    assert not [secret for secret in (*_SECRETS, "inner-name", "OPENAI_API_KEY") if secret in text], (
                        text
                    )
                assert f"a question (direct with {name}) failed: EndpointError: " in caplog.text
                assert "127.0.0.1" in caplog.text
                assert "SECRET" not in caplog.text
        endpoint.shutdown()


def test_a_mistake_with_a_file_is_logged_with_it(caplog: pytest.LogCaptureFixture) -> None:
    log_internal_error(FileNotFoundError(2, "No such file", "/srv/corpora/a"))
    assert "FileNotFoundError (2 No such file: /srv/corpora/a) inside the server" in caplog.text


def test_remedies_are_about_requests_and_not_about_the_command_line(server: Running) -> None:
    reply = server.ask(method="treeqa").json()["error"]
    assert '"options": {"evidence": "text"}' in reply["remedy"]
    dense = server.ask(retriever="dense").json()["error"]
    assert "GET /v1/methods" in dense["remedy"]
    for response in (reply, dense):
        assert "hoptree " not in response["remedy"]
        assert "--" not in response["remedy"]


def test_texts_that_an_administrator_sets_are_not_told(tmp_path: Path) -> None:
    labels = str(tmp_path / "private-labels.jsonl")
    fixed = {"skr": {"labels": labels}, "ircot": {"max-sentences": "2"}}
    with running(settings(tmp_path, options=fixed)) as server:
        reply = server.ask(method="skr", stream=True, events=True)
        assert "private-labels" not in reply.text
        assert events_of(reply)[-1][1]["options"]["labels"] == "set by the server"
        listed = server.client.get("/v1/methods")
        assert "private-labels" not in listed.text
        methods = {row["name"]: row for row in listed.json()["methods"]}
        option = {row["name"]: row for row in methods["ircot"]["options"]}["max_sentences"]
        assert (option["type"], option["default"], option["fixed"]) == ("int", 2, True)
        for name in ("max-sentences", "max_sentences"):
            refused = server.ask(method="ircot", options={name: 9})
            assert (refused.status_code, refused.json()["error"]["class"]) == (403, "NotAllowed")


def test_limits_prices_and_what_is_lacking_are_told(tmp_path: Path, server: Running) -> None:
    described = server.client.get("/v1/methods").json()
    assert described["limits"] == {"question": 8000, "calls": 500, "tokens": 2_000_000, "seconds": 300.0}
    assert described["prices"] is False
    methods = {row["name"]: row for row in described["methods"]}
    assert methods["taikc"]["available"] is True
    assert methods["tog"]["available"] is False
    assert "knowledge graph" in methods["tog"]["why"]
    assert "evidence" in methods["treeqa"]["why"]
    wanted = settings(tmp_path, options={"treeqa": {"evidence": "text"}})
    with running(wanted) as other:
        methods = {row["name"]: row for row in other.client.get("/v1/methods").json()["methods"]}
        assert methods["treeqa"]["available"] is True


def test_a_body_that_is_not_said_to_be_json_is_refused_with_the_header_to_send(server: Running) -> None:
    for path in ("/v1/ask", "/v1/search", "/v1/chat/completions"):
        for headers in ({"content-type": "application/x-www-form-urlencoded"}, {}):
            reply = server.client.post(path, content=b'{"question": "x"}', headers=headers)
            assert reply.status_code == 415
            assert "Content-Type: application/json" in reply.text


def test_searches_count_as_questions_do(tmp_path: Path) -> None:
    with running(settings(tmp_path, limits=limits(asking=1))) as server:
        live, seen = server.state.questions.running, []

        async def search(*_: Any, **__: Any) -> Any:
            seen.append(len(live))
            live.stopping = True
            return Call((), False, 0.0)

        server.state.questions.calls.search = search  # type: ignore[method-assign]
        assert server.client.post("/v1/search", json={"query": "born"}).json()["passages"] == []
        assert seen == [1]
        refused = server.client.post("/v1/search", json={"query": "born"})
        assert (refused.status_code, refused.json()["error"]["class"]) == (503, "Stopped")


def test_models_are_listed_with_what_is_asked_most_first(server: Running) -> None:
    def ids(**query: str) -> list[str]:
        return [row["id"] for row in server.client.get("/v1/models", params=query).json()["data"]]

    every = ids()
    assert every[0] == "taikc"
    first = every[: len(every) // 2]
    assert all("@" not in name for name in first)
    # This server has no graph: what needs one cannot be asked.
    assert "oner" in first and not {"treeqa", "cok", "tog", "tog2"} & {*first}
    assert ids(method="treeqa") == [] and server.client.get("/v1/models/treeqa").status_code == 404
    assert ids(method="oner") == ["oner", "oner@slow"]
    assert ids(model="slow")[0] == "taikc@slow"
    assert ids(model="demo") == first
    assert ids(method="oner", model="slow") == ["oner@slow"]
    refused = server.client.get("/v1/models", params={"method": "onr"})
    assert refused.status_code == 400
    assert refused.json()["error"]["message"] == "There is no method 'onr'. Did you mean 'oner'?"
    by_openai = server.client.get("/v1/models/oner@slow").json()["hoptree"]
    assert by_openai.keys() == {"title", "method", "model", "needs"}
    assert (by_openai["method"], by_openai["model"]) == ("oner", "slow")


def test_samples_are_bound_by_the_calls_of_a_budget(server: Running) -> None:
    """They come by one call of the model, and cost what as many calls do."""
    refused = server.ask(method="cot_sc", options={"samples": 30}, budget={"calls": 5})
    assert refused.status_code == 400
    assert refused.json()["error"]["message"] == "samples=30 is more than is allowed here."
    assert refused.json()["error"]["remedy"] == "Give at most 5, the calls of the budget."
    assert server.ask(method="cot_sc", options={"samples": 5}, budget={"calls": 5}).status_code == 200
    assert server.ask(method="cot_sc", budget={"calls": 5}).status_code == 200


def test_methods_and_models_are_listed(server: Running) -> None:
    described = server.client.get("/v1/methods").json()
    taikc = next(method for method in described["methods"] if method["name"] == "taikc")
    k = next(option for option in taikc["options"] if option["name"] == "k")
    assert k == {"name": "k", "type": "int", "about": "How many passages a search gives.", "default": 5}
    assert described["models"] == ["demo", "slow"]
    assert described["default"] == {"method": "taikc", "model": "demo", "corpus": "films", "retriever": "auto"}
    names = [model["id"] for model in server.client.get("/v1/models").json()["data"]]
    assert "taikc" in names
    assert "taikc@slow" in names
    assert "taikc@demo" not in names
    assert server.client.get("/v1/models/taikc@slow").json()["hoptree"]["needs"] == ["corpus"]
    assert server.client.get("/v1/models/gpt").status_code == 404
    default = server.client.get("/v1/models/taikc").json()
    named = f"/v1/models/taikc@{default['hoptree']['model']}"
    assert server.client.get(named).json() == default, "chat takes that name, too"


def test_searches(server: Running) -> None:
    search_reply = server.client.post("/v1/search", json={"query": "born", "corpus": "films", "k": 1}).json()
    assert [passage["id"] for passage in search_reply["passages"]] == ["bille"]
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


@pytest.mark.parametrize("method", [each.name for each in list_methods()])
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


def test_a_stream_tells_how_far_the_model_is(tmp_path: Path) -> None:
    model = script()
    answering = model.generate

    async def slow(request: Any, *, step: str) -> Any:
        if (listener := on_progress.get()) is not None:
            listener(Progress(256, 1024, seconds=2.0))
        return await answering(request, step=step)

    model.generate = slow  # type: ignore[method-assign]
    with running(settings(tmp_path, models={"demo": model})) as server:
        events = events_of(server.client.post("/v1/ask", json={"question": QUESTION, "stream": True}))
    (first, *_) = (data for name, data in events if name == "progress")
    assert first["text"] == "The model is reading 256 of 1,024 tokens, 128 a second, about 6 s left"
    assert (first["read"], first["total"]) == (256, 1024)
