"""The facts of an index on disk: which passage states what, and which phrases are synonyms.

    facts/facts.sqlite   facts by passage, pairs of synonyms, and the encoder
    facts/facts/         a vector for each fact, if there is an encoder
    facts/phrases/       a vector for each phrase

A passage is stored with the digest it had when its facts were added: facts of one that changed do not count.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hoptree.core.errors import CorpusError, InputError
from hoptree.core.values import Fact
from hoptree.corpus.files import open_bytes
from hoptree.retrieval.index.ledger import SqliteFile, key_of
from hoptree.retrieval.index.links import folded
from hoptree.retrieval.index.tantivy_files import composed


def phrase_of(name: str) -> str:
    """Return the node that a subject or object stands for: "The Hague" and "the Hague." are one."""
    plain = composed(name)
    return folded(plain) or plain.strip()  # punctuation alone is a name, too


def phrase_key(phrase: str) -> int:
    """Return the key of a phrase's vector."""
    return key_of(phrase)


def fact_text(subject: str, relation: str, object_: str) -> str:
    """Return a fact as an encoder and a model read it."""
    return " ".join(" ".join((subject, relation, object_)).split())


def fact_key(subject: str, relation: str, object_: str) -> int:
    """Return the key of a fact's vector; passages that state the same share it."""
    return key_of("\0".join((phrase_of(subject), phrase_of(relation), phrase_of(object_))))


FOLDER, FILE = "facts", "facts.sqlite"
FORMAT = 1
_SCHEMA = """
create table if not exists about (name text primary key, value text) without rowid;
create table if not exists passages (key integer primary key, id text, content blob);
create table if not exists facts (
    key integer, passage integer, subject text, relation text, object text, primary key (key, passage)) without rowid;
create index if not exists facts_by_passage on facts (passage);
create table if not exists synonyms (one integer, other integer, cosine real, primary key (one, other)) without rowid;
create table if not exists compared (phrase integer primary key);
"""


def facts_damaged(index: Path, why: object) -> CorpusError:
    return CorpusError(
        f"The facts of the index {index} are damaged: {why}.",
        f"Take them in again: hoptree index facts FOLDER --out {index}",
    )


class FactStore(SqliteFile):
    """The SQLite file of facts; `index` is named in errors."""

    def __init__(self, folder: Path, index: Path, *, writable: bool = False) -> None:
        self.folder, self._index = folder, index
        path = folder / FILE
        if writable:
            folder.mkdir(exist_ok=True)
        elif not path.is_file():
            raise CorpusError(
                f"The index {index} has no facts.",
                "Extract them: hoptree graph extract "
                f"{index} --out FOLDER; then take them in: hoptree index facts FOLDER --out {index}",
            )
        try:
            where = f"{path.resolve().as_uri()}?mode={'rwc' if writable else 'ro'}"
            self._db = sqlite3.connect(where, uri=True, isolation_level=None, check_same_thread=False)
            if writable:
                self._db.executescript(f"pragma synchronous=normal; {_SCHEMA}")
            elif self.about("format") != str(FORMAT):
                raise facts_damaged(index, f"they are of format {self.about('format') or 'none'}, not {FORMAT}")
            self._db.execute("begin")
        except sqlite3.Error as error:
            raise facts_damaged(index, error) from error

    # Settings

    def about(self, name: str) -> str:
        row = self._db.execute("select value from about where name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def set_about(self, name: str, value: str) -> None:
        self._db.execute("insert or replace into about values (?, ?)", (name, value))

    # Facts by passage

    def put(self, key: int, passage_id: str, content: bytes, facts: Sequence[Fact]) -> None:
        """Replace the facts of a passage."""
        self.drop([key])
        self._db.execute("insert into passages values (?, ?, ?)", (key, passage_id, content))
        rows = ((fact_key(f.subject, f.relation, f.object), key, f.subject, f.relation, f.object) for f in facts)
        self._db.executemany("insert or ignore into facts values (?, ?, ?, ?, ?)", rows)

    def drop(self, passages: Iterable[int]) -> None:
        for key in passages:
            self._db.execute("delete from passages where key = ?", (key,))
            self._db.execute("delete from facts where passage = ?", (key,))

    def contents(self) -> dict[int, bytes]:
        """Return the digest that each passage had when its facts were added."""
        return dict(self._all("select key, content from passages"))

    def facts(self) -> Iterator[tuple[int, int, Fact]]:
        """Yield key of the fact, key of the passage, and the fact; in a fixed order."""
        rows = self._all(
            "select facts.key, passage, subject, relation, object, id from facts "
            "join passages on passage = passages.key order by passage, facts.key"
        )
        for key, passage, subject, relation, object_, name in rows:
            yield key, passage, Fact(subject, relation, object_, passage_id=name)

    # Synonyms

    def synonyms(self) -> Iterator[tuple[int, int, float]]:
        return self._all("select one, other, cosine from synonyms order by one, other")

    def compared(self) -> set[int]:
        """Return the phrases whose synonyms among all phrases are known."""
        return {row[0] for row in self._all("select phrase from compared")}

    def add_synonyms(self, phrases: Iterable[int], pairs: Iterable[tuple[int, int, float]]) -> None:
        """Note the pairs of these phrases, and that they have been compared."""
        self._db.executemany("insert or ignore into synonyms values (?, ?, ?)", pairs)
        self._db.executemany("insert or ignore into compared values (?)", ((phrase,) for phrase in phrases))

    def forget_phrases(self, phrases: Collection[int]) -> None:
        for phrase in phrases:
            self._db.execute("delete from synonyms where one = ?", (phrase,))
            self._db.execute("delete from compared where phrase = ?", (phrase,))
        forgotten = set(phrases)
        pairs = [pair[:2] for pair in self.synonyms() if pair[1] in forgotten] if forgotten else []
        self._db.executemany("delete from synonyms where one = ? and other = ?", pairs)

    def forget_synonyms(self) -> None:
        self._db.execute("delete from synonyms")
        self._db.execute("delete from compared")

    # The file

    def check(self) -> None:
        """Raise an error if the file is damaged anywhere."""
        (verdict,) = next(self._all("pragma integrity_check(1)"))
        if verdict != "ok":
            raise facts_damaged(self._index, verdict)

    def _all(self, query: str) -> Iterator[Any]:
        try:
            yield from self._db.execute(query)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise facts_damaged(self._index, error) from error


FACTS = "facts.jsonl"
_FIELDS = (("s", "subject"), ("p", "relation"), ("o", "object"))
_FORM = 'A line is {"s": SUBJECT, "p": RELATION, "o": OBJECT, "src": [PASSAGE ID]}.'


def read_facts(path: Path) -> Iterator[Fact]:
    """Read the facts of an extraction's folder or of its `facts.jsonl`, gzipped or not; one for each passage."""
    file = path / FACTS if path.is_dir() else path
    if not file.is_file():
        raise InputError(
            f"There are no facts at {path}." if file == path else f"{path} holds no {FACTS}.",
            "Make them: hoptree graph extract CORPUS --out FOLDER",
        )
    try:
        with open_bytes(file) as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield from _facts_of(line, number, file)
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error}.", "Give a file of facts that can.") from error


def _facts_of(line: bytes, number: int, file: Path) -> Iterator[Fact]:
    try:
        row: dict[str, Any] = json.loads(line)
        subject, relation, object_ = (_text(row, names) for names in _FIELDS)
        passages = row.get("src", row.get("passage_id"))
        passages = [passages] if isinstance(passages, str) else passages
        if not isinstance(passages, list) or not passages or not all(name and type(name) is str for name in passages):
            raise ValueError("it names no passage")
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"Line {number} of {file} is no fact of a passage ({error}).", _FORM) from error
    for passage in dict.fromkeys(passages):
        yield Fact(subject, relation, object_, passage_id=passage)


def _text(row: dict[str, Any], names: tuple[str, ...]) -> str:
    value = next((row[name] for name in names if name in row), None)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"no text for '{names[0]}'")
    return " ".join(value.split())
