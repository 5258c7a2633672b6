"""Runs by several processes: the same rows as by one, nothing sent twice, and a killed worker takes nothing with it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.endpoint import FILM_STEPS, Endpoint, Seen, film_experiment, number_of, script_films

import hoptree
from hoptree.core.errors import ConfigError, HoptreeError, InternalError
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.experiment import EngineAsker, Experiment
from hoptree.evaluation.run_folder import Row, read_rows, trace_of
from hoptree.evaluation.running import RunOptions, run_experiment
from hoptree.evaluation.shared_replies import SharedReplies
from hoptree.evaluation.workers import Worker, WorkerPool, _Process, in_processes, read_outcome

FILMS = 7


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("PYTHONPATH", str(Path(hoptree.__file__).parent.parent))
    with Endpoint() as running:
        script_films(running, delay=0.02)
        yield running


def run(wanted: Experiment, folder: Path, name: str, **ways: Any) -> dict[str, Any]:
    options = RunOptions(cache=folder / "replies.sqlite", **ways)
    return asyncio.run(run_experiment(wanted, folder / name, options))


def timeless(folder: Path) -> list[Row]:
    """The rows without what differs from run to run: times, what the cache saved, and names in the trace."""
    counted = ("llm_calls", "prompt_tokens", "completion_tokens", "retrievals")
    rows = read_rows(folder)
    return [replace(row, usage={name: row.usage[name] for name in counted}, trace="") for row in rows]


def test_two_processes_give_the_rows_of_one_and_send_no_call_twice(endpoint: Endpoint, tmp_path: Path) -> None:
    wanted = film_experiment(tmp_path, endpoint, FILMS)
    summary = run(wanted, tmp_path, "two", workers=2)
    assert (summary["finished"], summary["failed"], summary["metrics"]["em"]["mean"]) == (2 * FILMS, 0, 1.0)
    sent = Counter(seen.key for seen in endpoint.requests)
    assert len(sent) == FILMS * len(FILM_STEPS) and set(sent.values()) == {1}
    endpoint.requests.clear()
    run(wanted, tmp_path, "one")
    assert not endpoint.requests, "every reply is remembered on this machine"
    assert timeless(tmp_path / "two") == timeless(tmp_path / "one")
    row = read_rows(tmp_path / "two")[3]
    events = trace_of(tmp_path / "two", row)
    assert (events[0].as_dict()["question_id"], events[-1].as_dict()["answer"]) == (row.id, row.answer)


def test_a_worker_that_is_killed_takes_nothing_with_it(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools: list[WorkerPool] = []
    killed: list[int] = []
    start = WorkerPool.start

    async def watched(self: WorkerPool, count: int) -> None:
        pools.append(self)
        await start(self, count)

    def kill(_: Seen) -> None:
        if len(endpoint.requests) in (10, 25):
            killed.append(pools[0].pids[0])
            os.kill(killed[-1], signal.SIGKILL)

    monkeypatch.setattr(WorkerPool, "start", watched)
    endpoint.on_request = kill
    wanted = film_experiment(tmp_path, endpoint, FILMS)
    summary = run(wanted, tmp_path, "run", workers=2, concurrency=8)
    assert len(set(killed)) == 2
    assert (summary["finished"], summary["failed"], summary["metrics"]["em"]["mean"]) == (2 * FILMS, 0, 1.0)
    sent = Counter(seen.key for seen in endpoint.requests)
    assert len(sent) == FILMS * len(FILM_STEPS)
    films = Counter(number_of(seen) for seen in endpoint.requests)
    assert max(films.values()) <= len(FILM_STEPS) + 2, "with each kill a question repeats at most one call"
    endpoint.on_request = lambda _: None
    run(wanted, tmp_path, "again")
    assert timeless(tmp_path / "run") == timeless(tmp_path / "again")


def test_a_question_that_cannot_be_asked_does_not_hold_the_run_up(endpoint: Endpoint, tmp_path: Path) -> None:
    wanted = film_experiment(tmp_path, endpoint, FILMS)
    with Path(wanted.data).open("a", encoding="utf-8") as data:
        data.write(json.dumps({"id": "long", "question": "x" * 9_000, "answers": ["x"]}) + "\n")
    summary = run(wanted, tmp_path, "run", workers=2)
    assert (summary["finished"], summary["failed"], summary["errors"]) == (2 * FILMS + 1, 1, {"InputError": 1})


def test_what_goes_wrong_inside_a_worker_is_the_runs_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(*_: Any) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(EngineAsker, "ask", ask)
    worker = Worker()
    worker._engine = object()  # type: ignore[assignment]
    outcome, trace = asyncio.run(worker.ask({"id": "q", "question": "Q?"}))
    with pytest.raises(HoptreeError, match=r"inside Hoptree .ZeroDivisionError: by zero") as failure:
        read_outcome(outcome)
    assert (trace, failure.value.exit_code) == (b"", 1)


@pytest.mark.usefixtures("endpoint")
def test_what_a_worker_cannot_open_is_the_runs_error() -> None:
    async def start() -> None:
        opening = {"experiment": {"data": "data.jsonl", "method": "taikc", "corpus": "gone.idx", "model": "openai/x"}}
        pool = WorkerPool({**opening, "boundary": False, "concurrency": 1, "cached": False}, None, lambda _: None, 1)
        try:
            await pool.start(1)
        finally:
            await pool.aclose()

    with pytest.raises(HoptreeError, match=r"gone\.idx"):
        asyncio.run(start())


def test_a_model_inside_the_process_is_not_loaded_several_times(endpoint: Endpoint, tmp_path: Path) -> None:
    wanted = film_experiment(tmp_path, endpoint, FILMS)
    engine = wanted.open_engine(cache=None, concurrency=None)
    embedded = replace(wanted, model="local/smollm", base_url="")
    ways: dict[str, Any] = {"cache": None, "concurrency": None, "on_trace": lambda _: None}
    with pytest.raises(ConfigError, match="several times"):
        asyncio.run(in_processes(2, embedded, engine, **ways).__aenter__())


def test_a_worker_whose_run_was_killed_ends_without_a_word() -> None:
    told = "import os; from hoptree.evaluation.shared_replies import WorkerPipe; ends = os.pipe(); os.close(ends[0]); "
    script = told + "WorkerPipe(os.fdopen(ends[1], 'wb')).tell(id=1)"
    environment = {**os.environ, "PYTHONPATH": str(Path(hoptree.__file__).parent.parent)}
    ended = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, b"")


class _Held:
    """A process that has ended, with what it wrote."""

    def __init__(self, written: bytes) -> None:
        self.stdin, self.stdout = self, asyncio.StreamReader()
        self.stdout.feed_data(written)
        self.stdout.feed_eof()

    def is_closing(self) -> bool:
        return True

    def kill(self) -> None:
        raise ProcessLookupError


@pytest.mark.parametrize(
    "message", [b"{garbled}", b'{"id": 1}', b'{"id": 9, "outcome": {}}', b'{"id": 1, "outcome": []}', b"put one f0 {}"]
)
def test_a_message_that_cannot_be_read_ends_the_run(message: bytes) -> None:
    async def ask() -> None:
        pool = WorkerPool({}, None, lambda _: None, 1)
        worker = pool._usable[1] = _Process(1, _Held(message + b"\n"))  # type: ignore[arg-type]
        asking = asyncio.create_task(pool.ask(Example("q", "Q?", ("a",))))
        while not worker.under_way:
            await asyncio.sleep(0)
        await pool._read_messages(worker)
        await asking

    with pytest.raises(InternalError):
        asyncio.run(ask())


def test_a_message_that_a_dying_worker_did_not_finish_is_no_error() -> None:
    async def hear() -> WorkerPool:
        pool = WorkerPool({}, None, lambda _: None, 1)
        await pool._read_messages(_Process(1, _Held(b'{"id": 1, "outc')))  # type: ignore[arg-type]
        return pool

    assert asyncio.run(hear())._failure is None


def test_a_run_that_fails_in_handling_a_message_keeps_what_it_has(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_soon, puts = SharedReplies.put_soon, list[bytes]()

    def put(self: SharedReplies, key: bytes, text: str, worker: int) -> asyncio.Future[None]:
        puts.append(key)
        if len(puts) == 5:
            raise ZeroDivisionError("by zero")
        return put_soon(self, key, text, worker)

    wanted = film_experiment(tmp_path, endpoint, FILMS)
    run(wanted, tmp_path, "run", workers=2, only=3)
    finished = read_rows(tmp_path / "run")
    monkeypatch.setattr(SharedReplies, "put_soon", put)
    with pytest.raises(InternalError, match="by zero"):
        run(wanted, tmp_path, "run", workers=2)
    assert read_rows(tmp_path / "run")[:3] == finished and len(finished) == 3
    summary = run(wanted, tmp_path, "run", workers=2)
    assert (summary["finished"], summary["failed"], summary["metrics"]["em"]["mean"]) == (2 * FILMS, 0, 1.0)
    assert read_rows(tmp_path / "run")[:3] == finished
