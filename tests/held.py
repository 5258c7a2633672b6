"""What lets a test say when something happens, so that no machine is too slow for it: clocks and a model."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, TypeVar
from unittest.mock import patch

from hoptree.engine import calls, trace
from hoptree.engine import calls as limits
from hoptree.models.model import Reply, Request
from hoptree.models.scripted import Rule, ScriptedModel

__all__ = ["PATIENCE", "Clock", "Held", "without_waiting"]

T = TypeVar("T")

PATIENCE = 90.0
"""Seconds for what happens at once unless the machine is busy with something else."""
_POLL = 0.005


class Clock:
    """The clock of an event loop, which a test can move on: what waits for hours then waits no longer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ahead = 0.0
        real = loop.time
        loop.time = lambda: real() + self._ahead  # type: ignore[method-assign]

    def move_on(self, seconds: float) -> None:
        """From any thread."""
        self._ahead += seconds
        self._loop.call_soon_threadsafe(lambda: None)  # the loop sleeps until what it thought would come next


class _Impatient(selectors.SelectSelector):
    """Waits only for what has no time of its own; else time is said to have gone by."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(timeout and 0)
        if not found and timeout:
            self.now += timeout
        return found


def without_waiting(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` in a loop whose clock goes on at once to what comes next; calls and traces are timed by it."""
    impatient = _Impatient()

    def made() -> asyncio.AbstractEventLoop:
        loop = asyncio.SelectorEventLoop(impatient)
        loop.time = lambda: impatient.now  # type: ignore[method-assign]
        return loop

    time = SimpleNamespace(monotonic=lambda: impatient.now, perf_counter=lambda: impatient.now)
    with (
        patch.object(calls, "time", time),
        patch.object(limits, "time", time),
        patch.object(trace, "time", time),
        asyncio.Runner(loop_factory=made) as runner,
    ):
        return runner.run(work)


class Held(ScriptedModel):
    """A scripted model whose calls, those of one step or all, wait until they are let go on.

    `arrived` are the steps of calls that came, `given_up` is how many ended while they waited.
    """

    def __init__(self, rules: list[Rule], at: str = "") -> None:
        super().__init__(rules=rules)
        self.holds = True
        self.arrived: list[str] = []
        self.given_up = 0
        self._at = at

    async def generate(self, request: Request, *, step: str) -> Reply:
        name = step.rpartition("/")[2]
        self.arrived.append(name)
        try:
            while self.holds and self._at in ("", name):
                await asyncio.sleep(_POLL)
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        return await super().generate(request, step=step)

    async def is_given_up(self) -> None:
        """Wait until a call ended, and a while longer: in vain for others that it may lead to."""
        async with asyncio.timeout(PATIENCE):
            while not self.given_up:
                await asyncio.sleep(_POLL)
        self.holds = False
        await asyncio.sleep(20 * _POLL)
