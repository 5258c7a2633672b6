"""Worker processes that answer questions, so that a server can use several cores.

The server keeps what requests share: keys, limits, budgets, jobs, the journal. A worker gets a question as a JSON line
and sends back trace events, from which the server reads the result. See `answering_worker.py`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hoptree.core.errors import HoptreeError
from hoptree.engine.events import Event, parse_event
from hoptree.engine.result import Result, read_result
from hoptree.engine.schedule import fold_events
from hoptree.engine.trace import Listener
from hoptree.server.error_responses import Refusal
from hoptree.server.keys import CallSize, HeldCalls
from hoptree.server.settings import Settings

_LOG = logging.getLogger("hoptree.server")
_CLOSE_TIMEOUT_S = 3.0  # for a worker to close what it opened
_CANCEL_TIMEOUT_S = 1.0  # for a worker to report the cost of a cancelled question
_HANG_TIMEOUT_S = 10.0  # beyond the time of a question, before its worker is killed
_MAX_DOUBLINGS = 5  # of the pause before another start
_RETRY_AFTER_S = 2
MAX_LINE_BYTES = 2**26  # of a message, in both directions


def error_to_dict(error: HoptreeError) -> dict[str, Any]:
    """Return the attributes of an error, and the names of its classes."""
    return {"kinds": [kind.__name__ for kind in type(error).__mro__], "said": vars(error)}


def error_from_dict(data: dict[str, Any]) -> HoptreeError:
    """Restore an error; an unknown class becomes the next known base class."""
    known = {kind.__name__: kind for kind in _error_classes(HoptreeError)}
    kind = next(known[name] for name in data["kinds"] if name in known)
    error = kind.__new__(kind)
    error.__dict__.update(data["said"])
    error.args = (error.cause,)
    return error


def _error_classes(kind: type[HoptreeError]) -> Iterator[type[HoptreeError]]:
    yield kind
    for subclass in kind.__subclasses__():
        yield from _error_classes(subclass)


def module_command(module: str) -> tuple[str, ...]:
    """Return the command that runs a module; -P ignores files of its working folder."""
    return sys.executable, "-P", "-m", module


def exit_text(code: int) -> str:
    """Say how a process ended: by itself, or by a signal."""
    return f"exit status {code}" if code >= 0 else f"signal {-code}"


class WorkerEnded(Refusal):
    """A worker process ended before it had answered."""

    def __init__(self) -> None:
        remedy = "Ask again; if it happens again, tell the server's administrator."
        super().__init__(503, "WorkerEnded", "The process that answered has ended.", remedy, retry_after=_RETRY_AFTER_S)


@dataclass(slots=True, eq=False)
class _Question:
    """A question that a worker answers.

    `failure` resolves to the error of the result, or None; `over` is set once the worker is done.
    """

    listeners: Sequence[Listener]
    failure: asyncio.Future[HoptreeError | None]
    held: HeldCalls | None
    over: asyncio.Event = field(default_factory=asyncio.Event)
    events: list[Event] = field(default_factory=list)
    holding: dict[int, asyncio.Task[None]] = field(default_factory=dict)  # calls that wait for room

    def receive(self, message: Mapping[str, Any], answer: Callable[[Mapping[str, Any]], None]) -> None:
        """Handle a message of the worker; also of a cancelled question, to count its cost."""
        events = [parse_event(event) for event in message["events"]]
        self.events += events
        for event in events:
            for listen in self.listeners:
                listen(event)
        if "hold" in message and not self.failure.done():
            number = message["hold"]
            self.holding[number] = asyncio.get_running_loop().create_task(self._hold(message, answer))
            self.holding[number].add_done_callback(lambda _: self.holding.pop(number, None))
        elif "settled" in message and self.held is not None:
            waiting = self.holding.get(message["settled"])
            if waiting is None or not waiting.cancel():  # one that still waits has nothing to settle
                self.held.settle(message["settled"], lost=message["lost"])
        if message["over"]:
            self.over.set()
        if self.failure.done():
            return
        if "refused" in message:
            self.failure.set_exception(error_from_dict(message["refused"]))
        elif "failure" in message:
            self.failure.set_result(error_from_dict(message["failure"]) if message["failure"] else None)

    async def _hold(self, message: Mapping[str, Any], answer: Callable[[Mapping[str, Any]], None]) -> None:
        """Allow the worker's call once the key's budget has room for it."""
        assert self.held is not None
        refused = None
        try:
            await self.held.hold(message["hold"], CallSize(**message["size"]))
        except Refusal as refusal:
            refused = error_to_dict(refusal)
        answer({"admit": message["id"], "call": message["hold"], "refused": refused})

    def close(self) -> None:
        """Hold no more calls; charge those without a reply, as they may have been sent."""
        for task in self.holding.values():
            task.cancel()
        if self.held is not None:
            self.held.close()

    def give_up(self) -> None:
        """End the question, as its worker has ended."""
        self.over.set()
        if not self.failure.done():
            self.failure.set_exception(WorkerEnded())


class Workers:
    """Worker processes, each with any number of questions; one that ends is replaced."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._numbers = itertools.count()
        self._ready: list[_Worker] = []
        self._worker_of: dict[str, _Worker] = {}
        self._identical: Counter[str] = Counter()
        self._keepers: list[asyncio.Task[None]] = []

    def __len__(self) -> int:
        """The number of workers that are ready."""
        return len(self._ready)

    async def start(self) -> None:
        """Start all workers; return once each is ready, or could not be started."""
        tried = [asyncio.Event() for _ in range(self._settings.workers)]
        loop = asyncio.get_running_loop()
        self._keepers = [loop.create_task(self._keep_worker(event)) for event in tried]
        await asyncio.gather(*(event.wait() for event in tried))

    async def ask(
        self,
        message: Mapping[str, Any],
        listeners: Sequence[Listener],
        *,
        live: bool,
        held: HeldCalls | None = None,
    ) -> Result:
        """Answer a question in a worker.

        If `live`, listeners get events at once, else at the end. Calls are `held` against the budget of a key.
        """
        identity = json.dumps({**message, "budget": None})
        worker = self._worker_of[identity] = self._choose(identity)
        self._identical[identity] += 1
        number, seconds = next(self._numbers), message["budget"]["seconds"]
        question = _Question(listeners, asyncio.get_running_loop().create_future(), held)
        worker.questions[number] = question
        worker.send({"ask": number, "live": live, "held": held is not None, **message})
        try:
            async with asyncio.timeout(None if seconds is None else seconds + _HANG_TIMEOUT_S):
                failure = await question.failure
        except TimeoutError:
            _LOG.error("a worker does not end a question after %g s, and is killed", seconds + _HANG_TIMEOUT_S)
            worker.kill()
            raise WorkerEnded() from None
        except asyncio.CancelledError:
            worker.send({"cancel": number})
            with suppress(TimeoutError):
                await asyncio.wait_for(question.over.wait(), _CANCEL_TIMEOUT_S)  # so that its cost is counted
            raise
        finally:
            question.close()
            self._identical[identity] -= 1
            if not self._identical[identity]:
                del self._identical[identity], self._worker_of[identity]
        return await fold_events(lambda recorded: read_result(recorded, failure), question.events)

    def forget(self, corpus: str) -> None:
        """Tell all workers to close a corpus before it is removed."""
        for worker in self._ready:
            worker.send({"forget": corpus})

    async def aclose(self) -> None:
        """End all workers, and the questions that they still have."""
        for task in self._keepers:
            task.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)

    def _choose(self, identity: str) -> _Worker:
        """Choose the worker with an identical question, to share its calls, or the idlest."""
        if not self._ready:
            remedy = "Wait as long as Retry-After says."
            raise Refusal(503, "NoWorker", "No process is there to answer.", remedy, retry_after=_RETRY_AFTER_S)
        known = self._worker_of.get(identity)
        return known if known in self._ready else min(self._ready, key=lambda worker: len(worker.questions))

    async def _keep_worker(self, tried: asyncio.Event) -> None:
        """Keep one worker running; the pause grows with each failed start."""
        failures = 0
        while True:
            obituary = "no worker was started"
            try:
                process = await asyncio.create_subprocess_exec(
                    *module_command("hoptree.server.answering_worker"),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    limit=MAX_LINE_BYTES,
                )
            except OSError as error:
                _LOG.error("a worker cannot be started: %s", error.strerror)
            else:
                worker = _Worker(process)
                worker.send({"settings": self._settings.for_workers(), "workers": self._settings.workers})
                try:
                    if await asyncio.shield(worker.ready):
                        failures = 0
                        self._ready.append(worker)
                    tried.set()
                    await asyncio.wait([worker.receiving])
                finally:
                    if worker in self._ready:
                        self._ready.remove(worker)
                    await worker.end()
                obituary = worker.obituary
            tried.set()
            pause = 2.0 ** min(failures, _MAX_DOUBLINGS) - 1
            failures += 1
            _LOG.error("%s; another one is started in %g s", obituary, pause)
            await asyncio.sleep(pause)


class _Worker:
    """A worker process and its questions; `ready` resolves to whether it has started."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._lost = 0
        self.questions: dict[int, _Question] = {}
        self.ready: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.receiving = asyncio.get_running_loop().create_task(self._receive())

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def obituary(self) -> str:
        """A sentence on how the process ended, with the number of lost questions."""
        how = exit_text(self._process.returncode or 0)
        return f"a worker ended with {how}, and {self._lost} question{'s' * (self._lost != 1)} with it"

    def send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        if not self._process.stdin.is_closing():  # if it is, `_receive` is about to end
            self._process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _receive(self) -> None:
        """Handle its messages; once it has ended, end its questions."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            message = json.loads(line)
            if "ready" in message:
                self.ready.set_result(True)
                continue
            number = message["id"]
            question = self.questions.pop(number) if message["over"] else self.questions[number]
            question.receive(message, self.send)
        await self._process.wait()
        self._lost = len(self.questions)
        for question in self.questions.values():
            question.give_up()
        self.questions.clear()
        if not self.ready.done():
            self.ready.set_result(False)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()

    async def end(self) -> None:
        """Let the process close what it opened, and end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        done, _ = await asyncio.wait([self.receiving], timeout=_CLOSE_TIMEOUT_S)
        if not done:
            self.kill()
            await asyncio.wait([self.receiving])
