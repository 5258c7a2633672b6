"""How a public server is asked: by name, not too often, and with patience."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import PackageNotFoundError, version
from typing import TypeVar
from urllib.parse import urlsplit

from hoptree.errors import ModelError

__all__ = ["Polite", "if_public", "user_agent"]

T = TypeVar("T")

_TIMES = 4
_PUBLIC = ("wikidata.org", "wikipedia.org", "wikimedia.org")


def user_agent(contact: str) -> str:
    """Who asks, and how to reach them: Wikimedia turns away those who do not say."""
    try:
        ours = version("hoptree")
    except PackageNotFoundError:  # run from its source folder
        ours = "dev"
    told = " ".join(contact.encode("ascii", "replace").decode().split())
    return f"Hoptree/{ours} ({told or 'no contact given'}) Python/{sys.version_info[0]}.{sys.version_info[1]}"


def if_public(url: str) -> str:
    """What to do where Wikimedia's servers cannot be reached, which nobody here can start; "" for all others."""
    host = urlsplit(url).hostname or ""
    ours = not any(host == public or host.endswith(f".{public}") for public in _PUBLIC)
    return "" if ours else "Is there a network? With one, try again later."


class Polite:
    """So many requests a second to one server, so many at once, `patience` seconds of waiting for a busy one."""

    def __init__(self, *, a_second: float = 5.0, at_once: int = 4, patience: float = 60.0) -> None:
        self._at_once, self._pause, self._patience = at_once, 1 / a_second, patience
        self._next = 0.0
        self._slots: asyncio.Semaphore | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def send(self, once: Callable[[], Awaitable[T]]) -> T:
        """What `once` brings, tried again where that may help."""
        loop = asyncio.get_running_loop()
        if self._slots is None or loop is not self._loop:  # those who waited in a loop that has ended wait no more
            self._loop, self._slots = loop, asyncio.Semaphore(self._at_once)
        slots, waited = self._slots, 0.0
        for attempt in range(_TIMES):
            try:
                async with slots:
                    await self._turn()
                    return await once()
            except ModelError as error:
                pause = error.retry_after if error.retry_after is not None else 2.0**attempt
                waited += max(pause, 0.0)  # in this order a number that is none stays one
                if not error.retryable or attempt == _TIMES - 1 or not waited <= self._patience:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError("unreachable")

    async def _turn(self) -> None:
        """Wait until the next request may be sent."""
        now = time.monotonic()
        mine, self._next = max(now, self._next), max(now, self._next) + self._pause
        if mine > now:
            await asyncio.sleep(mine - now)
