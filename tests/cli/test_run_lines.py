"""What `hoptree run` says on the way where there is no terminal to draw on: in a log, a pipe, a job of a cluster."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hoptree.cli import progress
from hoptree.cli.main import app


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [{"id": f"q{n}", "question": f"What is number {n}?", "answers": ["x y"]} for n in range(6)]
    Path("data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    replies = [{"reply": "x y", "regex": "number [^3]"}]  # question 3 fails
    Path("m.json").write_text(json.dumps({"replies": replies}), encoding="utf-8")
    Path("e.yaml").write_text(
        "data: {d: {questions: data.jsonl}}\nruns: {one: {method: direct}, two: {method: direct, limit: 2}}\n",
        encoding="utf-8",
    )
    return tmp_path


def output_of(*arguments: str) -> tuple[str, list[str]]:
    """What a run printed, and the lines it said beside that."""
    done: Any = CliRunner().invoke(app, ["run", *arguments, "-m", "scripted/m.json", "--out", "out", "--no-cache"])
    assert done.exit_code == 0, done.output
    return done.stdout, done.stderr.splitlines()


def test_each_run_of_a_file_is_told_when_it_is_finished(here: Path) -> None:
    printed, lines = output_of("e.yaml")
    assert len(lines) == 2 and printed.count(" questions, in ") == 2
    assert re.fullmatch(
        r"hoptree: one on d is finished \(1 of 2 runs\): 6 of 6 questions, F1 83\.3, 1 failed", lines[0]
    )
    assert re.fullmatch(r"hoptree: two on d is finished \(2 of 2 runs\): 2 of 2 questions, F1 100\.0", lines[1])


def test_one_run_has_only_its_report(here: Path) -> None:
    assert output_of("--data", "data.jsonl", "--method", "direct")[1] == []


def test_now_and_then_it_is_told_how_far_a_run_is(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LOG_INTERVAL_S", 0.0)
    _, lines = output_of("--data", "data.jsonl", "--method", "direct", "--concurrency", "1", "--name", "mine")
    assert [line.split(",")[0] for line in lines[:3]] == [f"hoptree: mine: {number} of 6" for number in range(3)]
    assert all("questions/s" in line for line in lines) and "F1" in lines[1]


def test_who_wants_json_hears_nothing_else(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LOG_INTERVAL_S", 0.0)
    printed, lines = output_of("e.yaml", "--json")
    assert lines == [] and len(json.loads(printed)) == 2
