"""Replies of a public server that need not be asked for again, in SQLite."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from pathlib import Path

from hoptree.errors import CacheError
from hoptree.folders import cache_folder

__all__ = ["KEPT_DAYS", "Remembered", "beside_cache"]

KEPT_DAYS = 30.0
"""Wikidata and Wikipedia change; what they said a month ago most often still holds."""


def beside_cache(name: str) -> Path:
    """A file of this name beside $HOPTREE_CACHE, or in the user's cache folder."""
    named = os.environ.get("HOPTREE_CACHE")
    return Path(named).with_name(name) if named else cache_folder() / name


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
