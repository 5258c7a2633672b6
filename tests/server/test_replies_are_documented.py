"""What the server sends is what its OpenAPI document says, field by field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("fastapi")

from tests.server.documented import Documented
from tests.server.running import QUESTION, Running, events_of, running, script, settings
from tests.server.some_runs import make_runs

from hoptree.models.scripted import Rule
from hoptree.server.keys import Key

pytestmark = pytest.mark.usefixtures("forked_workers")


def _documented(server: Running) -> Documented:
    return Documented(server.client.get("/openapi.json").json())


def test_every_reply_has_a_schema(server: Running) -> None:
    document = _documented(server)
    for (method, path), operation in document.operations.items():
        for status, reply in operation["responses"].items():
            if status == "204":
                continue
            kinds = reply["content"]
            assert kinds, (method, path, status)
            if status != "200" or path not in ("/metrics", "/v1/corpora/{name}/files/{document}"):
                assert kinds["application/json"]["schema"]["$ref"] in document.names, (method, path, status)


def test_only_what_needs_a_key_tells_of_one(server: Running, tmp_path: Path) -> None:
    operations = _documented(server).operations
    assert operations["GET", "/health"]["security"] == []
    assert "401" not in operations["GET", "/health"]["responses"]
    assert operations["POST", "/v1/ask"]["security"] == [{"key": []}, {}]
    with running(settings(tmp_path, keys=(Key("team", b"x" * 32),))) as guarded:
        document = guarded.client.get("/openapi.json").json()
        assert document["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
        assert document["paths"]["/v1/ask"]["post"]["security"] == [{"key": []}]
        Documented(document).check(guarded.ask(), "/v1/ask")
        Documented(document).check(guarded.client.get("/v1/models"), "/v1/models")


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/ask", {"question": QUESTION}, 200),
        ("/v1/ask", {"question": QUESTION, "method": "oner", "budget": {"calls": 1}}, 200),
        ("/v1/ask", {"question": QUESTION, "method": "flare"}, None),
        ("/v1/ask", {"question": QUESTION, "method": "nosuch"}, 400),
        ("/v1/ask", {"question": QUESTION, "metod": "oner"}, 422),
        ("/v1/ask", {"question": QUESTION, "model": "broken"}, 502),
        ("/v1/chat/completions", {"model": "taikc", "messages": [{"role": "user", "content": QUESTION}]}, 200),
        ("/v1/chat/completions", {"model": "nosuch", "messages": [{"role": "user", "content": QUESTION}]}, 404),
        ("/v1/chat/completions", {"model": "taikc@broken", "messages": [{"role": "user", "content": "Who?"}]}, 502),
        ("/v1/search", {"query": "Lisbon"}, 200),
        ("/v1/search", {"query": "Lisbon", "corpus": "nosuch"}, 400),
    ],
)
def test_answers_and_refusals(documented: Running, path: str, body: dict[str, Any], status: int | None) -> None:
    reply = documented.client.post(path, json=body)
    assert status in (None, reply.status_code), reply.text
    _documented(documented).check(reply, path)


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("documented")
    broken = script(before=[Rule("", fault="401")])
    wanted = settings(
        folder, models={"demo": script(), "broken": broken}, corpora_folder=folder / "own", runs=folder / "runs"
    )
    make_runs(folder, wanted.corpora["films"])
    with running(wanted) as server:
        yield server


def test_events_of_a_stream(documented: Running) -> None:
    document = _documented(documented)
    schemas = document.operations["POST", "/v1/ask"]["responses"]["200"]["content"]["text/event-stream"]["x-events"]
    for model in ("demo", "broken"):
        events = events_of(documented.ask(stream=True, events=True, model=model))
        for kind, data in events:
            document.check_value(data, schemas[kind])
        assert events[-1][0] == ("result" if model == "demo" else "error")


@pytest.mark.parametrize("path", ["/health", "/v1/methods", "/v1/models", "/v1/corpora", "/v1/runs"])
def test_lists(documented: Running, path: str) -> None:
    reply = documented.client.get(path)
    assert reply.status_code == 200
    _documented(documented).check(reply, path)


def test_one_model(documented: Running) -> None:
    document = _documented(documented)
    document.check(documented.client.get("/v1/models/taikc@broken"), "/v1/models/{name}")
    document.check(documented.client.get("/v1/models/nosuch"), "/v1/models/{name}")


def test_corpora_and_jobs(documented: Running) -> None:
    document, client = _documented(documented), documented.client

    def send(path: str, file: str = "a.txt", text: bytes = b"Ada was born in 1815.", **form: str) -> httpx.Response:
        return client.post(path, files={"files": (file, text)}, data=form)

    created = send("/v1/corpora", name="own")
    document.check(created, "/v1/corpora")
    assert documented.job(created)["state"] == "done"
    document.check(client.get(f"/v1/jobs/{created.json()['job']}"), "/v1/jobs/{job}")
    failed = send("/v1/corpora/own/documents", "b.pdf", b"%PDF-nothing")
    document.check(failed, "/v1/corpora/{name}/documents")
    assert documented.job(failed)["state"] == "failed"
    document.check(client.get(f"/v1/jobs/{failed.json()['job']}"), "/v1/jobs/{job}")
    document.check(client.get("/v1/corpora"), "/v1/corpora")
    document.check(client.get("/v1/corpora/own/documents"), "/v1/corpora/{name}/documents")
    for refused, path in (
        (client.get("/v1/jobs/nosuch"), "/v1/jobs/{job}"),
        (send("/v1/corpora", name="own"), "/v1/corpora"),
        (send("/v1/corpora", "a.exe", name="two"), "/v1/corpora"),
        (client.delete("/v1/corpora/films"), "/v1/corpora/{name}"),
        (client.delete("/v1/corpora/nosuch"), "/v1/corpora/{name}"),
        (client.delete("/v1/corpora/own/documents/a.txt"), "/v1/corpora/{name}/documents/{document}"),
        (client.delete("/v1/corpora/own/documents/b.txt"), "/v1/corpora/{name}/documents/{document}"),
    ):
        assert refused.is_error
        document.check(refused, path)


def test_stored_answers_and_topics(tmp_path: Path) -> None:
    with running(settings(tmp_path, cache=tmp_path / "replies.sqlite")) as server:
        document = _documented(server)
        for asked in (server.ask(), server.ask(stream=True)):
            stored = server.client.get(f"/v1/answers/{asked.headers['Hoptree-Answer']}")
            document.check(stored, "/v1/answers/{answer}")
            assert (stored.json()["corpus"], stored.json()["result"]["answer"]) == ("films", "1948")
        document.check(server.client.get("/v1/answers/nosuch"), "/v1/answers/{answer}")
        topics = server.client.get("/v1/corpora/films/topics")
        document.check(topics, "/v1/corpora/{name}/topics")
        topic = {"title": "Night Train to Lisbon", "mentions": "Bille August", "document": None}
        assert topic | {"kind": "link", "language": "en"} in topics.json()["topics"]
        document.check(server.client.get("/v1/corpora/nosuch/topics"), "/v1/corpora/{name}/topics")
    with running(settings(tmp_path)) as server:  # which remembers nothing
        assert "Hoptree-Answer" not in server.ask().headers


def test_runs(documented: Running) -> None:
    document, client = _documented(documented), documented.client
    ids = {run["folder"]: run["id"] for run in client.get("/v1/runs").json()["runs"]}
    oner, direct, broken = ids["deep/oner"], ids["deep/direct"], ids["broken"]
    for run in (oner, direct, broken, "nosuch"):
        document.check(client.get(f"/v1/runs/{run}"), "/v1/runs/{run}")
        document.check(client.get(f"/v1/runs/{run}/questions"), "/v1/runs/{run}/questions")
        question = client.get(f"/v1/runs/{run}/questions/b%2F2")
        document.check(question, "/v1/runs/{run}/questions/{question}")
    for other, status in ((direct, 200), (oner, 400), ("nosuch", 404), (broken, 400)):
        compared = client.get("/v1/compare", params={"a": oner, "b": other})
        assert compared.status_code == status
        document.check(compared, "/v1/compare")


def test_what_is_no_json(documented: Running) -> None:
    document, client = _documented(documented), documented.client
    for path in ("/v1/ask", "/v1/chat/completions", "/v1/search"):
        for content, kind in ((b"{}", "text/plain"), (b"{", "application/json"), (b"[]", "application/json")):
            document.check(client.post(path, content=content, headers={"Content-Type": kind}), path)
