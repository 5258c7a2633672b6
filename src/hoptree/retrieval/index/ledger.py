"""The ledger of an index: its passages and files, for incremental changes.

A SQLite file beside the text index; a passage is one row of key, digest of its content, file and number.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hoptree.core.errors import CorpusError, IndexUnavailable
from hoptree.core.values import Passage
from hoptree.retrieval.index.tantivy_files import ALLOW, FREE_SPACE, composed, encode, is_plain

PASSED_FACT = "passed over"  # the names of left-out files that were reported
_BUILD_AGAIN = "Build the index again."
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
_ORPHANS = "select count(*) from passages where not exists (select 1 from files where files.id = passages.file)"
_MODULUS = 2**128
_MAX_FILES_TO_SCAN = 20
_ROWS_AT_ONCE = 10_000
_UNREADABLE, _OUTDATED = -1, -2
"""In place of the size of a file that was not read to its end; outdated if former passages of it are kept."""
_PREFIX = "prefix "
_OWN_FACTS = ("next", "passages", "digest", "first new")  # facts that are never copied from another ledger


@dataclass(frozen=True, slots=True)
class Entry:
    """The ledger's row of a passage."""

    key: int
    content: bytes
    file: int
    number: int


@dataclass(frozen=True, slots=True)
class FileState:
    """A file as it was when it was indexed."""

    id: int
    size: int
    modified_ns: int

    def fits(self, size: int, modified_ns: int) -> bool:
        """Return whether a file of this size and time counts as unchanged."""
        return (self.size, self.modified_ns) == (size, modified_ns)


def content_of(passage: Passage) -> bytes:
    """Return a digest of all that makes up a passage, as an index stores it."""
    written = (passage.id, composed(passage.title), composed(passage.text))
    digest = hashlib.blake2b(encode("\0".join(written)), digest_size=16)
    if not is_plain(passage):
        rest = (passage.document, passage.start, passage.end, passage.aliases, passage.metadata)
        links = (passage.anchors, passage.references)
        digest.update(encode(repr(rest + links if any(links) else rest)))  # without links as in earlier versions
    return digest.digest()


def open_ledger(path: Path, *, writable: bool) -> sqlite3.Connection:
    """Open the file, making its tables if writable; raise an error if it is damaged."""
    try:
        quoted = str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        uri = f"file:{quoted}?mode={'rwc' if writable else 'ro'}"
        db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        if writable:
            # The index folder is the unit of a transaction: a killed run's staging is checked when it resumes.
            db.executescript(f"pragma journal_mode=wal; pragma synchronous=normal; {_SCHEMA}")
            db.execute("pragma cache_size=-65536")
            db.execute("begin")
        for probe in _PROBES:
            db.execute(probe).fetchone()
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter from a message that quotes garbled text
        cause = f"The index's ledger {path} cannot be opened: {error}."
        if writable and getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            raise IndexUnavailable(cause, FREE_SPACE) from error
        raise CorpusError(cause, _BUILD_AGAIN if _may_read(path) else ALLOW) from error
    return db


def _may_read(path: Path) -> bool:
    """Return whether permissions allow opening a file; SQLite does not say so."""
    try:
        path.open("rb").close()
    except PermissionError:
        return False
    except OSError:
        pass
    return True


class SqliteFile:
    """A SQLite file with a table of facts about it; changes take effect on `commit`."""

    _db: sqlite3.Connection
    _facts = "facts"  # the name of that table

    def fact(self, name: str, default: str = "") -> str:
        row = self._db.execute(f"select value from {self._facts} where name = ?", (name,)).fetchone()
        return str(row[0]) if row else default

    def set_fact(self, name: str, value: str | int) -> None:
        self._db.execute(f"insert or replace into {self._facts} values (?, ?)", (name, str(value)))

    def commit(self) -> None:
        self._db.execute("commit")
        self._db.execute("begin")

    def close(self) -> None:
        """Close the file without leaving a journal."""
        if self._db.in_transaction:
            self._db.execute("rollback")
        self._db.close()


class Ledger(SqliteFile):
    """The rows of an index."""

    def __init__(self, path: Path, *, writable: bool = False) -> None:
        self._path = path
        self._db = open_ledger(path, writable=writable)

    # Facts about the index

    def number(self, name: str) -> int:
        """Return a fact that is a number; 0 if it is missing."""
        try:
            return int(self.fact(name, "0"))
        except ValueError as error:
            raise self._damaged(f"its '{name}' is not a number") from error

    @property
    def next_number(self) -> int:
        """The number of the next passage; every passage below it is in the text index."""
        return self.number("next")

    @property
    def digest(self) -> str:
        """The digest of the set of passages, in whatever order they came."""
        return f"{self.number('digest'):032x}"

    @property
    def passages(self) -> int:
        return self.number("passages")

    # Passages

    def look_up(self, keys: Sequence[int]) -> dict[int, Entry]:
        """Return the entries of these keys, for those that are there."""
        marks = ",".join("?" * len(keys))
        rows = self._db.execute(f"select key, content, file, number from passages where key in ({marks})", keys)
        return {row[0]: Entry(*row) for row in rows}

    def add(self, rows: Sequence[tuple[int, bytes, int, int]]) -> None:
        """Enter new passages (key, content, file, number); their keys must not be there."""
        self._db.executemany("insert into passages values (?, ?, ?, ?)", rows)
        self._count(len(rows), sum(int.from_bytes(content) for _, content, _, _ in rows))

    def drop(self, entries: Iterable[Entry]) -> None:
        dropped = list(entries)
        for table in ("passages", "also"):
            self._db.executemany(f"delete from {table} where key = ?", ((entry.key,) for entry in dropped))
        self._count(-len(dropped), -sum(int.from_bytes(entry.content) for entry in dropped))

    def _count(self, passages: int, contents: int) -> None:
        self.set_fact("passages", self.passages + passages)
        self.set_fact("digest", (self.number("digest") + contents) % _MODULUS)

    def move(self, keys: Sequence[int], file: int) -> None:
        """Assign unchanged passages to another file."""
        self._db.executemany("update passages set file = ? where key = ?", ((file, key) for key in keys))

    def note_also(self, keys: Sequence[int], file: int) -> None:
        """Note that these passages are in this file too, unchanged."""
        self._db.executemany("insert or ignore into also values (?, ?)", ((key, file) for key in keys))

    def also_in(self, keys: Sequence[int]) -> dict[int, list[int]]:
        """Return the further files of passages, for those that have some."""
        marks = ",".join("?" * len(keys))
        files: dict[int, list[int]] = {}
        query = f"select key, file from also where key in ({marks}) order by key, file"
        for key, file in self._db.execute(query, keys):
            files.setdefault(key, []).append(file)
        return files

    def of_file(self, file: int) -> Iterator[Entry]:
        """Yield the passages of a file by key; they may be moved or dropped meanwhile."""
        self._index_by_file()
        after = -1
        query = "select key, content, file, number from passages where file = ? and key > ? order by key limit ?"
        while rows := self._db.execute(query, (file, after, _ROWS_AT_ONCE)).fetchall():
            after = rows[-1][0]
            yield from (Entry(*row) for row in rows)

    def _index_by_file(self) -> None:
        if self._db.execute("select count(*) from files").fetchone()[0] > _MAX_FILES_TO_SCAN:
            # Made only when it is needed: keeping it up to date would slow down every build.
            self._db.execute("create index if not exists passages_of_file on passages (file)")

    # Files: one that is read again gets a new id; passages left under the old id have vanished from it

    def file(self, source: str, name: str, *, complete: bool = True) -> FileState | None:
        row = self._db.execute(
            "select id, size, modified from files where source = ? and name = ? and complete = ? order by id desc",
            (source, name, complete),
        ).fetchone()
        return FileState(*row) if row else None

    def enter_file(self, source: str, name: str, size: int, modified_ns: int) -> int:
        """Begin with a file, or resume it if it was interrupted."""
        begun = self.file(source, name, complete=False)
        if begun is not None and begun.fits(size, modified_ns):
            return begun.id
        cursor = self._db.execute(
            "insert into files (source, name, size, modified, complete) values (?, ?, ?, ?, 0)",
            (source, name, size, modified_ns),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def complete_file(self, file: int) -> None:
        self._db.execute("update files set complete = 1 where id = ?", (file,))

    def break_off(self, file: int, before: Iterable[int]) -> None:
        """Give a file that could not be read to its end its former passages.

        It is read again next time.
        """
        self._index_by_file()
        moved = 0
        for old in before:
            moved += self._db.execute("update passages set file = ? where file = ?", (file, old)).rowcount
            moved += self._db.execute("update or ignore also set file = ? where file = ?", (file, old)).rowcount
        self._db.execute("update files set size = ? where id = ?", (_OUTDATED if moved else _UNREADABLE, file))

    def broken_off(self) -> dict[str, bool]:
        """Return the files not read to their end; true for passages of an earlier state."""
        rows = self._db.execute("select name, size from files where size < 0 order by name")
        return {name: size == _OUTDATED for name, size in rows}

    def was_broken_off(self, source: str, name: str, modified_ns: int) -> bool:
        """Return whether a file could not be read to its end and has not changed since."""
        state = self.file(source, name, complete=False)
        return state is not None and state.size < 0 and state.modified_ns == modified_ns

    def place_of(self, file: int) -> tuple[str, str]:
        """Return source and name of a file."""
        row = self._db.execute("select source, name from files where id = ?", (file,)).fetchone()
        return (str(row[0]), str(row[1])) if row else ("", "")

    def ids_of(self, source: str, name: str) -> list[int]:
        """Return all ids of a file, also of unfinished readings."""
        return self._column("select id from files where source = ? and name = ?", source, name)

    def files_named(self, document: str) -> list[int]:
        """Return the files that a document's name, with its source's prefix, means."""
        files: list[int] = []
        for source in self.sources():
            prefix = self.prefix_of(source)
            name = document.removeprefix(f"{prefix}/") if prefix else document
            if not prefix or name != document:
                files += self.ids_of(source, name)
        return files

    def has_below(self, prefix: str) -> bool:
        """Return whether a source's prefix, or a folder with files, has this name."""
        inside = "select 1 from files where source = ? and name > ? and name < ?"
        for source in self.sources():
            own = self.prefix_of(source)
            if own and (f"{own}/".startswith(f"{prefix}/") or prefix.startswith(f"{own}/")):
                return True
            if not own and self._db.execute(inside, (source, f"{prefix}/", f"{prefix}0")).fetchone():  # 0 follows /
                return True
        return False

    def mark_present(self, files: Sequence[int]) -> None:
        """Note files that still exist, for `gone`."""
        self._db.execute("create temp table if not exists present (id integer primary key)")
        self._db.executemany("insert or ignore into present values (?)", ((file,) for file in files))

    def gone(self, source: str) -> list[int]:
        """Return the files of a source that were not marked as present."""
        self.mark_present(())
        return self._column("select id from files where source = ? and id not in (select id from present)", source)

    def files(self, source: str | None = None) -> list[tuple[int, str, str]]:
        """Return id, source and name of the files, of one source or of all."""
        query = "select id, source, name from files where ?1 is null or source = ?1 order by id"
        return self._db.execute(query, (source,)).fetchall()

    def files_with_passages(self) -> set[int]:
        """Return the ids of the files with passages, including repeated ones."""
        also = self._column("select distinct file from also") if self._has_also() else []
        return {*self._column("select distinct file from passages"), *also}

    def passed_over(self) -> list[str]:
        """Return the names of left-out files, but for those that were read later."""
        names = filter(None, self.fact(PASSED_FACT).split("\n"))
        read = {name for _, _, name in self.files()}
        return sorted(name for name in names if name not in read)

    def spans(self) -> list[tuple[int, int]]:
        """Return the lowest and the highest number of each file's passages, in order."""
        return self._db.execute("select min(number), max(number) from passages group by file order by 1").fetchall()

    def _has_also(self) -> bool:
        """Return whether there is a table of repeated passages, which older ledgers lack."""
        return self._db.execute("select 1 from sqlite_master where name = 'also'").fetchone() is not None

    def copy_files(self, other: Ledger) -> None:
        """Copy the files of another ledger, under their ids, and the facts about them."""
        rows = other._db.execute("select id, source, name, size, modified, complete from files")
        self._db.executemany("insert or replace into files values (?, ?, ?, ?, ?, ?)", rows)
        if other._has_also():
            also = other._db.execute("select key, file from also")
            self._db.executemany("insert or ignore into also values (?, ?)", also)
        facts = (row for row in other._db.execute("select name, value from facts") if row[0] not in _OWN_FACTS)
        self._db.executemany("insert or ignore into facts values (?, ?)", facts)

    def forget_also(self, file: int) -> None:
        """Forget which passages of other files a file holds too."""
        self._db.execute("delete from also where file = ?", (file,))

    def leave(self, files: Iterable[int]) -> None:
        """Prepare to drop files: no passage moves to them, and they would be read again."""
        self._db.execute("create temp table if not exists leaving (id integer primary key)")
        self._db.execute("delete from leaving")
        self._db.executemany("insert or ignore into leaving values (?)", ((file,) for file in files))
        self._db.execute("delete from also where file in (select id from leaving)")
        self._db.execute("update files set complete = 0, size = ? where id in (select id from leaving)", (_UNREADABLE,))

    def drop_file(self, file: int) -> None:
        self._db.execute("delete from files where id = ?", (file,))

    # Sources: each has a prefix, with which the names of its documents begin

    def enter_source(self, source: str, prefix: str) -> None:
        self.set_fact(f"{_PREFIX}{source}", prefix)

    def prefix_of(self, source: str) -> str:
        return self.fact(f"{_PREFIX}{source}")

    def forget_source(self, source: str) -> None:
        self._db.execute("delete from facts where name = ?", (f"{_PREFIX}{source}",))

    def sources(self) -> list[str]:
        """Return the sources, also those that hold no file at present."""
        entered = self._column("select name from facts where substr(name, 1, ?) = ?", len(_PREFIX), _PREFIX)
        of_files = self._column("select distinct source from files where source <> ''")
        return sorted({name.removeprefix(_PREFIX) for name in entered} | {*of_files})

    # What a change removed, and the names that links look for

    def note_removed(self, entries: Sequence[Entry]) -> None:
        self._db.executemany("insert or ignore into removed values (?)", ((entry.key,) for entry in entries))

    def removed(self) -> Iterator[int]:
        """Yield the keys that this change removed, also if it adds them again."""
        return self._stream("select key from removed")

    def forget_removed(self) -> None:
        self._db.execute("delete from removed")

    def enter_names(self, names: Iterable[str], since: int) -> None:
        """Enter names that passages bear; known ones keep their age."""
        self._db.executemany("insert or ignore into names values (?, ?)", ((name, since) for name in names))

    def names(self, since: int = 0) -> Iterator[str]:
        """Yield the names in order, all of them or those entered since a number."""
        return self._stream("select name from names where since >= ? order by name", since)

    def _stream(self, query: str, *values: object) -> Iterator[Any]:
        cursor = self._db.execute(query, values)
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            yield from (row[0] for row in rows)

    def _column(self, query: str, *values: object) -> list[Any]:
        return [row[0] for row in self._db.execute(query, values)]

    # The file

    def check(self) -> None:
        """Raise an error if the file is damaged, or its rows contradict each other."""
        try:
            (verdict,) = self._column("pragma integrity_check(1)")
            (rows,), (orphans,) = self._column("select count(*) from passages"), self._column(_ORPHANS)
        except sqlite3.Error as error:
            raise self._damaged(str(error)) from error
        if verdict != "ok":
            raise self._damaged(verdict)
        if rows != self.passages:
            raise self._damaged(f"{rows:,} rows for {self.passages:,} passages")
        if orphans:
            raise self._damaged(f"{orphans:,} passages are of a file that it does not know")

    def _damaged(self, why: str) -> CorpusError:
        return CorpusError(f"The index's ledger {self._path} is damaged: {why}.", _BUILD_AGAIN)

    @property
    def bytes(self) -> int:
        """The size on disk."""
        return self._path.stat().st_size

    def settle(self) -> None:
        """Write everything into the one file, so that read-only access is enough."""
        self._db.execute("commit")
        self._db.execute("pragma journal_mode=delete")
        self._db.execute("begin")
