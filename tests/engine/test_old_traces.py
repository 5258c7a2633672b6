"""Traces of the first form, without a format number, are read: results are what was recorded, and nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hoptree.engine.events import FORMAT, Started
from hoptree.engine.result import read_result
from hoptree.engine.trace import read_traces

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
