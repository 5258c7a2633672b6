"""Worker processes that answer the questions of a run on this machine.

Only the main process writes the run's folder and the call cache. Workers send it outcomes, lines of the trace and
replies, and ask it before they send a request. If a worker dies, another one asks its questions again and finds the
finished calls in the cache.

Messages are lines over the worker's standard input and output. Most are JSON; an outcome says how many bytes of trace
follow it. Messages about the cache, two a request, are words with the reply's JSON at their end, for speed: all of one
turn of the event loop share a write.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from hoptree.core.errors import CacheError, ConfigError, EndpointError, HoptreeError, InternalError
from hoptree.engine.cache import default_cache_path
from hoptree.engine.engine import Engine
from hoptree.engine.events import Event
from hoptree.engine.schedule import rare_collections
from hoptree.engine.trace import trace_line
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.experiment import (
    Asked,
    BoundaryExperiment,
    EngineAsker,
    Experiment,
    at_once,
    experiment_of,
    failed_row,
)
from hoptree.evaluation.run_folder import Row
from hoptree.evaluation.shared_replies import SharedReplies, WorkerPipe

T = TypeVar("T")
Message = dict[str, Any]

MAX_ATTEMPTS = 5
"""Crashes of workers over one question until it counts as failed: the question may be what kills them."""
_MAX_LINE_BYTES = 2**30


class Worker:
    """An engine in a process of its own, for concurrent questions."""

    def __init__(self) -> None:
        self._lines: dict[str, list[bytes]] = {}
        self._engine: Engine | None = None

    def open(self, experiment: Experiment, concurrency: int, cache: Any) -> Message:
        """Open the engine once; return its model and corpus, or the error."""
        try:
            if self._engine is None:
                self._engine = experiment.open_engine(listeners=(self._on_event,), cache=cache, concurrency=concurrency)
        except HoptreeError as error:
            return {"failure": write_error(error)}
        corpus = self._engine.retriever.identity if self._engine.retriever else None
        return {"pid": os.getpid(), "model": self._engine.models_identity, "corpus": corpus}

    def _on_event(self, event: Event) -> None:
        self._lines.setdefault(event.run, []).append(trace_line(event))

    async def ask(self, question: Message) -> tuple[Message, bytes]:
        """Return the outcome of a question and its trace, as in a run's folder."""
        assert self._engine is not None
        try:
            asked = await EngineAsker(self._engine).ask(_example(question))
        except Exception as error:  # the main process waits for an outcome
            return {"failure": write_error(error if isinstance(error, HoptreeError) else InternalError(error))}, b""
        stops_run = write_error(asked.stops_run) if asked.stops_run else None
        return {"row": asked.row.as_dict(), "stops_run": stops_run}, b"".join(self._lines.pop(asked.row.trace, ()))


def read_outcome(outcome: Message) -> Asked:
    if failure := outcome.get("failure"):
        raise read_error(failure)
    return Asked(Row.read(outcome["row"]), read_error(outcome["stops_run"]) if outcome["stops_run"] else None)


def _example(data: Message) -> Example:
    def frozen(value: Any) -> Any:
        return tuple(frozen(item) for item in value) if isinstance(value, list) else value

    return Example(**{name: frozen(value) for name, value in data.items()})


def write_error(error: HoptreeError) -> Message:
    status = error.status if isinstance(error, EndpointError) else None
    return {"cause": error.cause, "remedy": error.remedy, "exit_code": error.exit_code, "status": status}


def read_error(data: Message) -> HoptreeError:
    error = HoptreeError(data["cause"], data["remedy"])
    if data["status"] is not None:
        error = EndpointError(data["cause"], data["remedy"], status=data["status"])
    error.exit_code = data["exit_code"]
    return error


class WorkerLost(HoptreeError):
    """All workers that could answer have died."""


@dataclass(slots=True)
class _Process:
    """A worker process, its questions in progress, and messages not sent yet."""

    number: int
    process: asyncio.subprocess.Process
    under_way: dict[int, asyncio.Future[Message | None]] = field(default_factory=dict)
    cache_tasks: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    reader: asyncio.Task[None] | None = None
    unsent: list[bytes] = field(default_factory=list)

    def tell(self, **message: Any) -> None:
        self._send(json.dumps(message).encode())

    def tell_reply(self, number: int, text: str | None) -> None:
        """Answer a message about the cache with the text under its key.

        Only a damaged text contains a line end.
        """
        held = b"" if text is None else b" " + text.encode("utf-8", "surrogatepass").replace(b"\n", b" ")
        self._send(b"%d" % number + held)

    def _send(self, line: bytes) -> None:
        if not self.unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self.unsent += (line, b"\n")

    def _flush(self) -> None:
        lines, self.unsent = self.unsent, []
        assert self.process.stdin is not None
        if not self.process.stdin.is_closing():
            self.process.stdin.write(b"".join(lines))


class WorkerPool:
    """Gives each question to the least busy worker, and replaces dead workers."""

    def __init__(
        self, opening: Message, shared: SharedReplies | None, on_trace: Callable[[bytes], None], at_once: int
    ) -> None:
        self.at_once = at_once
        self._opening = opening
        self._shared = shared
        self._on_trace = on_trace
        self._started: list[_Process] = []
        self._usable: dict[int, _Process] = {}
        self._changed = asyncio.Event()
        self._failure: HoptreeError | None = None
        self._numbers = 0

    @property
    def pids(self) -> list[int]:
        """The ids of the worker processes."""
        return [worker.process.pid for worker in self._usable.values()]

    async def start(self, count: int) -> None:
        """Start `count` workers, and wait until each has opened its engine."""
        await asyncio.gather(*(self._add() for _ in range(count)))

    async def ask(self, example: Example) -> Asked:
        question = asdict(example)
        for _ in range(MAX_ATTEMPTS):
            worker = await self._least_busy()
            if (outcome := await self._send(worker, ask=question)) is not None:
                self._on_trace(outcome["trace"])
                return read_outcome(outcome)
        lost = WorkerLost(f"{MAX_ATTEMPTS} workers died over this question.", "Ask it alone to see why: hoptree ask.")
        return Asked(failed_row(example, lost, searchable=bool(self._opening["experiment"]["corpus"])))

    async def _least_busy(self) -> _Process:
        while not self._usable:
            if self._failure is not None:
                raise self._failure
            self._changed.clear()
            await self._changed.wait()
        return min(self._usable.values(), key=lambda worker: len(worker.under_way))

    async def _send(self, worker: _Process, **message: Any) -> Message | None:
        """Send a message; return the worker's outcome, or None if the worker dies."""
        self._numbers += 1
        outcome: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()
        worker.under_way[self._numbers] = outcome
        worker.tell(id=self._numbers, **message)
        return await outcome

    async def _add(self) -> None:
        self._numbers += 1
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hoptree.evaluation.workers"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_MAX_LINE_BYTES,
        )
        worker = _Process(self._numbers, process)
        self._started.append(worker)
        worker.reader = asyncio.create_task(self._read_messages(worker))
        opened = await self._send(worker, open=self._opening)
        if opened is None:
            raise self._failure or WorkerLost(
                "A worker died before it could answer.", "Leave out --workers to see why."
            )
        if failure := opened.get("failure"):
            raise read_error(failure)
        self._usable[worker.number] = worker
        self._changed.set()

    async def _read_messages(self, worker: _Process) -> None:
        """Handle a worker's messages, and replace the worker when it ends.

        An error in handling a message ends the run.
        """
        try:
            await self._handle_messages(worker)
        except Exception as error:
            self._usable.clear()
            self._fail(error)
            with contextlib.suppress(ProcessLookupError):
                worker.process.kill()
        for cache_task in [*worker.cache_tasks.values()]:
            cache_task.cancel()
        if self._shared is not None:
            await self._shared.lost(worker.number)
        if self._usable.pop(worker.number, None):
            try:
                await self._add()
            except Exception as error:
                self._fail(error)
        for outcome in worker.under_way.values():
            _end(outcome, None)

    def _fail(self, error: Exception) -> None:
        """Make `ask` raise the error once no worker is left."""
        self._failure = error if isinstance(error, HoptreeError) else InternalError(error)
        self._changed.set()

    async def _handle_messages(self, worker: _Process) -> None:
        assert worker.process.stdout is not None
        async for line in worker.process.stdout:
            if line[-1:] != b"\n":  # the worker died while writing
                return
            if not line.startswith(b"{"):
                self._serve(worker, line)
                continue
            message = json.loads(line)
            trace = await _read_trace(worker.process.stdout, message)
            if trace is None:
                return
            outcome = message["outcome"] | {"trace": trace}
            _end(worker.under_way.pop(message["id"]), outcome)

    def _serve(self, worker: _Process, line: bytes) -> None:
        """Carry out a worker's message about the cache; only a claim may have to wait."""
        command, number_text, *rest = line[:-1].split(b" ", 3)
        number, shared = int(number_text), self._shared
        assert shared is not None
        if command == b"cancel":
            if waiting := worker.cache_tasks.get(number):
                waiting.cancel()
            return
        key = bytes.fromhex(rest[0].decode())
        if command == b"give_up":
            shared.release(key, worker.number)
        elif command == b"put":
            stored = shared.put_soon(key, rest[1].decode("utf-8", "surrogatepass"), worker.number)
            stored.add_done_callback(lambda stored: _tell_stored(worker, number, stored))
        else:
            try:
                done, text = shared.claimed(key, worker.number)
            except CacheError as error:
                worker.tell(id=number, failure=error.cause)
                return
            if done:
                worker.tell_reply(number, text)
                return
            waiting = worker.cache_tasks[number] = asyncio.create_task(self._claim(worker, number, key))
            waiting.add_done_callback(lambda _: worker.cache_tasks.pop(number, None))

    async def _claim(self, worker: _Process, number: int, key: bytes) -> None:
        """Answer a claim once the worker that holds it is done."""
        assert self._shared is not None
        try:
            worker.tell_reply(number, await self._shared.claim(key, worker.number))
        except Exception as error:
            worker.tell(id=number, failure=_cause(error))

    async def aclose(self) -> None:
        self._usable.clear()
        for worker in self._started:
            with contextlib.suppress(ProcessLookupError):
                worker.process.kill()
            await worker.process.wait()
            assert worker.reader is not None
            await worker.reader
        if self._shared is not None:
            self._shared.close()


async def _read_trace(stdout: asyncio.StreamReader, message: Message) -> bytes | None:
    """Return the trace that follows a message; None if the worker died meanwhile."""
    try:
        return await stdout.readexactly(message.get("trace_bytes", 0))
    except asyncio.IncompleteReadError:
        return None


def _tell_stored(worker: _Process, number: int, stored: asyncio.Future[None]) -> None:
    if error := stored.exception():
        worker.tell(id=number, failure=_cause(error))
    else:
        worker.tell_reply(number, None)


def _cause(error: BaseException) -> str:
    """Return an error's message, never empty: an empty one would be a reply."""
    return error.cause if isinstance(error, CacheError) else str(error) or type(error).__name__


def _end(outcome: asyncio.Future[Message | None], value: Message | None) -> None:
    if not outcome.done():
        outcome.set_result(value)


@asynccontextmanager
async def in_processes(
    count: int,
    experiment: Experiment,
    engine: Engine,
    *,
    cache: str | Path | None,
    concurrency: int | None,
    on_trace: Callable[[bytes], None],
) -> AsyncIterator[WorkerPool]:
    """Yield an asker backed by `count` processes, which share the endpoint's slots."""
    if experiment.model.partition("/")[0] in ("local", "hf"):
        raise ConfigError(
            f"{experiment.model} runs inside a process, and several would load it several times.",
            "Leave out --workers, or serve the model and name its address: --model openai/NAME --base-url URL.",
        )
    slots = min(engine.model.slots, concurrency or engine.model.slots)
    opening = {
        "experiment": json.loads(json.dumps(asdict(experiment), default=str)),
        "boundary": isinstance(experiment, BoundaryExperiment),
        "concurrency": math.ceil(slots / count),
        "cached": cache is not None,
    }
    path = default_cache_path() if cache == "default" else cache
    pool = WorkerPool(
        opening,
        None if path is None else SharedReplies(str(path)),
        on_trace,
        at_once(slots, timed=experiment.budget.seconds is not None),
    )
    try:
        await pool.start(count)
        yield pool
    finally:
        await pool.aclose()


async def _serve_questions(out: BinaryIO) -> None:
    """Answer questions from standard input until it ends."""
    reader = asyncio.StreamReader(limit=_MAX_LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    pipe, worker = WorkerPipe(out), Worker()
    asking: set[asyncio.Task[None]] = set()

    async def answer(message: Message) -> None:
        outcome, trace = await worker.ask(message["ask"])
        pipe.tell(id=message["id"], outcome=outcome, trace_bytes=len(trace), trace=trace)

    async for line in reader:
        if not line.startswith(b"{"):
            number, _, text = line[:-1].partition(b" ")
            pipe.heard(int(number), text.decode("utf-8", "surrogatepass") if text else None)
            continue
        message = json.loads(line)
        if opening := message.get("open"):
            experiment = experiment_of(opening, BoundaryExperiment if opening["boundary"] else Experiment)
            opened = worker.open(experiment, opening["concurrency"], pipe if opening["cached"] else None)
            pipe.tell(id=message["id"], outcome=opened)
        elif "ask" in message:
            task = asyncio.create_task(answer(message))
            asking.add(task)
            task.add_done_callback(asking.discard)
        else:
            pipe.heard(message["id"], None, message["failure"])


def main() -> None:
    """Run a worker; standard output carries messages only."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process ends its workers
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with rare_collections():
        asyncio.run(_serve_questions(out))


if __name__ == "__main__":
    main()
