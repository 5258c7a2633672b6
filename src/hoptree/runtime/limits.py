"""How many requests an endpoint gets at once: more while it answers, fewer when it says 429."""

from __future__ import annotations

import asyncio
import time
from collections import deque

__all__ = ["AdaptiveLimit"]


class AdaptiveLimit:
    """A first-come semaphore whose width adapts.

    It starts narrow and doubles each round of answers until the first refusal, then grows by one a round; a refusal
    cuts it to 70 %, once for all requests that were under way when it came.
    """

    def __init__(self, ceiling: int, start: int = 32) -> None:
        self.ceiling = ceiling
        self.width = float(min(start, ceiling))
        self._in_use = 0
        self._queue: deque[asyncio.Future[None]] = deque()
        self._refused = False
        self._last_cut = float("-inf")

    async def acquire(self) -> None:
        if self._in_use < int(self.width) and not self._queue:
            self._in_use += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            elif turn in self._queue:  # a release may have passed it over already
                self._queue.remove(turn)
            raise

    def release(self) -> None:
        self._in_use -= 1
        while self._queue and self._in_use < int(self.width):
            turn = self._queue.popleft()
            if not turn.done():
                self._in_use += 1
                turn.set_result(None)

    def answered(self) -> None:
        self.width = min(self.ceiling, self.width + (1 / self.width if self._refused else 1))

    def refused(self, sent_at: float) -> None:
        """Take a refusal of a request sent at `sent_at` (time.monotonic)."""
        self._refused = True
        if sent_at > self._last_cut:
            self.width = max(1.0, self.width * 0.7)
            self._last_cut = time.monotonic()
