"""A run that is refused leaves nothing behind; one that came to anything stays."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.report_runs import right, script

from hoptree.core.errors import InputError, ModelError
from hoptree.evaluation import running
from hoptree.evaluation.experiment import Experiment, describe_run
from hoptree.evaluation.run_folder import RESULTS, RUN, TRACES, Row, RunFolder, read_rows
from hoptree.evaluation.running import RunOptions, run_experiment


@pytest.fixture
def wanted(tmp_path: Path) -> dict[str, Any]:
    """Questions for a method that needs a corpus, without one."""
    rows = [{"id": f"q{n}", "question": f"What is number {n}?", "answers": [f"answer {n}"]} for n in range(3)]
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return {"data": data, "method": "oner", "model": script(tmp_path / "m.json", right(range(3)))}


def run(wanted: dict[str, Any], out: Path, **ways: Any) -> None:
    asyncio.run(run_experiment(Experiment(**wanted), out, RunOptions(**{"cache": None, **ways})))


def test_a_refused_run_leaves_no_folder_and_none_above_it(wanted: dict[str, Any], tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match="no corpus was given"):
        run(wanted, tmp_path / "runs" / "deep" / "oner")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_question_that_is_too_long_is_named_and_the_others_are_asked(wanted: dict[str, Any], tmp_path: Path) -> None:
    row = {"id": "long", "question": "x" * 5_000_000, "answers": ["x"]}
    wanted["data"].write_text(json.dumps(row) + "\n" + wanted["data"].read_text(encoding="utf-8"), encoding="utf-8")
    run({**wanted, "method": "direct"}, tmp_path / "run")
    first, *others = read_rows(tmp_path / "run")
    assert first.error_message.startswith("The question 'long' has 5,000,000 characters; 8,000 are the most.")
    assert [(row.error, row.answer) for row in others] == [("", f"answer {n}") for n in range(3)]


def test_the_folders_that_were_there_stay(wanted: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "runs" / "empty").mkdir(parents=True)
    for name in ("empty", "new"):
        with pytest.raises(InputError):
            run(wanted, tmp_path / "runs" / name)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["empty"]
    assert list((tmp_path / "runs" / "empty").iterdir()) == []


def test_what_is_no_run_is_not_touched(wanted: dict[str, Any], tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / TRACES).write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="something else"):
        run(wanted, other)
    assert (other / TRACES).read_text(encoding="utf-8") == "mine"


def test_a_run_that_was_begun_before_is_not_taken_away(wanted: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "run"
    run({**wanted, "method": "direct", "limit": 1}, out)
    (out / RESULTS).write_text("", encoding="utf-8")
    with pytest.raises(InputError):
        run(wanted, out)
    assert (out / RUN).exists() and (out / TRACES).exists()


def test_a_run_that_may_work_later_stays(
    wanted: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> None:
        raise ModelError("The endpoint failed.", "Try again later.")

    monkeypatch.setattr(running, "_ask_missing", fail)
    with pytest.raises(ModelError):
        run(wanted, tmp_path / "run")
    assert (tmp_path / "run" / RUN).exists()


def test_a_run_with_an_outcome_stays(wanted: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(experiment: Any, data: Any, engine: Any, folder: RunFolder, *_: Any) -> None:
        await folder.add(Row("q0", "What is number 0?", ("answer 0",), "answer 0"))
        raise InputError("The key was taken back.", "Give another.")

    monkeypatch.setattr(running, "_ask_missing", fail)
    with pytest.raises(InputError, match="taken back"):
        run(wanted, tmp_path / "run")
    assert [row.id for row in read_rows(tmp_path / "run")] == ["q0"]


def test_a_password_in_an_address_is_not_written_down(wanted: dict[str, Any], tmp_path: Path) -> None:
    address = "http://ada:hush-hush@127.0.0.1:9/v1"
    asked = {**wanted, "method": "direct", "model": "openai/some", "base_url": address, "judge_base_url": address}
    experiment = Experiment(**asked)
    engine = experiment.open_engine(cache=None, concurrency=None)
    about = describe_run(experiment, experiment.read_data(), engine, {})
    assert "hush" not in json.dumps(about)
    assert about["experiment"]["base_url"] == about["experiment"]["judge_base_url"] == "http://127.0.0.1:9/v1"
    asyncio.run(engine.aclose())
