"""Single flight: work that is asked for several times is done once, and its result shared."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class SingleFlight:
    """Does the work of each key once: whoever asks for work in progress waits for it, and shares its failure too.

    Results are kept for later calls unless `keep` is false. If the caller that does the work is cancelled, the next of
    those who wait does it. Work that waits for other work under the same `SingleFlight` must not come back to itself.
    """

    def __init__(self, *, keep: bool = True) -> None:
        self._keep = keep
        self._flights: dict[Hashable, asyncio.Future[Any]] = {}

    async def __call__(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        """Return the result of the work with this key."""
        return (await self.share(key, work))[0]

    async def share(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """Return the result, and whether it is that of another caller's work."""
        while (flight := self._flights.get(key)) is not None:
            await asyncio.wait((flight,))  # a caller that gives up waiting does not end the work for the others
            if not flight.cancelled():
                return flight.result(), True
        flight = self._flights[key] = asyncio.get_running_loop().create_future()
        try:
            result = await work()
        except Exception as error:
            flight.set_exception(error)
            flight.exception()  # mark as retrieved: it is raised here, whether or not anybody joined
            if not self._keep:
                del self._flights[key]
            raise
        except BaseException:
            del self._flights[key]
            flight.cancel()
            raise
        flight.set_result(result)
        if not self._keep:
            del self._flights[key]
        return result, False
