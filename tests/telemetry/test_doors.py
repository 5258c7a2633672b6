"""Whatever door a question comes through, its spans are sent where the environment says, and only then."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.telemetry.collector import PATIENT, Collector
from tests.timing import TIMEOUT_S

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

LOADED = "import sys; from hoptree.__main__ import main\ntry: main()\nfinally: print('opentelemetry' in sys.modules)"


@pytest.fixture
def collector() -> Iterator[Collector]:
    running = Collector()
    yield running
    running.shutdown()
    running.server_close()


def ran(folder: Path, collector: Collector, *arguments: str, wanted: bool = True) -> str:
    (folder / "script.json").write_text(json.dumps({"replies": [{"reply": "Ada"}]}))
    environment = {name: value for name, value in os.environ.items() if name != "HOPTREE_OTEL"}
    environment |= {"NO_PROXY": "127.0.0.1", "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
    environment |= {"HOPTREE_OTEL": "1"} if wanted else {}
    command = [
        sys.executable,
        "-c",
        PATIENT * wanted + LOADED,
        *arguments,
        "--method",
        "direct",
        "--model",
        "scripted/script.json",
    ]
    run = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    )
    return run.stdout


def test_ask_sends_spans(collector: Collector, tmp_path: Path) -> None:
    assert ran(tmp_path, collector, "ask", "Who?", "--json", "--no-cache").endswith("True\n")
    assert {span.name for span in collector.spans} == {"invoke_agent direct", "chat script.json"}


def test_run_sends_the_spans_of_every_question(collector: Collector, tmp_path: Path) -> None:
    rows = [{"id": str(number), "question": f"Who is {number}?", "answer": "Ada"} for number in range(5)]
    (tmp_path / "q.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    ran(tmp_path, collector, "run", "--data", "q.jsonl", "--out", "run")
    assert len([span for span in collector.spans if span.name == "invoke_agent direct"]) == len(rows)


def test_without_the_switch_nothing_is_loaded(collector: Collector, tmp_path: Path) -> None:
    assert ran(tmp_path, collector, "ask", "Who?", "--json", "--no-cache", wanted=False).endswith("False\n")
    assert collector.received == []
