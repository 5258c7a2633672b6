"""Runs: every question once, on disk when it is done, refused when what they rest on changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hoptree.errors import ConfigError, InputError
from hoptree.evaluation.experiment import Experiment
from hoptree.evaluation.run_folder import METRICS, RESULTS, RUN, TRACES, read_rows, read_run, trace_of
from hoptree.evaluation.running import Progress, Ways, run_experiment
from hoptree.runtime.context import Prices


def questions(path: Path, count: int = 6) -> Path:
    rows = [
        {
            "id": f"q{n}",
            "question": f"What is number {n}?",
            "answers": [f"answer {n}"],
            "type": ["even", "odd"][n % 2],
        }
        for n in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def script(path: Path, replies: Iterable[dict[str, Any]]) -> str:
    path.write_text(json.dumps({"replies": list(replies)}), encoding="utf-8")
    return f"scripted/{path}"


def right(numbers: Iterable[int]) -> list[dict[str, Any]]:
    return [{"contains": f"number {n}?", "reply": f"answer {n}"} for n in numbers]


def experiment(folder: Path, model: str, **more: Any) -> Experiment:
    return Experiment(questions(folder / "data.jsonl"), method="direct", model=model, **more)


def run(wanted: Experiment, out: Path, **more: Any) -> dict[str, Any]:
    hear = more.pop("on_progress", lambda progress: None)
    return asyncio.run(run_experiment(wanted, out, Ways(cache=None, **more), on_progress=hear))


def test_a_run_keeps_answers_scores_traces_and_what_they_rest_on(tmp_path: Path) -> None:
    model = script(tmp_path / "m.json", [*right(range(4)), {"reply": "nonsense"}])
    summary = run(experiment(tmp_path, model), tmp_path / "run")
    assert (summary["questions"], summary["finished"], summary["failed"]) == (6, 6, 0)
    assert summary["metrics"]["em"]["mean"] == pytest.approx(4 / 6) and summary["metrics"]["em"]["questions"] == 6
    assert summary["by_type"]["even"]["metrics"]["em"]["mean"] == pytest.approx(2 / 3)
    assert json.loads((tmp_path / "run" / METRICS).read_text())["metrics"] == summary["metrics"]
    rows = read_rows(tmp_path / "run")
    assert [row.id for row in rows] == [f"q{n}" for n in range(6)], "in the order of the data"
    assert [row.scores["em"] for row in rows] == [1, 1, 1, 1, 0, 0]
    assert all(row.usage["llm_calls"] == 1 for row in rows)
    events = trace_of(tmp_path / "run", rows[2])
    assert events[0]["question_id"] == "q2" and events[-1]["answer"] == "answer 2"
    kept = read_run(tmp_path / "run")
    assert kept["questions"] == [f"q{n}" for n in range(6)] and kept["rests_on"]["prompts"]


def test_the_same_command_asks_nothing_twice(tmp_path: Path) -> None:
    model = script(tmp_path / "m.json", right(range(6)))
    first = run(experiment(tmp_path, model), tmp_path / "run", only=2)
    assert first["finished"] == 2
    before = (tmp_path / "run" / RESULTS).read_bytes()
    asked: list[int] = []
    second = run(experiment(tmp_path, model), tmp_path / "run", on_progress=lambda now: asked.append(now.asked))
    assert second["finished"] == 6 and asked[-1] == 4
    assert (tmp_path / "run" / RESULTS).read_bytes().startswith(before)
    third = run(experiment(tmp_path, model), tmp_path / "run")
    assert third["metrics"] == second["metrics"] and len(read_rows(tmp_path / "run")) == 6


def test_a_failed_question_is_a_row_counts_as_wrong_and_can_be_asked_again(tmp_path: Path) -> None:
    broken = [{"contains": "number 3?", "fault": "401"}]
    model = script(tmp_path / "m.json", [*broken, *right(range(6))])
    summary = run(experiment(tmp_path, model), tmp_path / "run")
    assert summary["errors"] == {"EndpointError": 1} and summary["metrics"]["em"]["mean"] == pytest.approx(5 / 6)
    failed = read_rows(tmp_path / "run")[3]
    assert (failed.error, failed.answer, failed.scores["f1"]) == ("EndpointError", "", 0.0) and failed.error_message
    model = script(tmp_path / "m.json", right(range(6)))
    with pytest.raises(InputError, match="rests on something else: model"):
        run(experiment(tmp_path, model), tmp_path / "run", retry_failed=True)
    mended = run(experiment(tmp_path, model), tmp_path / "run", retry_failed=True, anyway=True)
    assert mended["failed"] == 0 and mended["metrics"]["em"]["mean"] == 1.0
    assert read_run(tmp_path / "run")["changes"], "the change is on record"


def test_what_must_be_changed_first_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        run(experiment(tmp_path, "nonsense/x"), tmp_path / "run")
    wanted = Experiment(tmp_path / "data.jsonl", method="oner", model=script(tmp_path / "m.json", right([1])))
    with pytest.raises(InputError, match="no corpus"):
        run(wanted, tmp_path / "run")
    assert not (tmp_path / "run" / RESULTS).exists() or not read_rows(tmp_path / "run")


@pytest.mark.parametrize("what", ["data", "limit", "options"])
def test_a_changed_question_file_or_option_is_noticed(tmp_path: Path, what: str) -> None:
    model = script(tmp_path / "m.json", right(range(9)))
    wanted = experiment(tmp_path, model)
    run(wanted, tmp_path / "run")
    if what == "data":
        text = wanted.data.read_text(encoding="utf-8").replace("answer 5", "answer five")
        wanted.data.write_text(text, encoding="utf-8")
        changed = Experiment(wanted.data, method="direct", model=model)
    elif what == "limit":
        changed = experiment(tmp_path, model, limit=3)
    else:
        changed = Experiment(wanted.data, method="taikc", model=model, options={"source": "internal"})
    with pytest.raises(InputError, match="rests on something else"):
        run(changed, tmp_path / "run")


@pytest.mark.parametrize("cut", [1, 7])
def test_a_line_cut_off_by_a_kill_is_asked_again(tmp_path: Path, cut: int) -> None:
    model = script(tmp_path / "m.json", right(range(6)))
    whole = run(experiment(tmp_path, model), tmp_path / "run")
    for name in (RESULTS, TRACES):
        data = (tmp_path / "run" / name).read_bytes()
        (tmp_path / "run" / name).write_bytes(data[:-cut])
    assert len(read_rows(tmp_path / "run")) == (6 if cut == 1 else 5)
    again = run(experiment(tmp_path, model), tmp_path / "run")
    assert again["metrics"] == whole["metrics"] and again["finished"] == 6


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    run(experiment(tmp_path, script(tmp_path / "m.json", right(range(6)))), tmp_path / "run")
    path = tmp_path / "run" / RESULTS
    path.write_bytes(path.read_bytes().replace(b'{"id": "q1"', b'{"id" "q1"', 1))
    with pytest.raises(InputError, match="Line 2 "):
        read_rows(tmp_path / "run")


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="something else"):
        run(experiment(tmp_path, script(tmp_path / "m.json", right(range(6)))), tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["thesis.txt"]


def test_a_limit_of_money_ends_the_run_in_order(tmp_path: Path) -> None:
    model = script(tmp_path / "m.json", right(range(6)))
    wanted = experiment(tmp_path, model, prices=Prices(1e6, 1e6))
    cost = run(wanted, tmp_path / "one", only=1)["usage"]["cost"]["total"]
    assert cost > 0
    cut = run(wanted, tmp_path / "run", max_cost=cost * 1.5)
    assert 0 < cut["finished"] < 6
    assert run(wanted, tmp_path / "run")["finished"] == 6


def test_progress_counts_what_is_there_and_what_is_new(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    def hear(progress: Progress) -> None:
        seen.append((progress.total, len(progress.rows)))

    run(experiment(tmp_path, script(tmp_path / "m.json", right(range(6)))), tmp_path / "run", on_progress=hear)
    assert seen[0] == (6, 0) and seen[-1] == (6, 6)
    assert (tmp_path / "run" / RUN).exists()
