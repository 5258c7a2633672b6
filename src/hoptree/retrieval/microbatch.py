"""Micro-batching: one call answers all items that arrive almost at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Window(Generic[Item, Result]):
    """Collects items for `seconds` after the first one, or until there are `most`, and sends them in one call.

    `call` returns a result for each item, in order. Its error reaches every caller of that batch; a cancelled caller
    does not affect the others. A window can be used in one event loop after another.
    """

    def __init__(
        self,
        call: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        seconds: float = 0.003,
        most: int = 64,
    ) -> None:
        self._call = call
        self._seconds = seconds
        self._most = most
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def __call__(self, item: Item) -> Result:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # callers of a loop that has ended cannot be answered
            self._loop, self._waiting, self._timer = loop, [], None
        future: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((item, future))
        if len(self._waiting) >= self._most:
            self._send()
        elif self._timer is None:
            self._timer = loop.call_later(self._seconds, self._send)
        return await future

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = [(item, future) for item, future in self._waiting if not future.done()]
        self._waiting = []
        if batch:
            task = asyncio.get_running_loop().create_task(self._answer(batch))
            self._running.add(task)  # the loop itself holds tasks only weakly
            task.add_done_callback(self._running.discard)

    async def _answer(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._call([item for item, _ in batch])
            if len(results) != len(batch):
                raise ValueError(f"{len(results)} results for {len(batch)} items")
        except BaseException as error:
            for _, future in batch:
                if future.done():
                    continue
                if isinstance(error, asyncio.CancelledError):
                    future.cancel()
                else:
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)
