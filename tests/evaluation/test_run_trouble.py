"""Runs in trouble: changed under way, shut out, without traces, cut off while the first file was written."""

from __future__ import annotations

import asyncio
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.endpoint import Endpoint, refused, said
from tests.evaluation.report_runs import cells, right, script, table

from hoptree.core.errors import EndpointError, HoptreeError, InputError, TraceError
from hoptree.core.files import JsonlLog, read_lines
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.experiment import Asked, BoundaryExperiment, Experiment
from hoptree.evaluation.report.contents import tables_of
from hoptree.evaluation.report.measures import read_groups
from hoptree.evaluation.run_folder import METRICS, RESULTS, RUN, TRACES, Row, RunFolder, read_rows, read_run
from hoptree.evaluation.running import Progress, RunOptions, _ask_all, run_experiment
from hoptree.evaluation.workers import read_error, write_error


def questions(folder: Path, count: int = 10) -> Path:
    rows = [{"id": f"q{n}", "question": f"What is number {n}?", "answers": [f"answer {n}"]} for n in range(count)]
    path = folder / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def run(wanted: Experiment, out: Path, asked: list[int] | None = None, **ways: Any) -> dict[str, Any]:
    def hear(progress: Progress) -> None:
        if asked is not None:
            asked[:] = [progress.asked]

    return asyncio.run(run_experiment(wanted, out, RunOptions(**{"cache": None, **ways}), on_progress=hear))


def test_more_questions_anyway_are_asked_once(tmp_path: Path) -> None:
    model = script(tmp_path / "m.json", right(range(10)))
    few = Experiment(questions(tmp_path), method="direct", model=model, limit=3, name="few")
    run(few, tmp_path / "run")
    old = read_run(tmp_path / "run")
    more = Experiment(few.data, method="direct", model=model, limit=6, name="more")
    counts = []
    for _ in range(3):
        asked: list[int] = []
        summary = run(more, tmp_path / "run", asked, anyway=True)
        counts.append(asked[0])
        assert (summary["questions"], summary["finished"], summary["name"]) == (6, 6, "more")
    assert counts == [3, 0, 0] and len((tmp_path / "run" / RESULTS).read_text().splitlines()) == 6
    new = read_run(tmp_path / "run")
    assert new["id"] != old["id"] and new["experiment"]["limit"] == 6 and len(new["questions"]) == 6
    (change,) = new["changes"]
    assert all(change[name] == old[name] for name in ("id", "name", "experiment", "rests_on", "questions"))


def test_rows_that_rest_on_different_things_are_told_apart(tmp_path: Path) -> None:
    data = questions(tmp_path)
    wrong = script(tmp_path / "wrong.json", [{"reply": "nonsense"}])
    good = script(tmp_path / "right.json", right(range(10)))
    first = run(Experiment(data, method="direct", model=wrong), tmp_path / "run", only=4)
    assert first["rests_on"] == {first["run"]: 4}
    second = run(Experiment(data, method="direct", model=good, name="mixed"), tmp_path / "run", anyway=True)
    assert second["run"] != first["run"] and second["rests_on"] == {first["run"]: 4, second["run"]: 6}
    assert {row.rests_on for row in read_rows(tmp_path / "run")} == {first["run"], second["run"]}
    shown = cells(table(tables_of(read_groups([tmp_path / "run"])), "Runs, and what they rest on"), "mixed")
    assert shown["Changed under way"] == f"4 rest on {first['run']}, 6 on {second['run']}"


@pytest.mark.parametrize("changed", [False, True])
def test_rows_that_do_not_say_what_they_rest_on(tmp_path: Path, changed: bool) -> None:
    model = script(tmp_path / "m.json", right(range(10)))
    about = run(Experiment(questions(tmp_path), method="direct", model=model), tmp_path / "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / RESULTS).read_text().splitlines()]
    for row in rows[:3]:
        del row["rests_on"], row["sum"]
    (tmp_path / "run" / RESULTS).write_text("".join(json.dumps(row) + "\n" for row in rows))
    if changed:
        said_so = read_run(tmp_path / "run") | {"changes": [{"model": "other"}]}
        (tmp_path / "run" / RUN).write_text(json.dumps(said_so))
    again = run(Experiment(tmp_path / "data.jsonl", method="direct", model=model), tmp_path / "run")
    assert again["rests_on"] == ({"unknown": 3, about["run"]: 7} if changed else {about["run"]: 10})


def test_a_key_that_expires_ends_the_run_and_keeps_what_is_done(tmp_path: Path) -> None:
    with Endpoint() as endpoint:
        endpoint.on("", lambda seen: said(f"answer {seen.text.rpartition('number ')[2].partition('?')[0]}"))
        wanted = Experiment(questions(tmp_path, 60), method="direct", model="openai/m", base_url=endpoint.url)
        run(wanted, tmp_path / "run", only=5)
        endpoint.on("", refused(401, "bad key"))
        with pytest.raises(EndpointError, match="refused the key"):
            run(wanted, tmp_path / "run", concurrency=1)
        assert len(endpoint.requests) < 20
        assert len(read_rows(tmp_path / "run")) == 5, "those that were refused are asked again by the next command"
        endpoint.on("", lambda seen: said(f"answer {seen.text.rpartition('number ')[2].partition('?')[0]}"))
        summary = run(wanted, tmp_path / "run")
    assert (summary["finished"], summary["failed"], summary["metrics"]["em"]["mean"]) == (60, 0, 1.0)


def test_questions_that_are_too_long_do_not_end_a_run_that_has_answers(tmp_path: Path) -> None:
    with Endpoint() as endpoint:
        endpoint.on("", refused(400, "the context is too long"))
        endpoint.on("", "answer 0", contains="number 0?")
        wanted = Experiment(questions(tmp_path, 30), method="direct", model="openai/m", base_url=endpoint.url)
        run(wanted, tmp_path / "run", only=1)
        summary = run(wanted, tmp_path / "run")
    assert (summary["finished"], summary["failed"]) == (30, 29)


def test_the_last_few_that_were_shut_out_are_failed_rows(tmp_path: Path) -> None:
    with Endpoint() as endpoint:
        endpoint.on("", lambda seen: said(f"answer {seen.text.rpartition('number ')[2].partition('?')[0]}"))
        wanted = Experiment(questions(tmp_path), method="direct", model="openai/m", base_url=endpoint.url)
        run(wanted, tmp_path / "run", only=7)
        endpoint.on("", refused(403, "not for you"))
        summary = run(wanted, tmp_path / "run")
    assert (summary["finished"], summary["failed"]) == (10, 3)


def test_being_shut_out_is_told_by_workers_too() -> None:
    for error in (EndpointError("No.", "Set a key.", status=403, exit_code=2), InputError("No.", "Mend it.")):
        heard = read_error(write_error(error))
        assert (str(heard), heard.exit_code, type(heard) is EndpointError) == (
            str(error),
            2,
            type(error) is EndpointError,
        )
        assert getattr(heard, "status", None) == getattr(error, "status", None)


def test_an_answer_counts_before_it_is_on_disk(tmp_path: Path) -> None:
    """A slow disk must not make a run look as if no question had come out."""

    class SlowFolder(RunFolder):
        async def add(self, row: Row) -> None:
            await asyncio.sleep(0.05)
            kept.append(row.id)

    class Two:
        at_once = 2

        async def ask(self, example: Example) -> Asked:
            if example.id == "good":
                return Asked(Row(example.id, "q", ("a",), "a"))
            await asyncio.sleep(0.01)
            return Asked(Row(example.id, "q", ("a",), ""), InputError("The context is too long."))

    kept: list[str] = []
    examples = [Example(name, "q", ("a",)) for name in ("good", "bad")]
    asyncio.run(_ask_all(Two(), examples, SlowFolder(tmp_path), Progress(2, []), None, lambda progress: None))
    assert sorted(kept) == ["bad", "good"]


def full(event: object) -> str:
    raise OSError(28, "No space left on device")


def fill_disk_for_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def write(self, data: object) -> int:
            return len(full(data))

    open_path = Path.open

    def open_file(path: Path, mode: str = "r", *rest: Any, **how: Any) -> Any:
        return Full() if (path.name, mode) == (TRACES, "ab") else open_path(path, mode, *rest, **how)

    monkeypatch.setattr(Path, "open", open_file)


def test_a_trace_that_was_lost_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = Experiment(questions(tmp_path), method="direct", model=script(tmp_path / "m.json", right(range(10))))
    assert run(wanted, tmp_path / "run", only=2)["warnings"] == []
    fill_disk_for_traces(monkeypatch)
    summary = run(wanted, tmp_path / "run")
    assert summary["finished"] == 10
    (warning,) = summary["warnings"]
    assert "could not be written further: No space left" in warning
    assert json.loads((tmp_path / "run" / METRICS).read_text())["warnings"] == [warning]


def test_a_boundary_run_without_its_trace_is_an_error_and_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = BoundaryExperiment(questions(tmp_path), model=script(tmp_path / "m.json", [{"reply": "x"}]))
    run(wanted, tmp_path / "run", only=2)
    with monkeypatch.context() as disk:
        fill_disk_for_traces(disk)
        with pytest.raises(TraceError, match="No space left"):
            run(wanted, tmp_path / "run")
    assert len(read_rows(tmp_path / "run")) == 2, "an outcome without its trace is none"
    assert run(wanted, tmp_path / "run")["finished"] == 10


def test_a_kill_while_the_first_file_is_written_does_not_close_the_folder(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json.new").write_text("{")
    wanted = Experiment(questions(tmp_path), method="direct", model=script(tmp_path / "m.json", right(range(10))))
    assert run(wanted, tmp_path / "run")["finished"] == 10
    assert not (tmp_path / "run" / "run.json.new").exists()


def test_a_disk_that_takes_half_a_line_gets_the_other_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, bytes(data)[:10]))

    async def add() -> None:
        file = JsonlLog(tmp_path / "x.jsonl")
        for number in range(4):
            await file.add({"id": number, "text": "hello"})
        file.close()

    asyncio.run(add())
    assert [value["id"] for _, value in read_lines(tmp_path / "x.jsonl")] == [0, 1, 2, 3]


def test_a_full_disk_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = Experiment(questions(tmp_path), method="direct", model=script(tmp_path / "m.json", right(range(10))))
    monkeypatch.setattr(os, "write", lambda file, data: full(data))
    with pytest.raises(HoptreeError, match="could not be written: No space left") as caught:
        run(wanted, tmp_path / "run")
    assert caught.value.exit_code == 1
