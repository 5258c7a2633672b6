"""A run whose questions are answered by several processes of this machine.

Only the process that holds the run writes its folder and the call cache: workers send it outcomes, lines of the trace
and replies, and ask it before they send a request. The questions of a worker that dies are asked again by another one,
which finds its finished calls in the cache. Messages are JSON, one a line, over the worker's standard input and output;
an outcome is followed by as many bytes of the trace as its message says, which are written as they are.
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

from hoptree.core.errors import CacheError, ConfigError, EndpointError, HoptreeError
from hoptree.engine.cache import Cache, Form, default_cache_path, from_text, to_text
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

T = TypeVar("T")
Message = dict[str, Any]

MAX_ATTEMPTS = 5
"""Workers that may be lost over one question before it counts as failed: it may be what kills them."""
_MAX_LINE = 2**30  # bytes of a message: the events of a question hold all that it read


class SharedReplies:
    """The call cache of a run for all workers, in the process that holds the run.

    Workers wait for a call that another one has under way. The claims of a lost worker are released.
    """

    def __init__(self, path: str) -> None:
        self._cache = Cache(Path(path))
        self._claims: dict[bytes, tuple[int, asyncio.Future[None]]] = {}

    async def claim(self, key: bytes, worker: int) -> str | None:
        """Return the cached reply; None makes the caller responsible for it."""
        while True:
            if (text := self._cache.text(key)) is not None:
                return text
            if key not in self._claims:
                self._claims[key] = (worker, asyncio.get_running_loop().create_future())
                return None
            await asyncio.shield(self._claims[key][1])

    async def put(self, key: bytes, text: str, worker: int) -> None:
        """Store a reply durably."""
        try:
            await self._cache.put_text(key, text)
        finally:
            await self.give_up(key, worker)

    async def give_up(self, key: bytes, worker: int) -> None:
        """Release a claim so that others may send the request."""
        if key in self._claims and self._claims[key][0] == worker:
            self._claims.pop(key)[1].set_result(None)

    async def lost(self, worker: int) -> None:
        """Release all claims of a lost worker."""
        for key in [key for key, (claimed_by, _) in self._claims.items() if claimed_by == worker]:
            await self.give_up(key, worker)

    def close(self) -> None:
        self._cache.close()


class Worker:
    """An engine in its own process for concurrent questions."""

    def __init__(self) -> None:
        self._lines: dict[str, list[bytes]] = {}
        self._engine: Engine | None = None

    def open(self, experiment: Experiment, concurrency: int, cache: Any) -> Message:
        """Open the engine once; return what it rests on, or the error."""
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
        asked = await EngineAsker(self._engine).ask(_example(question))
        stops_run = write_error(asked.stops_run) if asked.stops_run else None
        return {"row": asked.row.as_dict(), "stops_run": stops_run}, b"".join(self._lines.pop(asked.row.trace))


def read_outcome(outcome: Message) -> Asked:
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
    """The workers that were to answer are gone."""


@dataclass(slots=True)
class _Process:
    """A worker process with its questions under way."""

    number: int
    process: asyncio.subprocess.Process
    under_way: dict[int, asyncio.Future[Message | None]] = field(default_factory=dict)
    cache_tasks: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    reader: asyncio.Task[None] | None = None

    def tell(self, **message: Any) -> None:
        assert self.process.stdin is not None
        if not self.process.stdin.is_closing():
            self.process.stdin.write(json.dumps(message).encode() + b"\n")


class WorkerPool:
    """Gives questions to the least busy worker; replaces dead ones."""

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
        """The ids of the processes that answer."""
        return [worker.process.pid for worker in self._usable.values()]

    async def start(self, count: int) -> None:
        """Start so many workers, and wait until each has opened its engine."""
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
        """Return the worker's outcome, or None if it died over it."""
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
            limit=_MAX_LINE,
        )
        worker = _Process(self._numbers, process)
        self._started.append(worker)
        worker.reader = asyncio.create_task(self._hear(worker))
        opened = await self._send(worker, open=self._opening)
        if opened is None:
            raise WorkerLost("A worker died before it could answer.", "Leave out --workers to see why.")
        if failure := opened.get("failure"):
            raise read_error(failure)
        self._usable[worker.number] = worker
        self._changed.set()

    async def _hear(self, worker: _Process) -> None:
        """Handle a worker's messages; replace it when it ends."""
        assert worker.process.stdout is not None
        async for line in worker.process.stdout:
            message = json.loads(line)
            if "outcome" in message:
                trace = await _read_trace(worker.process.stdout, message)
                if trace is None:
                    break
                _end(worker.under_way.pop(message["id"]), message["outcome"] | {"trace": trace})
            elif message["do"] == "cancel":
                if cache_task := worker.cache_tasks.get(message["id"]):
                    cache_task.cancel()
            else:
                cache_task = worker.cache_tasks[message["id"]] = asyncio.create_task(self._serve(worker, message))
                cache_task.add_done_callback(lambda _, number=message["id"]: worker.cache_tasks.pop(number, None))  # type: ignore[misc]
        for cache_task in [*worker.cache_tasks.values()]:
            cache_task.cancel()
        if self._shared is not None:
            await self._shared.lost(worker.number)
        if self._usable.pop(worker.number, None):
            try:
                await self._add()
            except HoptreeError as error:
                self._failure = error
                self._changed.set()
        for outcome in worker.under_way.values():
            _end(outcome, None)

    async def _serve(self, worker: _Process, message: Message) -> None:
        """Do what a worker wants of the cache."""
        assert self._shared is not None
        key = bytes.fromhex(message["key"])
        try:
            match message["do"]:
                case "claim":
                    worker.tell(id=message["id"], text=await self._shared.claim(key, worker.number))
                case "put":
                    await self._shared.put(key, message["text"], worker.number)
                    worker.tell(id=message["id"], text=None)
                case "give_up":
                    await self._shared.give_up(key, worker.number)
        except CacheError as error:
            worker.tell(id=message["id"], failure=error.cause)

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
    """Return the trace that follows a message; None where the worker died over it."""
    try:
        return await stdout.readexactly(message.get("trace_bytes", 0))
    except asyncio.IncompleteReadError:
        return None


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
    """Yield an asker backed by so many processes, which share the endpoint's slots."""
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


class _Pipe:
    """The worker's end of the pipe, with the shared cache."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._waiting: dict[int, asyncio.Future[str | None]] = {}
        self._numbers = 0

    def tell(self, *, trace: bytes = b"", **message: Any) -> None:
        """Send a message; once the process that holds the run is gone, end without a word."""
        try:
            self._out.write(json.dumps(message).encode() + b"\n" + trace)
            self._out.flush()
        except BrokenPipeError:
            os._exit(1)

    def heard(self, message: Message) -> None:
        """Hand out what the cache has said."""
        waiting = self._waiting.pop(message["id"], None)
        if waiting is None or waiting.done():
            return
        if "failure" in message:
            waiting.set_exception(CacheError(message["failure"]))
        else:
            waiting.set_result(message["text"])

    async def _wanted(self, do: str, key: bytes, **more: Any) -> str | None:
        self._numbers += 1
        number = self._numbers
        reply: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._waiting[number] = reply
        self.tell(id=number, do=do, key=key.hex(), **more)
        try:
            return await reply
        except asyncio.CancelledError:
            self.tell(id=number, do="cancel")
            raise

    async def get(self, key: bytes, form: Form[T]) -> tuple[T, float] | None:
        text = await self._wanted("claim", key)
        return None if text is None else from_text(form, text)

    async def put(self, key: bytes, form: Form[T], value: T, seconds: float) -> None:
        await self._wanted("put", key, text=to_text(form, value, seconds))

    def give_up(self, key: bytes) -> None:
        self._numbers += 1
        self.tell(id=self._numbers, do="give_up", key=key.hex())

    def close(self) -> None:
        """Leave the file to the process that holds the run."""


async def _serve_questions(out: BinaryIO) -> None:
    """Answer the questions that come in, until there are no more."""
    reader = asyncio.StreamReader(limit=_MAX_LINE)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    pipe, worker = _Pipe(out), Worker()
    asking: set[asyncio.Task[None]] = set()

    async def answer(message: Message) -> None:
        outcome, trace = await worker.ask(message["ask"])
        pipe.tell(id=message["id"], outcome=outcome, trace_bytes=len(trace), trace=trace)

    async for line in reader:
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
            pipe.heard(message)


def main() -> None:
    """Run a worker; standard output carries messages only."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that holds the run ends its workers
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with rare_collections():
        asyncio.run(_serve_questions(out))


if __name__ == "__main__":
    main()
