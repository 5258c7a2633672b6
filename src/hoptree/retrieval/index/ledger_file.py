"""The SQLite file of a ledger: its tables, how it is opened, and whether it is sound."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from hoptree.errors import CorpusError, IndexUnavailable
from hoptree.retrieval.index.tantivy_folder import ALLOW

__all__ = ["BUILD_LEDGER_AGAIN", "flaw_of", "open_ledger"]

BUILD_LEDGER_AGAIN = "Build the index again."
_SCHEMA = """
create table if not exists passages (key integer primary key, content blob, file integer, number integer);
create table if not exists files (
    id integer primary key, source text, name text, size integer, modified integer, complete integer);
create index if not exists files_by_name on files (source, name);
create table if not exists also (key integer, file integer, primary key (key, file)) without rowid;
create table if not exists removed (key integer primary key);
create table if not exists names (name text primary key, since integer) without rowid;
create table if not exists facts (name text primary key, value text) without rowid;
"""
_PROBES = (
    "select key, content, file, number from passages limit 1",
    "select id, source, name, size, modified, complete from files limit 1",
    "select name, since from names limit 1",
    "select name, value from facts limit 1",
)
_ASTRAY = "select count(*) from passages where not exists (select 1 from files where files.id = passages.file)"


def open_ledger(path: Path, *, writable: bool) -> sqlite3.Connection:
    """The file, with its tables made where it may be written; an error if it is no ledger."""
    try:
        where = f"file:{_quoted(path)}?mode={'rwc' if writable else 'ro'}"
        db = sqlite3.connect(where, uri=True, isolation_level=None, check_same_thread=False)
        if writable:
            # The index folder is the unit of a transaction: a killed run's staging is checked when it resumes.
            db.executescript(f"pragma journal_mode=wal; pragma synchronous=normal; {_SCHEMA}")
            db.execute("pragma cache_size=-65536")
            db.execute("begin")
        for probe in _PROBES:
            db.execute(probe).fetchone()
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter from a message that quotes what is garbled
        cause = f"The index's ledger {path} cannot be opened: {error}."
        if writable and getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            raise IndexUnavailable(cause, "Free some space, then run the same command again.") from error
        raise CorpusError(cause, BUILD_LEDGER_AGAIN if _may_read(path) else ALLOW) from error
    return db


def flaw_of(db: sqlite3.Connection, passages: int) -> str:
    """What is wrong with a ledger of so many passages: the file, the count of its rows, or a row without its file."""
    try:
        said = str(db.execute("pragma integrity_check(1)").fetchone()[0])
        rows = db.execute("select count(*) from passages").fetchone()[0]
        astray = db.execute(_ASTRAY).fetchone()[0]
    except sqlite3.Error as error:
        return str(error)
    if said != "ok":
        return said
    if rows != passages:
        return f"{rows:,} rows for {passages:,} passages"
    return f"{astray:,} passages are of a file that it does not know" if astray else ""


def _may_read(path: Path) -> bool:
    """Whether a file, if it is there, may be opened; SQLite does not tell why it could not."""
    try:
        path.open("rb").close()
    except PermissionError:
        return False
    except OSError:
        pass
    return True


def _quoted(path: Path) -> str:
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
