"""How a public server is asked: by name, not too often, and with patience."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from hoptree.core.errors import CacheError, ModelError
from hoptree.core.files import cache_dir

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


KEPT_DAYS = 30.0
"""Wikidata and Wikipedia change; what they said a month ago most often still holds."""


def beside_cache(name: str) -> Path:
    """A file of this name beside $HOPTREE_CACHE, or in the user's cache folder."""
    named = os.environ.get("HOPTREE_CACHE")
    return Path(named).with_name(name) if named else cache_dir() / name


class Remembered:
    """Replies by the server and the query they are of."""

    def __init__(self, path: Path, *, days: float = KEPT_DAYS) -> None:
        self._path, self._seconds = path, days * 86_400
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=10)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS replies (key BLOB PRIMARY KEY, body BLOB NOT NULL, created REAL NOT NULL)"
            )
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(error) from error

    def get(self, url: str, query: str) -> bytes | None:
        try:
            row = self._db.execute(
                "SELECT body FROM replies WHERE key = ? AND created > ?",
                (_key(url, query), time.time() - self._seconds),
            ).fetchone()
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        return None if row is None else bytes(row[0])

    def put(self, url: str, query: str, body: bytes) -> None:
        try:
            self._db.execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", (_key(url, query), body, time.time()))
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def close(self) -> None:
        self._db.close()

    def _unusable(self, error: Exception) -> CacheError:
        return CacheError(
            f"The cache at {self._path} cannot be used: {error}.", "Set HOPTREE_CACHE to a file elsewhere, or move it."
        )


def _key(url: str, query: str) -> bytes:
    return hashlib.sha256(f"{url}\n{query}".encode("utf-8", "replace")).digest()
