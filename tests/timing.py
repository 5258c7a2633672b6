"""Clocks and a model that a test controls, so that no machine is too slow for it."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, TypeVar
from unittest.mock import patch

from hoptree.engine import calls, trace
from hoptree.models.model import Reply, Request
from hoptree.models.scripted import Rule, ScriptedModel

__all__ = ["TIMEOUT_S", "Clock", "PausedModel", "run_without_waiting"]

T = TypeVar("T")

TIMEOUT_S = 90.0
"""For what happens at once unless the machine is busy."""
_POLL_S = 0.005


class Clock:
    """The clock of an event loop, which a test can advance to end long waits at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ahead = 0.0
        real = loop.time
        loop.time = lambda: real() + self._ahead  # type: ignore[method-assign]

    def advance(self, seconds: float) -> None:
        """Advance the clock, from any thread."""
        self._ahead += seconds
        self._loop.call_soon_threadsafe(lambda: None)  # wakes the loop, which sleeps until its next event


class _SkippingSelector(selectors.SelectSelector):
    """Advances `now` by a timeout instead of waiting; waits only for events without one."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(timeout and 0)
        if not ready and timeout:
            self.now += timeout
        return ready


def run_without_waiting(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a loop whose clock jumps to the next event, also for calls and traces."""
    selector = _SkippingSelector()

    def make_loop() -> asyncio.AbstractEventLoop:
        loop = asyncio.SelectorEventLoop(selector)
        loop.time = lambda: selector.now  # type: ignore[method-assign]
        return loop

    time = SimpleNamespace(monotonic=lambda: selector.now, perf_counter=lambda: selector.now)
    with (
        patch.object(calls, "time", time),
        patch.object(trace, "time", time),
        asyncio.Runner(loop_factory=make_loop) as runner,
    ):
        return runner.run(work)


class PausedModel(ScriptedModel):
    """A scripted model whose calls, of one step or of all, wait until `paused` is False.

    `arrived` are the steps of all calls; `cancelled` counts the calls that were cancelled while they waited.
    """

    def __init__(self, rules: list[Rule], at: str = "") -> None:
        super().__init__(rules=rules)
        self.paused = True
        self.arrived: list[str] = []
        self.cancelled = 0
        self._at = at

    async def generate(self, request: Request, *, step: str) -> Reply:
        name = step.rpartition("/")[2]
        self.arrived.append(name)
        try:
            while self.paused and self._at in ("", name):
                await asyncio.sleep(_POLL_S)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return await super().generate(request, step=step)

    async def wait_for_cancellation(self) -> None:
        """Wait until a call was cancelled, and a moment longer for calls that this could cause."""
        async with asyncio.timeout(TIMEOUT_S):
            while not self.cancelled:
                await asyncio.sleep(_POLL_S)
        self.paused = False
        await asyncio.sleep(20 * _POLL_S)
