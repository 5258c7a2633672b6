"""The call cache: replies by everything that determined them, in SQLite, on disk before a method sees them."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
from pathlib import Path
from typing import Any

from hoptree.errors import CacheError
from hoptree.folders import cache_folder
from hoptree.models.model import Choice, Reply, Token, TokenUsage

__all__ = ["Cache", "CachedReply", "default_cache_path"]

_SCHEMA = """CREATE TABLE IF NOT EXISTS replies
    (key BLOB PRIMARY KEY, reply TEXT NOT NULL, created REAL NOT NULL) WITHOUT ROWID"""

CachedReply = tuple[Reply, float]
"""A reply and the seconds the model took for it."""


def default_cache_path() -> Path:
    """$HOPTREE_CACHE, or replies.sqlite in the user's cache folder."""
    if named := os.environ.get("HOPTREE_CACHE"):
        return Path(named)
    return cache_folder() / "replies.sqlite"


class Cache:
    """One WAL connection; replies that arrive in one turn of the event loop are committed together at its end.

    `put` returns after the commit, which takes a fraction of a millisecond and therefore no thread. It survives the
    death of the process, not a power failure (synchronous=NORMAL), which loses the last replies but never the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=10)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(_SCHEMA)
        except (sqlite3.Error, OSError) as error:
            raise CacheError(
                f"The cache at {path} cannot be used: {error}.",
                "Set HOPTREE_CACHE to another file, or move this one away.",
            ) from error
        self._waiting: list[tuple[bytes, str, asyncio.Future[None]]] = []

    def get(self, key: bytes) -> CachedReply | None:
        try:
            row = self._db.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        try:
            return _load(row[0]) if row else None
        except (ValueError, KeyError, TypeError, RecursionError):
            return None  # written by another version, or damaged: it is paid for again

    async def put(self, key: bytes, reply: Reply, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._flush)
        self._waiting.append((key, _dump(reply, seconds), done))
        await done

    def _flush(self) -> None:
        batch, self._waiting = self._waiting, []
        try:
            self._write([(key, text, time.time()) for key, text, _ in batch])
        except Exception as error:  # whatever it is, nobody may wait for ever
            for _, _, done in batch:
                if not done.done():
                    done.set_exception(self._unusable(error))
        else:
            for _, _, done in batch:
                if not done.done():
                    done.set_result(None)

    def _write(self, rows: list[tuple[bytes, str, float]]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", rows)
            self._db.execute("COMMIT")
        except Exception:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _unusable(self, error: Exception) -> CacheError:
        return CacheError(
            f"The cache at {self.path} cannot be used: {error}.",
            "What it held is safe; free some space or set HOPTREE_CACHE to another file.",
        )

    def close(self) -> None:
        if self._waiting:
            self._flush()
        self._db.close()


def _dump(reply: Reply, seconds: float) -> str:
    usage = reply.usage
    return json.dumps(
        {
            "choices": [
                [c.text, c.reasoning, c.finish, [[t.text, t.logprob, t.top] for t in c.tokens]] for c in reply.choices
            ],
            "usage": [usage.prompt, usage.cached, usage.completion, usage.reasoning],
            "seconds": round(seconds, 4),
        },
    )


def _load(text: str) -> CachedReply:
    data: dict[str, Any] = json.loads(text)
    choices = tuple(
        Choice(said, thought, finish, tuple(Token(t, p, tuple((a, b) for a, b in top)) for t, p, top in tokens))
        for said, thought, finish, tokens in data["choices"]
    )
    return Reply(choices, TokenUsage(*data["usage"])), float(data["seconds"])
