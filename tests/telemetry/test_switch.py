"""Spans are sent when the environment asks for them, and cost nothing when it does not."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.telemetry.collector import PATIENT, Collector
from tests.timing import TIMEOUT_S

from hoptree.core.errors import ConfigError, MissingExtra
from hoptree.engine.engine import open_telemetry

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

ASK = """
import asyncio, os, sys
from hoptree import Engine
from hoptree.models.scripted import Rule, ScriptedModel
from hoptree.engine.engine import open_telemetry

async def main():
    spans = open_telemetry()
    model = ScriptedModel(rules=[Rule("Ada")])
    async with Engine(method="direct", model=model, cache=None, listeners=[spans] if spans else []) as engine:
        print((await engine.ask("Who?")).answer)
    if spans:
        import hoptree.engine.telemetry
        hoptree.engine.telemetry.FLUSH_TIMEOUT_S = float(os.environ["FLUSH_TIMEOUT_S"])
        await spans.flush()

asyncio.run(main())
print("opentelemetry" in sys.modules)
"""


@pytest.fixture
def collector() -> Iterator[Collector]:
    running = Collector()
    yield running
    running.shutdown()
    running.server_close()


def asked(
    script: str = ASK, /, *, flush_seconds: float = TIMEOUT_S, **environment: str
) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "HOPTREE_OTEL"))}
    clean |= {"NO_PROXY": "127.0.0.1", "FLUSH_TIMEOUT_S": str(flush_seconds)} | environment
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=clean, timeout=TIMEOUT_S, check=False
    )


def test_spans_go_where_the_standard_variables_say(collector: Collector) -> None:
    run = asked(HOPTREE_OTEL="1", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_EXPORTER_OTLP_HEADERS="x-key=abc")
    assert run.stdout.splitlines() == ["Ada", "True"], run.stderr
    (sent,) = collector.received
    (resource,) = collector.resources
    names = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}
    assert (sent.path, sent.headers["x-key"], names["service.name"]) == ("/v1/traces", "abc", "hoptree")
    assert {span.name for span in collector.spans} == {"invoke_agent direct", "chat scripted"}
    assert b"Who?" in sent.body


def test_what_was_said_can_be_left_out(collector: Collector) -> None:
    asked(
        HOPTREE_OTEL="1",
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
        OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="false",
    )
    (sent,) = collector.received
    assert b"invoke_agent" in sent.body and b"Who?" not in sent.body and b"Ada" not in sent.body


def test_nothing_is_loaded_or_sent_unless_it_is_asked_for(collector: Collector) -> None:
    run = asked(OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
    assert run.stdout.splitlines() == ["Ada", "False"], run.stderr
    assert collector.received == []


@pytest.fixture(params=["refuses", "never replies"])
def dead(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a backend that takes no spans."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        if request.param == "refuses":
            listening.close()
        yield f"http://127.0.0.1:{port}"


def test_a_backend_that_takes_no_spans_costs_no_answer_and_two_seconds(dead: str) -> None:
    """Without a bound of ours it would be tried for an hour, which is longer than the process may take."""
    hour = {"OTEL_EXPORTER_OTLP_TIMEOUT": "3600"}
    run = asked(flush_seconds=2.0, HOPTREE_OTEL="1", OTEL_EXPORTER_OTLP_ENDPOINT=dead, **hour)
    assert run.stdout.startswith("Ada\n") and run.returncode == 0
    (line,) = run.stderr.splitlines()
    assert "spans were lost" in line and dead in line
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in line and "HOPTREE_OTEL" in line


def test_what_is_left_at_the_end_is_sent_then(collector: Collector) -> None:
    """A server closes no engine: what its last question did is sent when the process ends."""
    flush = ASK[ASK.index("    if spans:\n") : ASK.index("\nasyncio.run")]
    left = ASK.replace(flush, "")
    left = left.replace("async with Engine(", "engine = Engine(").replace(" as engine:", "\n    if engine:")
    assert "with" not in left and "flush" not in left
    run = asked(PATIENT + left, HOPTREE_OTEL="1", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
    assert run.stdout.splitlines() == ["Ada", "True"], run.stderr
    assert {span.name for span in collector.spans} == {"invoke_agent direct", "chat scripted"}


@pytest.mark.parametrize("value", ["", "0", "off"])
def test_the_switch_is_off_without_a_word(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPTREE_OTEL", value)
    assert open_telemetry() is None


def test_another_word_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPTREE_OTEL", "maybe")
    with pytest.raises(ConfigError, match="HOPTREE_OTEL=1"):
        open_telemetry()


def test_the_extra_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPTREE_OTEL", "1")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(MissingExtra, match=r"pip install 'hoptree\[otel\]'"):
        open_telemetry()
