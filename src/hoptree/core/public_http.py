"""Access to public servers: user agent, rate limit, retries, and a disk cache."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
import sys
import time
import zlib
from collections.abc import Awaitable, Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from hoptree.core.backoff import retry_delay_s
from hoptree.core.errors import CacheError, ModelError
from hoptree.core.files import cache_dir

T = TypeVar("T")

MAX_AGE_DAYS = 30.0  # Wikidata and Wikipedia change slowly: replies of the last month are good enough
_MAX_ATTEMPTS = 4
_PUBLIC_DOMAINS = ("wikidata.org", "wikipedia.org", "wikimedia.org")


def user_agent(contact: str) -> str:
    """Return a User-Agent with this program and a contact, as Wikimedia demands."""
    try:
        release = version("hoptree")
    except PackageNotFoundError:  # run from its source folder
        release = "dev"
    contact = " ".join(contact.encode("ascii", "replace").decode().split())
    return f"Hoptree/{release} ({contact or 'no contact given'}) Python/{sys.version_info[0]}.{sys.version_info[1]}"


def unreachable_remedy(url: str) -> str:
    """Return the remedy for an unreachable Wikimedia server; "" for other servers."""
    host = urlsplit(url).hostname or ""
    public = any(host == domain or host.endswith(f".{domain}") for domain in _PUBLIC_DOMAINS)
    return "Is there a network? With one, try again later." if public else ""


class Throttle:
    """Limits rate and concurrency of requests to one server, and retries them."""

    def __init__(self, *, per_second: float = 5.0, concurrency: int = 4, patience_s: float = 60.0) -> None:
        self._concurrency, self._interval_s, self._patience_s = concurrency, 1 / per_second, patience_s
        self._next_start = 0.0
        self._slots: asyncio.Semaphore | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def send(self, request: Callable[[], Awaitable[T]]) -> T:
        """Return what `request` returns; retry for at most `patience_s` of delays."""
        loop = asyncio.get_running_loop()
        if self._slots is None or loop is not self._loop:  # a semaphore belongs to one event loop
            self._loop, self._slots = loop, asyncio.Semaphore(self._concurrency)
        slots, waited, failures = self._slots, 0.0, 0
        while True:
            try:
                async with slots:
                    await self._wait_turn()
                    return await request()
            except ModelError as error:
                failures += 1
                delay = retry_delay_s(error, failures, first_s=1.0)
                waited += delay
                if not error.retryable or failures == _MAX_ATTEMPTS or not waited <= self._patience_s:
                    raise
                await asyncio.sleep(delay)

    async def _wait_turn(self) -> None:
        now = time.monotonic()
        start = max(now, self._next_start)
        self._next_start = start + self._interval_s
        if start > now:
            await asyncio.sleep(start - now)


def path_beside_cache(name: str) -> Path:
    """Return the path of a file beside $HOPTREE_CACHE, or in the user's cache folder."""
    cache = os.environ.get("HOPTREE_CACHE")
    return Path(cache).with_name(name) if cache else cache_dir() / name


class HttpCache:
    """Replies by server and query, in an SQLite file.

    They are compressed, whose checksum tells a damaged reply: it is fetched again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
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
        select = "SELECT body FROM replies WHERE key = ? AND created > ?"
        try:
            row = self._db.execute(select, (_key(url, query), time.time() - MAX_AGE_DAYS * 86_400)).fetchone()
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        try:
            return None if row is None else zlib.decompress(row[0])
        except (zlib.error, TypeError):  # damaged, or written by an earlier version, which had no checksum
            return None

    def put(self, url: str, query: str, body: bytes) -> None:
        try:
            row = (_key(url, query), zlib.compress(body, 1), time.time())
            self._db.execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", row)
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def close(self) -> None:
        self._db.close()

    def _unusable(self, error: Exception) -> CacheError:
        cause = f"The cache at {self._path} cannot be used: {error}."
        return CacheError(cause, "Set HOPTREE_CACHE to a file elsewhere, or move it.")


def _key(url: str, query: str) -> bytes:
    return hashlib.sha256(f"{url}\n{query}".encode("utf-8", "replace")).digest()
