"""What lets a test say when something happens, so that no machine is too slow for it: a clock and a model."""

from __future__ import annotations

import asyncio

from hoptree.models.model import Reply, Request
from hoptree.models.scripted import Rule, ScriptedModel

__all__ = ["PATIENCE", "Clock", "Held"]

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
