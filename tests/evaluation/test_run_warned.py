"""What the questions of a run warned of: counted by kind where the run is summed up, and in a report."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.evaluation.report_runs import cells, data, right, run, script, table
from typer.testing import CliRunner

from hoptree.cli.main import app
from hoptree.core.values import Passage
from hoptree.engine.context import Budget
from hoptree.evaluation.experiment import Experiment
from hoptree.evaluation.report.contents import tables_of
from hoptree.evaluation.report.measures import read_groups
from hoptree.evaluation.run_folder import TRACES
from hoptree.evaluation.running import RunOptions, run_experiment
from hoptree.retrieval.indexing import index_passages

TITLE = "numbers: questions with a warning"


def test_a_method_without_what_it_goes_by_says_so_of_the_whole_run(tmp_path: Path) -> None:
    index_passages([Passage("a", "Numbers", "Answer 1 is a number.")], tmp_path / "idx")
    more = ["--corpus", str(tmp_path / "idx"), "--method", "hipporag", "--out", str(tmp_path / "out"), "--no-cache"]
    model = script(tmp_path / "m.json", right(range(8)))
    done = CliRunner().invoke(app, ["run", "--data", str(data(tmp_path)), "-m", model, *more])
    (line,) = [line for line in done.stdout.splitlines() if "no_facts" in line]
    assert line.startswith("  8 of 8 with a warning (no_facts): hipporag goes out from facts")


def test_questions_are_counted_once_a_kind_and_with_what_most_of_them_say(tmp_path: Path) -> None:
    folder = run(tmp_path, "cut", right(range(8)))
    first, *_ = events = [json.loads(line) for line in (folder / TRACES).read_text().splitlines()]
    runs = list(dict.fromkeys(event["run"] for event in events))
    warned = [(runs[0], "one"), (runs[0], "two"), (runs[1], "three"), (runs[2], "three"), ("given up", "three")]
    lines = [{**first, "run": name, "event": "warning", "kind": "odd", "message": said} for name, said in warned]
    with (folder / TRACES).open("a") as traces:
        traces.writelines(json.dumps(line) + "\n" for line in lines)
    wanted = Experiment(data(tmp_path), model=script(tmp_path / "model.json", right(range(8))), method="direct")
    summary = asyncio.run(run_experiment(wanted, folder, RunOptions(cache=None, anyway=True)))
    assert summary["warned"] == {"odd": {"questions": 3, "message": "three"}}
    shown = cells(table(tables_of(read_groups([folder])), TITLE), "cut")
    assert shown["odd"].value == 3


def test_what_a_budget_ended_is_told_elsewhere_and_a_run_without_warnings_has_no_table(tmp_path: Path) -> None:
    folder = run(tmp_path, "stopped", right(range(8)), budget=Budget(tokens=1), method="cot")
    events = [json.loads(line) for line in (folder / TRACES).read_text().splitlines()]
    assert {event["kind"] for event in events if event["event"] == "warning"} == {"stopped"}
    assert TITLE not in [one.title for one in tables_of(read_groups([folder]))]
    assert json.loads((folder / "metrics.json").read_text())["warned"] == {}
