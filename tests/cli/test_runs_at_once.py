"""`hoptree run --at-once`: several runs of a file at the same time."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hoptree.cli.main import app
from hoptree.core.errors import InputError
from hoptree.evaluation import running


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [{"id": f"q{n}", "question": f"What is number {n}?", "answers": ["x y"]} for n in range(6)]
    Path("data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    Path("m.json").write_text(json.dumps({"replies": [{"reply": "x y"}]}), encoding="utf-8")
    Path("e.yaml").write_text(
        "data: {d: {questions: data.jsonl}}\n"
        "runs: {one: {method: direct}, two: {method: direct, limit: 4}, three: {method: direct, limit: 2}}\n",
        encoding="utf-8",
    )
    return tmp_path


def run(*more: str) -> Any:
    command = ["run", "e.yaml", "--model", "scripted/m.json", "--out", "out", "--no-cache", "--json", *more]
    return CliRunner().invoke(app, command)


def test_all_runs_come_out_in_their_order(here: Path) -> None:
    result = run("--at-once", "3")
    assert result.exit_code == 0, result.output
    assert [summary["finished"] for summary in json.loads(result.output)] == [6, 4, 2]


def test_as_many_as_told_are_under_way(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now: list[int] = [0]
    most: list[int] = [0]

    async def slowly(*_: Any, **__: Any) -> dict[str, Any]:
        now[0] += 1
        most[0] = max(most[0], now[0])
        await asyncio.sleep(0.01)
        now[0] -= 1
        return {}

    monkeypatch.setattr("hoptree.cli.run.run_experiment", slowly)
    for limit in (1, 2):
        most[0] = 0
        assert run("--at-once", str(limit)).exit_code == 0
        assert most[0] == limit


def test_a_run_that_fails_is_named_and_the_others_keep_what_they_have(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, one_is_done = running.run_experiment, asyncio.Event()

    async def one_fails(wanted: Any, folder: Path, *rest: Any, **more: Any) -> dict[str, Any]:
        if folder.name == "two":
            await one_is_done.wait()
            raise InputError("It broke.", "Mend it.")
        summary = await plain(wanted, folder, *rest, **more)
        if folder.name == "one":
            one_is_done.set()
        return summary

    monkeypatch.setattr("hoptree.cli.run.run_experiment", one_fails)
    result = run("--at-once", "3")
    assert isinstance(result.exception, InputError)
    assert result.exception.cause == "two on d: It broke."
    assert len((here / "out/d/one/results.jsonl").read_text().splitlines()) == 6


def test_a_limit_of_money_is_kept_by_one_run_after_another(here: Path) -> None:
    refused = run("--at-once", "2", "--max-cost", "1", "--prices", "1/1")
    assert isinstance(refused.exception, InputError)
    assert "--at-once" in refused.exception.remedy
