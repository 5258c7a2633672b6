"""Processes that answer questions, so that a server is not bound to one core.

The server keeps everything that requests share: keys, limits, budgets, jobs, the journal. A worker is told a question
as the journal tells it, and tells the events of its trace; the result is read off them, as always.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

from hoptree.core.errors import HoptreeError
from hoptree.engine.events import Event, parse_event
from hoptree.engine.result import Result, read_result
from hoptree.engine.trace import Listener
from hoptree.server.error_responses import Refusal
from hoptree.server.settings import Settings


def error_to_dict(error: HoptreeError) -> dict[str, Any]:
    """All that the error says of itself, and what it is a kind of."""
    return {"kinds": [kind.__name__ for kind in type(error).__mro__], "said": vars(error)}


def error_from_dict(data: dict[str, Any]) -> HoptreeError:
    """The error that was told; one of a kind that is not known here is of the next kind that is."""
    known = {kind.__name__: kind for kind in _kinds(HoptreeError)}
    kind = next(known[name] for name in data["kinds"] if name in known)
    error = kind.__new__(kind)
    error.__dict__.update(data["said"])
    error.args = (error.cause,)
    return error


def _kinds(kind: type[HoptreeError]) -> Iterator[type[HoptreeError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _kinds(narrower)


_LOG = logging.getLogger("hoptree.server")
_ENDING = 3.0
"""Seconds that a worker has to close what it opened."""
_PARTING = 1.0
"""Seconds that it has to tell of a question that nobody waits for any more."""
_GRACE = 10.0
"""Seconds beyond those of a question after which a worker that has not ended it is taken to hang."""
_DOUBLINGS = 5
"""After how many failures in a row the pause before another try grows no more."""
_SOON = 2


class WorkerEnded(Refusal):
    """A process has ended, and the questions that it had with it."""

    def __init__(self) -> None:
        super().__init__(
            503,
            "WorkerEnded",
            "The process that answered has ended.",
            "Ask again; if it happens again, tell whoever runs the server.",
            retry_after=_SOON,
        )


@dataclass(slots=True, eq=False)
class _Asked:
    """A question that a worker has; `failed` comes to what failed, or None, and `over` when the worker is done."""

    listeners: Sequence[Listener]
    failed: asyncio.Future[HoptreeError | None]
    over: asyncio.Event = field(default_factory=asyncio.Event)
    events: list[Event] = field(default_factory=list)

    def hear(self, said: Mapping[str, Any]) -> None:
        """Take in what is told; also of one that nobody waits for any more, as it has cost what it has."""
        events = [parse_event(event) for event in said["events"]]
        self.events += events
        for event in events:
            for listen in self.listeners:
                listen(event)
        if said["over"]:
            self.over.set()
        if self.failed.done():
            return
        if "refused" in said:
            self.failed.set_exception(error_from_dict(said["refused"]))
        elif "failure" in said:
            self.failed.set_result(error_from_dict(said["failure"]) if said["failure"] else None)

    def give_up(self) -> None:
        """Its worker has ended."""
        self.over.set()
        if not self.failed.done():
            self.failed.set_exception(WorkerEnded())


class Workers:
    """So many processes, each of which answers any number of questions at once; one that ends is replaced."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._numbers = itertools.count()
        self._there: list[_Worker] = []
        self._has: dict[str, _Worker] = {}
        self._alike: Counter[str] = Counter()
        self._keeping: list[asyncio.Task[None]] = []

    def __len__(self) -> int:
        """How many are ready to answer."""
        return len(self._there)

    async def start(self) -> None:
        """Start all of them, and wait until each is ready, or could not be started."""
        tried = [asyncio.Event() for _ in range(self._settings.workers)]
        loop = asyncio.get_running_loop()
        self._keeping = [loop.create_task(self._keep_one(event)) for event in tried]
        await asyncio.gather(*(event.wait() for event in tried))

    async def ask(self, told: Mapping[str, Any], listeners: Sequence[Listener], *, live: bool) -> Result:
        """Have a question answered; a failure is a result too. It ends in the worker when it is cancelled here.

        Listeners hear of events while they happen if it is `live`; else at the end, which costs both sides less.
        """
        same = json.dumps({**told, "budget": None})
        worker = self._has[same] = self._choose(same)
        self._alike[same] += 1
        try:
            return await self._ask(worker, told, listeners, live)
        finally:
            self._alike[same] -= 1
            if not self._alike[same]:
                del self._alike[same], self._has[same]

    async def _ask(self, worker: _Worker, told: Mapping[str, Any], listeners: Sequence[Listener], live: bool) -> Result:
        number, seconds = next(self._numbers), told["budget"]["seconds"]
        asked = worker.asked[number] = _Asked(listeners, asyncio.get_running_loop().create_future())
        worker.say({"ask": number, "live": live, **told})
        try:
            async with asyncio.timeout(None if seconds is None else seconds + _GRACE):
                failure = await asked.failed
        except TimeoutError:
            _LOG.error("a worker does not end a question after %g s, and is killed", seconds + _GRACE)
            worker.kill()
            raise WorkerEnded() from None
        except asyncio.CancelledError:
            worker.say({"cancel": number})
            with suppress(TimeoutError):
                await asyncio.wait_for(asked.over.wait(), _PARTING)  # then what it has cost until now was heard
            raise
        return read_result(asked.events, failure)

    def forget(self, corpus: str) -> None:
        """Let go of a corpus that is to be removed."""
        for worker in self._there:
            worker.say({"forget": corpus})

    async def aclose(self) -> None:
        """End them all; questions that they still have are given up."""
        for task in self._keeping:
            task.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)

    def _choose(self, same: str) -> _Worker:
        """The one that has the same question, whose calls it shares; else the one that has the fewest."""
        if not self._there:
            raise Refusal(
                503,
                "NoWorker",
                "No process is there to answer.",
                "Wait as long as Retry-After says.",
                retry_after=_SOON,
            )
        known = self._has.get(same)
        return known if known in self._there else min(self._there, key=lambda one: len(one.asked))

    async def _keep_one(self, tried: asyncio.Event) -> None:
        """Have one worker there as long as the server runs; the more tries came to nothing, the longer the pause."""
        failures = 0
        while True:
            worker = _Worker()
            try:
                await self._begin(worker)
                tried.set()
                if worker.ready.is_set():
                    failures = 0
                    self._there.append(worker)
                await worker.gone.wait()
            except OSError as error:
                tried.set()
                _LOG.error("a worker cannot be started: %s", error.strerror)
            finally:
                if worker in self._there:
                    self._there.remove(worker)
                await worker.end()
            pause = 2.0 ** min(failures, _DOUBLINGS) - 1
            failures += 1
            _LOG.error("%s; another one is started in %g s", worker.obituary, pause)
            await asyncio.sleep(pause)

    async def _begin(self, worker: _Worker) -> None:
        """Start a process, and wait until it is ready or has ended."""
        await asyncio.get_running_loop().subprocess_exec(
            lambda: worker,
            sys.executable,
            "-P",  # nothing is imported from the folder it runs in
            "-m",
            "hoptree.server.answering_worker",
            stderr=None,
        )
        worker.say({"settings": self._settings.for_workers(), "workers": self._settings.workers})
        waiting = [asyncio.ensure_future(event.wait()) for event in (worker.ready, worker.gone)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()


class _Worker(asyncio.SubprocessProtocol):
    """One process, and the questions that it has."""

    def __init__(self) -> None:
        self.asked: dict[int, _Asked] = {}
        self.ready, self.gone = asyncio.Event(), asyncio.Event()
        self._process: asyncio.SubprocessTransport | None = None
        self._pipe: asyncio.WriteTransport | None = None
        self._rest: list[bytes] = []
        self._lost = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process = cast(asyncio.SubprocessTransport, transport)
        self._pipe = cast(asyncio.WriteTransport, self._process.get_pipe_transport(0))

    @property
    def pid(self) -> int | None:
        return self._process.get_pid() if self._process else None

    @property
    def obituary(self) -> str:
        """How it ended, by itself or by a signal, and what it took with it."""
        if self._process is None:
            return "no worker was started"
        code = self._process.get_returncode() or 0
        how = f"exit status {code}" if code >= 0 else f"signal {-code}"
        return f"a worker ended with {how}, and {self._lost} question{'s' * (self._lost != 1)} with it"

    def say(self, line: Mapping[str, Any]) -> None:
        if self._pipe and not self._pipe.is_closing():  # then its end is told in a moment
            self._pipe.write(json.dumps(line).encode() + b"\n")

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Hear whole lines; one that is not yet whole is kept in the parts it came in."""
        first, *others = data.split(b"\n")
        self._rest.append(first)
        if not others:
            return
        lines, self._rest = [b"".join(self._rest), *others[:-1]], [others[-1]]
        for line in lines:
            said = json.loads(line)
            if "ready" in said:
                self.ready.set()
                continue
            asked = self.asked.pop(said["id"]) if said["over"] else self.asked[said["id"]]
            asked.hear(said)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended, and everything that it said was heard."""
        self._lost = len(self.asked)
        for asked in self.asked.values():
            asked.give_up()
        self.asked.clear()
        self.gone.set()

    def kill(self) -> None:
        if self._process:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def end(self) -> None:
        """Have it close what it opened, and end."""
        if self._pipe is None:
            return
        self._pipe.close()
        try:
            await asyncio.wait_for(self.gone.wait(), _ENDING)
        except TimeoutError:
            self.kill()
            await self.gone.wait()
