"""The OpenAPI document: whatever fits it, or nearly does, is answered without a failure of the server's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from tests.server.running import Running, limits, running, settings


def test_the_document_names_every_address(server: Running) -> None:
    reply = server.client.get("/openapi.json")
    assert reply.json()["openapi"].startswith("3.")
    assert set(reply.json()["paths"]) == {
        "/health",
        "/metrics",
        "/v1/ask",
        "/v1/chat/completions",
        "/v1/compare",
        "/v1/corpora",
        "/v1/corpora/{name}",
        "/v1/corpora/{name}/documents",
        "/v1/corpora/{name}/documents/{document}",
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


def test_no_request_makes_the_server_fail(tmp_path: Path) -> None:
    schemathesis: Any = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, Phase, given
    from hypothesis import settings as bounds

    tried: list[tuple[str, int]] = []
    wanted = settings(tmp_path, corpora_folder=tmp_path / "own", limits=limits(calls=3, corpora=3))
    with running(wanted) as server:
        schema = schemathesis.openapi.from_dict(server.client.get("/openapi.json").json())
        schema.config.base_url = server.url
        for operation in schema.get_all_operations():
            found = operation.ok()

            @bounds(
                max_examples=15,
                deadline=None,
                derandomize=True,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=found.as_strategy())
            def try_it(case: Any) -> None:
                reply = case.call(base_url=server.url)
                tried.append((case.path, reply.status_code))
                assert reply.status_code < 500, reply.text

            try_it()
        assert server.ask().status_code == 200
    assert len({path for path, _ in tried}) == 18
    assert any(status == 200 for _, status in tried)
