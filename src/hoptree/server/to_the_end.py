"""Work in a thread that is not left alone: whoever waits for it leaves only when it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

__all__ = ["to_the_end"]

Given = TypeVarTuple("Given")
T = TypeVar("T")


async def to_the_end(work: Callable[[*Given], T], *given: *Given, give_up: Callable[[], None] | None = None) -> T:
    """What `work` returns; a cancellation holds once it has ended, for until then it uses files and a place.

    `give_up` tells work that takes long that nobody wants it any more.
    """
    running = asyncio.ensure_future(asyncio.to_thread(work, *given))
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
            if give_up is not None:
                give_up()
    if cancelled is not None:
        running.exception()  # nobody is left to be told
        raise cancelled
    return running.result()
