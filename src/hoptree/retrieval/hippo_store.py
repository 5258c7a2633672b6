"""The facts of an index on disk, with synonyms of phrases, and how they are added.

    facts/facts.sqlite   facts by passage, pairs of synonyms, and the encoder
    facts/facts/         a vector for each fact, if there is an encoder
    facts/phrases/       a vector for each phrase

A passage is stored with its digest: facts of one that has changed since do not count.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hoptree.core.errors import CorpusError, InputError
from hoptree.core.files import batched
from hoptree.core.values import Fact
from hoptree.corpus.files import open_bytes
from hoptree.retrieval.encoder import FloatArray, np, open_encoder
from hoptree.retrieval.index.change import Change
from hoptree.retrieval.index.ledger import Ledger, SqliteFile
from hoptree.retrieval.index.links import folded
from hoptree.retrieval.index.tantivy_files import composed, key_of
from hoptree.retrieval.vectors import VectorWriter, encode_missing, open_files


def phrase_of(name: str) -> str:
    """Return the node of a subject or object: "The Hague" and "the Hague." share one."""
    plain = composed(name)
    return folded(plain) or plain.strip()  # punctuation alone is a name, too


def fact_text(fact: Fact) -> str:
    """Return a fact as an encoder and a model read it."""
    return " ".join(f"{fact.subject} {fact.relation} {fact.object}".split())


def fact_key(fact: Fact) -> int:
    """Return the key of a fact's vector; passages that state the same share it."""
    return key_of("\0".join(map(phrase_of, (fact.subject, fact.relation, fact.object))))


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
    cause = f"The facts of the index {index} are damaged: {why}."
    return CorpusError(cause, f"Take them in again: hoptree index facts FOLDER --out {index}")


class FactStore(SqliteFile):
    """The SQLite file of facts; `index` is named in errors."""

    _facts = "about"

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
            elif self.fact("format") != str(FORMAT):
                raise facts_damaged(index, f"they are of format {self.fact('format') or 'none'}, not {FORMAT}")
            self._db.execute("begin")
        except sqlite3.Error as error:
            raise facts_damaged(index, error) from error

    def put(self, key: int, passage_id: str, content: bytes, facts: Sequence[Fact]) -> None:
        """Replace the facts of a passage."""
        self.drop([key])
        self._db.execute("insert into passages values (?, ?, ?)", (key, passage_id, content))
        rows = ((fact_key(f), key, f.subject, f.relation, f.object) for f in facts)
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
        forgotten = set(phrases)
        pairs = [pair[:2] for pair in self.synonyms() if not forgotten.isdisjoint(pair[:2])] if forgotten else []
        self._db.executemany("delete from synonyms where one = ? and other = ?", pairs)
        self._db.executemany("delete from compared where phrase = ?", ((phrase,) for phrase in forgotten))

    def forget_synonyms(self) -> None:
        self._db.execute("delete from synonyms")
        self._db.execute("delete from compared")

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
    """Read `facts.jsonl`, or that of an extraction's folder; a Fact for each passage."""
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
        raise InputError(f"Line {number} of {file} is not a fact of a passage ({error}).", _FORM) from error
    for passage in dict.fromkeys(passages):
        yield Fact(subject, relation, object_, passage_id=passage)


def _text(row: dict[str, Any], names: tuple[str, ...]) -> str:
    value = next((row[name] for name in names if name in row), None)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"no text for '{names[0]}'")
    return " ".join(value.split())


SYNONYM_COSINE = 0.8  # the least cosine of two phrases that count as synonyms
_MAX_SYNONYMS = 100
_MAX_INITIALS = 2  # letters and digits up to which a phrase has no synonyms: initials are near to everything
_COMPARE_AT_ONCE = 512
_LOOK_UP_AT_ONCE = 500
_DECIMALS = 6
_NUMBER = re.compile(r"\d+")


def synonyms_of(
    folder: Path, fresh: Mapping[int, str], phrases: Mapping[int, str]
) -> Iterator[tuple[list[int], list[tuple[int, int, float]]]]:
    """Yield batches of the fresh phrases with their synonyms among all phrases.

    Phrases with different numbers in them ("1912", "12 May 1913") are near to each other, but no synonyms.
    """
    keys, rows = _all_vectors(folder)
    place = {key: number for number, key in enumerate(keys)}
    wanted = [key for key in sorted(fresh) if key in place and _may_have(fresh[key])]
    others = np.array([key in phrases and _may_have(phrases[key]) for key in keys], dtype=bool)
    for start in range(0, len(wanted), _COMPARE_AT_ONCE):
        batch = wanted[start : start + _COMPARE_AT_ONCE]
        cosines = rows[[place[key] for key in batch]] @ rows.T
        pairs = []
        for key, row in zip(batch, cosines, strict=True):
            near = np.flatnonzero((row >= SYNONYM_COSINE) & others)
            for number in near[np.argsort(-row[near], kind="stable")][: _MAX_SYNONYMS + 1].tolist():
                other = keys[number]
                if other != key and _NUMBER.findall(phrases[other]) == _NUMBER.findall(phrases[key]):
                    pairs.append((min(key, other), max(key, other), round(min(float(row[number]), 1.0), _DECIMALS)))
        yield batch, pairs
    yield [key for key in fresh if key not in set(wanted)], []


def _may_have(phrase: str) -> bool:
    return sum(letter.isalnum() for letter in phrase) > _MAX_INITIALS


def _all_vectors(folder: Path) -> tuple[list[int], FloatArray]:
    """Return the sorted keys of a folder of vectors, and their rows at length one."""
    header, base, newer = open_files(folder)
    keys: list[Any] = []
    rows: list[Any] = []
    for index, dropped in ((base, header.removed), (newer, ())):
        if index is None or not len(index):
            continue
        held = np.asarray(index.keys[:], dtype=np.uint64)
        held = held[~np.isin(held, np.asarray(dropped, dtype=np.uint64))]
        if len(held):
            keys.append(held)
            rows.append(np.stack(index.get(held)).astype(np.float32))
    if not keys:
        return [], np.zeros((0, header.dimensions), np.float32)
    order = np.argsort(np.concatenate(keys), kind="stable")
    vectors = np.concatenate(rows)[order]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.concatenate(keys)[order].tolist(), vectors / np.where(lengths == 0, 1, lengths)


OnProgress = Callable[[str, int, int], None]  # called with the stage, what is done, and the total


@dataclass(frozen=True, slots=True)
class AddedFacts:
    """The facts of an index after some were added; `strange` counts unknown passages."""

    facts: int
    new: int
    gone: int
    passages: int
    phrases: int
    synonyms: int
    strange: int
    encoder: str


async def add_facts_to(
    change: Change, facts: Iterable[Fact], encoder: str | None, on_progress: OnProgress
) -> AddedFacts:
    """Give the passages of a change their facts; `encoder` is as in `add_facts`."""
    store = _opened(change)
    try:
        before = {(key, passage) for key, passage, _ in store.facts()}
        strange = _put(store, change, facts)
        store.drop(set(store.contents()) - set(current(store, change.ledger)))
        spec = encoder if encoder is not None else store.fact("encoder") or change.settings.encoder
        store.set_fact("format", str(FORMAT))
        store.commit()
        rows = list(store.facts())
        if not rows:
            raise CorpusError("No fact would be left in the index.", "Give facts of passages that it holds.")
        texts = {key: fact_text(fact) for key, _, fact in rows}
        names = {key_of(name): name for _, _, fact in rows for name in map(phrase_of, (fact.subject, fact.object))}
        await _encode_all(store, spec, texts, names, on_progress)
        count = sum(1 for _ in store.synonyms())
        after = {(key, passage) for key, passage, _ in rows}
        passages = len({passage for _, passage in after})
        new, gone = len(after - before), len(before - after)
        return AddedFacts(len(after), new, gone, passages, len(names), count, strange, spec)
    finally:
        store.close()


def current(store: FactStore, ledger: Ledger) -> list[int]:
    """Return the passages that have not changed since their facts were added."""
    unchanged: list[int] = []
    for batch in batched(store.contents().items(), _LOOK_UP_AT_ONCE):
        entries = ledger.look_up([key for key, _ in batch])
        unchanged += (key for key, content in batch if key in entries and entries[key].content == content)
    return unchanged


def _opened(change: Change) -> FactStore:
    """Open the facts of an index; damaged ones are discarded."""
    folder = change.part / FOLDER
    try:
        if (folder / FILE).exists():
            with closing(FactStore(folder, change.folder)) as store:
                store.check()
    except CorpusError:
        shutil.rmtree(folder)
    return FactStore(folder, change.folder, writable=True)


def _put(store: FactStore, change: Change, facts: Iterable[Fact]) -> int:
    """Enter the facts by passage; return how many passages the index does not hold."""
    by_passage: dict[str, list[Fact]] = {}
    for fact in facts:
        by_passage.setdefault(fact.passage_id, []).append(fact)
    known = 0
    for batch in batched(by_passage, _LOOK_UP_AT_ONCE):
        entries = change.ledger.look_up([key_of(name) for name in batch])
        for name in batch:
            if entry := entries.get(key_of(name)):
                store.put(entry.key, name, entry.content, by_passage[name])
                known += 1
    if not known:
        first = next(iter(by_passage), "")
        which = f"the {len(by_passage):,} passages of the facts is in the index {change.folder} (the first: {first})"
        remedy = "Give the facts that were extracted from this index: hoptree graph extract INDEX --out FOLDER"
        raise CorpusError(f"None of {which}." if by_passage else "There is no fact to take in.", remedy)
    return len(by_passage) - known


async def _encode_all(
    store: FactStore, spec: str, texts: Mapping[int, str], names: Mapping[int, str], on_progress: OnProgress
) -> None:
    """Bring vectors and synonyms up to date."""
    folders = [store.folder / "facts", store.folder / "phrases"]
    encoder = open_encoder(spec) if spec else None
    try:
        if store.fact("encoder identity") != (encoder.identity if encoder else ""):
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)
            store.forget_synonyms()
            store.set_fact("encoder", spec)
            store.set_fact("encoder identity", encoder.identity if encoder else "")
            store.commit()
        if encoder is None:
            return
        for folder, wanted, what in zip(folders, (texts, names), ("facts", "phrases"), strict=True):
            writer = await VectorWriter.open_for(folder, encoder, expected=len(wanted))
            fresh = [(key, wanted[key]) for key in writer.missing(sorted(wanted))]
            # Vectors that are no longer wanted stay, and are not found.
            await encode_missing(writer, encoder, fresh, partial(_report, on_progress, f"encoding {what}", len(fresh)))
    finally:
        if encoder is not None:
            await encoder.aclose()
    known = store.compared()
    store.forget_phrases(known - names.keys())
    new = {key: name for key, name in names.items() if key not in known}
    done = 0
    for batch, pairs in synonyms_of(folders[1], new, names):
        store.add_synonyms(batch, pairs)
        done += len(batch)
        on_progress("comparing phrases", done, len(new))
    store.commit()


def _report(on_progress: OnProgress, stage: str, total: int, done: int) -> None:
    on_progress(stage, done, total)
