"""Spans of a question that came over the Model Context Protocol hang below that of the call."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest
from tests.mcp.served import QUESTION, answering, command, http, new_interpreter
from tests.telemetry.collector import PATIENT, Collector

pytest.importorskip("mcp_types")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

from mcp import Client


def test_a_question_is_a_part_of_its_call(tmp_path: Path) -> None:
    collector = Collector()
    wanted = {"HOPTREE_OTEL": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}

    async def ask() -> None:
        server = http(command(tmp_path, answering()), environment=wanted, start=partial(new_interpreter, first=PATIENT))
        async with server as (url, _), Client(url) as client:
            await client.call_tool("ask", {"question": QUESTION})

    try:
        asyncio.run(ask())
    finally:
        collector.shutdown()
        collector.server_close()
    by_id = {span.span_id: span for span in collector.spans}
    (question,) = [span for span in by_id.values() if span.name == "invoke_agent taikc"]
    assert by_id[question.parent_span_id].name == "tools/call ask"
    assert len([span for span in by_id.values() if span.name.startswith("sub-question")]) == 2
