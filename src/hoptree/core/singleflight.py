"""Doing each piece of work of a question once, however often and at whatever time it is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Once:
    """Remembers work by a key: who asks for work that is under way waits for it, and shares its failure too.

    If the one who does the work is cancelled, the next of those who wait for it does it. Work that waits for other work
    under the same `Once` must never come round to itself: nobody would ever be done.
    """

    def __init__(self) -> None:
        self._begun: dict[Hashable, asyncio.Future[Any]] = {}

    async def __call__(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        while (known := self._begun.get(key)) is not None:
            await asyncio.wait((known,))  # who gives up waiting does not end the work for the others
            if not known.cancelled():
                value: T = known.result()
                return value
        begun = self._begun[key] = asyncio.get_running_loop().create_future()
        try:
            done = await work()
        except asyncio.CancelledError:
            del self._begun[key]
            begun.cancel()
            raise
        except BaseException as error:
            begun.set_exception(error)
            begun.exception()  # looked at, so that nobody is told of an error that nobody waited for
            raise
        begun.set_result(done)
        return done
