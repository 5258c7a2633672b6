"""Processes that answer questions, so that a server is not bound to one core.

The server keeps everything that requests share: keys, limits, budgets, jobs, the journal. A worker is told a question
as the journal tells it, and tells the events of its trace as they happen; the result is read off them, as always.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

from hoptree.errors import HoptreeError
from hoptree.runtime.result import Result, read_result
from hoptree.runtime.trace import Event, Listener
from hoptree.server.crossing import from_data
from hoptree.server.refusals import Refusal
from hoptree.server.settings import Settings

__all__ = ["Workers"]

_LOG = logging.getLogger("hoptree.server")
_ENDING = 5.0
"""Seconds that a worker has to close what it opened."""
_PARTING = 2.0
"""Seconds that a worker has to tell of a question that nobody waits for any more."""
_LONGEST_PAUSE = 30.0
_SOON = 2


@dataclass(slots=True, eq=False)
class _Asked:
    """A question that a worker has; `failed` comes to what failed, or None, and `over` when the worker is done."""

    listeners: Sequence[Listener]
    failed: asyncio.Future[HoptreeError | None]
    over: asyncio.Event = field(default_factory=asyncio.Event)
    events: list[Event] = field(default_factory=list)

    def hear(self, said: Mapping[str, Any]) -> None:
        """Take in what is told; also of one that nobody waits for any more, as it has cost what it has."""
        self.events += said["events"]
        for event in said["events"]:
            for listen in self.listeners:
                listen(event)
        if said["over"]:
            self.over.set()
        if self.failed.done():
            return
        if "refused" in said:
            self.failed.set_exception(from_data(said["refused"]))
        elif "failure" in said:
            self.failed.set_result(from_data(said["failure"]) if said["failure"] else None)


class Workers:
    """So many processes, each of which answers any number of questions at once; one that ends is replaced."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._numbers = itertools.count()
        self._there: list[_Worker] = []
        self._has: dict[str, _Worker] = {}
        self._failed_in_a_row = 0
        self._starting: set[asyncio.Task[None]] = set()
        self._closing = False

    def __len__(self) -> int:
        return len(self._there)

    async def start(self) -> None:
        """Start all of them; they take questions before they are ready to answer them."""
        await asyncio.gather(*(self._start_one() for _ in range(self._settings.workers)))

    async def ask(self, told: Mapping[str, Any], listeners: Sequence[Listener], *, live: bool) -> Result:
        """Have a question answered; a failure is a result too. It ends in the worker when it is cancelled here.

        Listeners hear of events while they happen if it is `live`; else at the end, which costs both sides less.
        """
        same, number = json.dumps(told), next(self._numbers)
        worker = self._has[same] = self._choose(same)
        asked = worker.asked[number] = _Asked(listeners, asyncio.get_running_loop().create_future())
        worker.say({"ask": number, "live": live, **told})
        try:
            failure = await asked.failed
        except asyncio.CancelledError:
            worker.say({"cancel": number})
            with suppress(TimeoutError):
                await asyncio.wait_for(asked.over.wait(), _PARTING)  # then what it has cost until now was heard
            raise
        finally:
            self._has.pop(same, None)
        return read_result(asked.events, failure)

    async def aclose(self) -> None:
        """End them all; questions that they still have are given up."""
        self._closing = True
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        await asyncio.gather(*(worker.end() for worker in self._there))

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

    async def _start_one(self) -> None:
        _, worker = await asyncio.get_running_loop().subprocess_exec(
            lambda: _Worker(self._ended),
            sys.executable,
            "-P",  # nothing is imported from the folder it runs in
            "-m",
            "hoptree.server.answering_worker",
            stderr=None,
        )
        self._there.append(worker)
        worker.say({"settings": self._settings.for_workers(), "workers": self._settings.workers})

    def _ended(self, worker: _Worker) -> None:
        """Go on without a worker that has ended, and start another: the later, the more of them came to nothing."""
        self._there.remove(worker)
        if self._closing:
            return
        status, left = worker.status, len(worker.asked)
        _LOG.error("a worker ended with %s, and %d questions with it; another one is started", status, left)
        self._failed_in_a_row = 0 if worker.spoke else self._failed_in_a_row + 1
        task = asyncio.get_running_loop().create_task(self._replace())
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _replace(self) -> None:
        while True:
            await asyncio.sleep(min(_LONGEST_PAUSE, 2.0**self._failed_in_a_row - 1))
            try:
                await self._start_one()
                return
            except OSError as error:
                _LOG.error("a worker cannot be started: %s", error.strerror)
                self._failed_in_a_row += 1


class _Worker(asyncio.SubprocessProtocol):
    """One process, and the questions that it has."""

    def __init__(self, ended: Callable[[_Worker], None]) -> None:
        self.asked: dict[int, _Asked] = {}
        self.spoke = False
        self._ended = ended
        self._gone = asyncio.Event()
        self._rest: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process = cast(asyncio.SubprocessTransport, transport)
        self._pipe = cast(asyncio.WriteTransport, self._process.get_pipe_transport(0))

    @property
    def status(self) -> str:
        """How it ended: by itself, or by a signal."""
        code = self._process.get_returncode() or 0
        return f"exit status {code}" if code >= 0 else f"signal {-code}"

    def say(self, line: Mapping[str, Any]) -> None:
        if not self._pipe.is_closing():  # then its end is told in a moment
            self._pipe.write(json.dumps(line).encode() + b"\n")

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Hear whole lines; one that is not yet whole is kept in the parts it came in."""
        first, *others = data.split(b"\n")
        self._rest.append(first)
        if not others:
            return
        lines, self._rest = [b"".join(self._rest), *others[:-1]], [others[-1]]
        self.spoke = True
        for line in lines:
            said = json.loads(line)
            asked = self.asked.pop(said["id"]) if said["over"] else self.asked[said["id"]]
            asked.hear(said)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended, and everything that it said was heard."""
        self._gone.set()
        self._ended(self)
        for asked in self.asked.values():
            asked.over.set()
            if not asked.failed.done():
                asked.failed.set_exception(
                    Refusal(
                        503,
                        "WorkerEnded",
                        "The process that answered has ended.",
                        "Ask again; if it happens again, tell whoever runs the server.",
                        retry_after=_SOON,
                    )
                )

    async def end(self) -> None:
        """Have it close what it opened, and end."""
        self._pipe.close()
        try:
            await asyncio.wait_for(self._gone.wait(), _ENDING)
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._gone.wait()
