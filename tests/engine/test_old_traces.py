"""Traces of the first form, without a format number, are read: results are what was recorded, and nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hoptree.cli.main import app
from hoptree.engine.events import FORMAT, Started
from hoptree.engine.result import read_result
from hoptree.engine.trace import read_traces
from hoptree.methods.hop.method import RankedAnswers

FOLDER = Path(__file__).parent / "old_traces"
EXPECTED = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", EXPECTED)
def test_an_old_trace_gives_the_result_that_it_gave(name: str) -> None:
    (events,) = read_traces(FOLDER / f"{name}.jsonl")
    assert isinstance(events[0], Started) and events[0].format == 1 < FORMAT
    result = json.loads(json.dumps(read_result(events).as_dict()))
    assert {part: result.get(part) for part in EXPECTED[name]} == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_an_old_trace_is_written_as_it_was(name: str) -> None:
    (events,) = read_traces(FOLDER / f"{name}.jsonl")
    lines = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    assert [event.as_dict() for event in events] == [json.loads(line) for line in lines]


def test_a_trace_of_a_move_that_hop_no_longer_makes_is_read_and_shown() -> None:
    path = FOLDER / "hop_replan.jsonl"
    (events,) = read_traces(path)
    assert [event.after for event in events if isinstance(event, RankedAnswers)] == ["read", "split", "replan"]
    assert [event.as_dict() for event in events] == [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    result = read_result(events)
    assert result.answer == "Providence" and result.why.startswith("chosen over Boston, Chicago: ")
    shown = CliRunner().invoke(app, ["show", str(path)])
    assert shown.exit_code == 0 and "└── 202. In which town was Damien Chazelle born?" in shown.stdout
