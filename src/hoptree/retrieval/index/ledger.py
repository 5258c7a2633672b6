"""What an index holds, passage by passage and file by file, so that only what changed is touched.

A SQLite file beside the text index. A passage is one row: its key, a digest of its content, the file it came from and
its number in the order of indexing. Memory does not grow with the corpus; keys that come twice show at once.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hoptree.core.errors import CorpusError, IndexUnavailable
from hoptree.core.values import Passage
from hoptree.retrieval.index.analysis import composed
from hoptree.retrieval.index.tantivy_files import ALLOW

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


_MODULUS = 2**128
_FILES_TO_SCAN = 20
_PREFIX = "prefix "
_COUNTED = ("next", "passages", "digest", "first new")
"""Facts that every ledger comes to by itself."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One passage as the ledger knows it."""

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
        """Whether a file of this size and time is taken for the same."""
        return (self.size, self.modified_ns) == (size, modified_ns)


def key_of(passage_id: str) -> int:
    """The 63-bit number that stands for a passage id in the index."""
    return int.from_bytes(hashlib.blake2b(_bytes(passage_id), digest_size=8).digest()) >> 1


def content_of(passage: Passage) -> bytes:
    """A digest of all that makes a passage what it is, written as an index keeps it."""
    written = (passage.id, composed(passage.title), composed(passage.text))
    said = hashlib.blake2b(_bytes("\0".join(written)), digest_size=16)
    if not is_plain(passage):
        rest = (passage.document, passage.start, passage.end, passage.aliases, passage.metadata)
        said.update(_bytes(repr(rest)))
    return said.digest()


def is_plain(passage: Passage) -> bool:
    """Whether a passage is a document of its own with nothing but id, title and text."""
    return (
        not passage.aliases
        and not passage.metadata
        and (not passage.document or (passage.document == passage.id and passage.end == len(passage.text)))
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


class Ledger:
    """The rows of an index. What is written counts from the next `commit` on."""

    def __init__(self, path: Path, *, writable: bool = False) -> None:
        self._path = path
        self._db = open_ledger(path, writable=writable)

    # Facts about the whole

    def fact(self, name: str, default: str = "") -> str:
        row = self._db.execute("select value from facts where name = ?", (name,)).fetchone()
        return str(row[0]) if row else default

    def set_fact(self, name: str, value: str | int) -> None:
        self._db.execute("insert or replace into facts values (?, ?)", (name, str(value)))

    def number(self, name: str) -> int:
        """A fact that is a number, 0 if it is not there."""
        said = self.fact(name, "0")
        try:
            return int(said)
        except ValueError as error:
            raise self._damaged(f"its '{name}' is no number") from error

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
        """The entries of these keys, for those that are there."""
        marks = ",".join("?" * len(keys))
        rows = self._db.execute(f"select key, content, file, number from passages where key in ({marks})", keys)
        return {row[0]: Entry(*row) for row in rows}

    def add(self, rows: Sequence[tuple[int, bytes, int, int]]) -> None:
        """Enter new passages (key, content, file, number); their keys must not be there."""
        self._db.executemany("insert into passages values (?, ?, ?, ?)", rows)
        self._count(len(rows), sum(int.from_bytes(content) for _, content, _, _ in rows))

    def drop(self, entries: Iterable[Entry]) -> None:
        dropped = list(entries)
        self._db.executemany("delete from passages where key = ?", ((entry.key,) for entry in dropped))
        self._db.executemany("delete from also where key = ?", ((entry.key,) for entry in dropped))
        self._count(-len(dropped), -sum(int.from_bytes(entry.content) for entry in dropped))

    def move(self, keys: Sequence[int], file: int) -> None:
        """Passages that are as they were, but stand in another file now."""
        self._db.executemany("update passages set file = ? where key = ?", ((file, key) for key in keys))

    def note_also(self, keys: Sequence[int], file: int) -> None:
        """Passages that stand in this file too, as they are in the one they came from."""
        self._db.executemany("insert or ignore into also values (?, ?)", ((key, file) for key in keys))

    def also_in(self, keys: Sequence[int]) -> dict[int, list[int]]:
        """The further files of passages, for those that have some."""
        marks = ",".join("?" * len(keys))
        found: dict[int, list[int]] = {}
        for key, file in self._db.execute(
            f"select key, file from also where key in ({marks}) order by key, file", keys
        ):
            found.setdefault(key, []).append(file)
        return found

    def of_file(self, file: int) -> Iterator[Entry]:
        """The passages of a file by ascending key, in bounded memory; they may be moved or dropped meanwhile."""
        self._index_files()
        after = -1
        while rows := self._db.execute(
            "select key, content, file, number from passages where file = ? and key > ? order by key limit 10000",
            (file, after),
        ).fetchall():
            after = rows[-1][0]
            yield from (Entry(*row) for row in rows)

    def _index_files(self) -> None:
        if self._db.execute("select count(*) from files").fetchone()[0] > _FILES_TO_SCAN:
            # Made only when it is needed: keeping it up to date would slow down every build.
            self._db.execute("create index if not exists passages_of_file on passages (file)")

    def _count(self, passages: int, contents: int) -> None:
        self.set_fact("passages", self.passages + passages)
        self.set_fact("digest", (self.number("digest") + contents) % _MODULUS)

    # Files: one that is read again gets a new id, so that what is left under the old one is what vanished from it

    def file(self, source: str, name: str, *, complete: bool = True) -> FileState | None:
        row = self._db.execute(
            "select id, size, modified from files where source = ? and name = ? and complete = ? order by id desc",
            (source, name, complete),
        ).fetchone()
        return FileState(*row) if row else None

    def enter_file(self, source: str, name: str, size: int, modified_ns: int) -> int:
        """Begin with a file, or go on with one whose reading was cut off."""
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
        """A file that was not read to its end: what it held before is its own too, and it is read again next time."""
        self._index_files()
        for old in before:
            self._db.execute("update passages set file = ? where file = ?", (file, old))
            self._db.execute("update or ignore also set file = ? where file = ?", (file, old))
        self._db.execute("update files set size = -1 where id = ?", (file,))

    def place_of(self, file: int) -> tuple[str, str]:
        """Source and name of a file."""
        row = self._db.execute("select source, name from files where id = ?", (file,)).fetchone()
        return (str(row[0]), str(row[1])) if row else ("", "")

    def ids_of(self, source: str, name: str) -> list[int]:
        """The ids under which a file was read, or begun to be."""
        rows = self._db.execute("select id from files where source = ? and name = ?", (source, name))
        return [row[0] for row in rows]

    def files_named(self, document: str) -> list[int]:
        """The files by whose name, after the prefix of their source, a document goes."""
        found: list[int] = []
        for source in self.sources():
            prefix = self.prefix_of(source)
            name = document.removeprefix(f"{prefix}/") if prefix else document
            if not prefix or name != document:
                found += self.ids_of(source, name)
        return found

    def has_below(self, prefix: str) -> bool:
        """Whether a name before a slash is taken: by the prefix of a source, or by files that lie in such a folder."""
        for source in self.sources():
            own = self.prefix_of(source)
            if own and (f"{own}/".startswith(f"{prefix}/") or prefix.startswith(f"{own}/")):
                return True
            inside = "select 1 from files where source = ? and name > ? and name < ?"
            if not own and self._db.execute(inside, (source, f"{prefix}/", f"{prefix}0")).fetchone():  # 0 follows /
                return True
        return False

    def mark_present(self, files: Sequence[int]) -> None:
        """Note files that are still there, for `gone`."""
        self._db.execute("create temp table if not exists present (id integer primary key)")
        self._db.executemany("insert or ignore into present values (?)", ((file,) for file in files))

    def gone(self, source: str) -> list[int]:
        """The files of a source that were not marked as present."""
        self.mark_present(())
        rows = self._db.execute(
            "select id from files where source = ? and id not in (select id from present)", (source,)
        )
        return [row[0] for row in rows]

    def files(self, source: str | None = None) -> list[tuple[int, str, str]]:
        """Id, source and name of the files, of one source or of all."""
        if source is None:
            return self._db.execute("select id, source, name from files order by id").fetchall()
        return self._db.execute("select id, source, name from files where source = ? order by id", (source,)).fetchall()

    def copy_files(self, other: Ledger) -> None:
        """Enter the files of another ledger under the ids they have there, and the facts that go with them."""
        rows = other._db.execute("select id, source, name, size, modified, complete from files")
        self._db.executemany("insert or replace into files values (?, ?, ?, ?, ?, ?)", rows)
        if other._db.execute("select 1 from sqlite_master where name = 'also'").fetchone():  # else it is an older one
            self._db.executemany(
                "insert or ignore into also values (?, ?)", other._db.execute("select key, file from also")
            )
        facts = other._db.execute("select name, value from facts")
        self._db.executemany(
            "insert or ignore into facts values (?, ?)", (fact for fact in facts if fact[0] not in _COUNTED)
        )

    def forget_also(self, file: int) -> None:
        """A file no longer holds what others hold too."""
        self._db.execute("delete from also where file = ?", (file,))

    def leave(self, files: Iterable[int]) -> None:
        """Files that are about to be dropped: no passage moves to them, and if they come back, they are read."""
        self._db.execute("create temp table if not exists leaving (id integer primary key)")
        self._db.execute("delete from leaving")
        self._db.executemany("insert or ignore into leaving values (?)", ((file,) for file in files))
        self._db.execute("delete from also where file in (select id from leaving)")
        self._db.execute("update files set complete = 0, size = -1 where id in (select id from leaving)")

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
        """The sources, also those that hold no file at present."""
        entered = self._db.execute("select name from facts where substr(name, 1, ?) = ?", (len(_PREFIX), _PREFIX))
        of_files = self._db.execute("select distinct source from files where source <> ''")
        return sorted({row[0].removeprefix(_PREFIX) for row in entered} | {row[0] for row in of_files})

    # What a change took out, and the names that links look for

    def note_removed(self, entries: Sequence[Entry]) -> None:
        self._db.executemany("insert or ignore into removed values (?)", ((entry.key,) for entry in entries))

    def removed(self) -> Iterator[int]:
        """The keys this change took out, some of them to be put in anew."""
        cursor = self._db.execute("select key from removed")
        while rows := cursor.fetchmany(10_000):
            yield from (row[0] for row in rows)

    def forget_removed(self) -> None:
        self._db.execute("delete from removed")

    def enter_names(self, names: Iterable[str], since: int) -> None:
        """Enter names that passages bear; one that is there already stays as old as it was."""
        self._db.executemany("insert or ignore into names values (?, ?)", ((name, since) for name in names))

    def names(self, since: int = 0) -> Iterator[str]:
        """The names in their order, all of them or those that are as new as that."""
        cursor = self._db.execute("select name from names where since >= ? order by name", (since,))
        while rows := cursor.fetchmany(10_000):
            yield from (row[0] for row in rows)

    def count_names(self, since: int = 0) -> int:
        return int(self._db.execute("select count(*) from names where since >= ?", (since,)).fetchone()[0])

    # Whether it is sound

    def check(self) -> None:
        """An error if the file is damaged anywhere, its counts do not fit its rows, or a passage has no file."""
        if why := flaw_of(self._db, self.passages):
            raise self._damaged(why)

    def _damaged(self, why: str) -> CorpusError:
        return CorpusError(f"The index's ledger {self._path} is damaged: {why}.", BUILD_LEDGER_AGAIN)

    # Transactions

    @property
    def bytes(self) -> int:
        """Its size on disk."""
        return self._path.stat().st_size

    @property
    def mode(self) -> int:
        """The permissions that a file here has by default."""
        return self._path.stat().st_mode & 0o666

    def commit(self) -> None:
        self._db.execute("commit")
        self._db.execute("begin")

    def close(self) -> None:
        """Leave one plain file, without a journal beside it."""
        if self._db.in_transaction:
            self._db.execute("rollback")
        self._db.close()

    def settle(self) -> None:
        """Write everything into the one file, for readers that may not write."""
        self._db.execute("commit")
        self._db.execute("pragma journal_mode=delete")
        self._db.execute("begin")
