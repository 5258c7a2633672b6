"""The OpenAPI document: whatever fits it, or nearly does, is answered without a failure of the server's own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from tests.server.running import Running, limits, running, settings
from tests.server.some_runs import make_runs

_NEEDLESS = re.compile(
    r'The question is empty|needs prices|BadFileName|"(?:tools|functions|n|logprobs|previous_response_id): '
)
"""Refusals of what the document says is refused."""


def test_the_document_names_every_address(server: Running) -> None:
    reply = server.client.get("/openapi.json")
    assert reply.json()["openapi"].startswith("3.")
    assert set(reply.json()["paths"]) == {
        "/health",
        "/metrics",
        "/v1/answers/{answer}",
        "/v1/ask",
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/compare",
        "/v1/corpora",
        "/v1/corpora/{name}",
        "/v1/corpora/{name}/documents",
        "/v1/corpora/{name}/documents/{document}",
        "/v1/corpora/{name}/files/{document}",
        "/v1/corpora/{name}/passages/{passage}",
        "/v1/corpora/{name}/topics",
        "/v1/jobs/{job}",
        "/v1/methods",
        "/v1/models",
        "/v1/models/{name}",
        "/v1/runs",
        "/v1/runs/{run}",
        "/v1/runs/{run}/questions",
        "/v1/runs/{run}/questions/{question}",
        "/v1/search",
    }


def test_no_request_makes_the_server_fail_or_say_what_the_document_does_not(tmp_path: Path) -> None:
    schemathesis: Any = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, Phase, given
    from hypothesis import settings as bounds
    from schemathesis.specs.openapi import checks

    tried: list[tuple[str, int]] = []
    needless: list[str] = []
    """Refusals of what the document could have said that it is refused."""
    wanted = settings(
        tmp_path, corpora_folder=tmp_path / "own", runs=tmp_path / "runs", limits=limits(calls=3, corpora=3)
    )
    make_runs(tmp_path, wanted.corpora["films"])
    with running(wanted) as server:
        schema = schemathesis.openapi.from_dict(_with_names(server))
        schema.config.base_url = server.url
        schema.config.request_timeout = 240  # a slow machine is no failure of the server
        for operation in schema.get_all_operations():
            described = operation.ok()

            @bounds(
                max_examples=15,
                deadline=None,
                derandomize=True,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=described.as_strategy())
            def try_it(case: Any) -> None:
                reply = case.call(base_url=server.url)
                tried.append((f"{case.method} {case.path}", reply.status_code))
                assert reply.status_code < 500, reply.text
                if _NEEDLESS.search(reply.text):
                    needless.append(f"{case.method} {case.path}: {case.body}: {reply.text}")
                case.validate_response(
                    reply,
                    checks=[
                        checks.status_code_conformance,
                        checks.content_type_conformance,
                        checks.response_schema_conformance,
                    ],
                )

            try_it()
        assert server.ask().status_code == 200
    assert not needless
    assert len({path for path, _ in tried}) == 25
    answered = {path for path, status in tried if status < 300}
    assert {"POST /v1/ask", "POST /v1/chat/completions", "POST /v1/responses", "POST /v1/search"} <= answered
    assert {"GET /v1/runs/{run}", "GET /v1/compare"} <= answered


def _with_names(server: Running) -> dict[str, Any]:
    """The document, with the names that there are in the place of any: others are refused before much happens."""
    document: dict[str, Any] = server.client.get("/openapi.json").json()
    runs = [run["id"] for run in server.client.get("/v1/runs").json()["runs"]]
    methods = [method["name"] for method in server.client.get("/v1/methods").json()["methods"]]
    schemas = document["components"]["schemas"]
    known = {"corpus": ["films", None], "retriever": ["bm25", None], "graph": [None], "rerank": [None]}
    known |= {"options": [{}, {"k": 2}]}
    schemas["ChatMessage"]["properties"] = {"role": {"enum": ["user"]}, "content": {"enum": ["Who?", "When was it?"]}}
    for name, more in (
        ("AskBody", {"method": methods, "model": ["demo", None]}),
        ("SearchBody", {}),
        ("Choices", {}),
        ("ChatBody", {"model": methods, "response_format": [None]}),
        ("ResponsesBody", {"model": methods, "text": [None]}),
    ):
        for field, values in (known | more).items():
            if field in schemas[name]["properties"]:
                schemas[name]["properties"][field] = {"enum": values}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] in ("run", "a", "b"):
                    parameter["schema"] = {"enum": [*runs, "nosuch"]}
                if parameter["name"] == "name" and path == "/v1/models/{name}":
                    parameter["schema"] = {"enum": [*methods, "nosuch"]}
    return document


def test_a_method_that_an_address_does_not_have_is_told_those_it_has(server: Running) -> None:
    for path, allowed in (("/v1/corpora", "GET, POST"), ("/v1/ask", "POST"), ("/v1/corpora/films", "DELETE")):
        reply = server.client.put(path)
        assert (reply.status_code, reply.headers["allow"]) == (405, allowed)
