"""The tantivy index of a graph's names, rebuilt when the graph has changed.

    DIR/hoptree-graph.json
    DIR/000002/                   the data
    DIR/names-1-UID/              the names of the generation with this UID

If that folder is read-only, the index is in the user's cache folder. It is built under another name and moved in one
step, so that two processes can build it at once.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from math import log
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import tantivy

from hoptree.core.errors import GraphError, GraphUnavailable
from hoptree.core.files import Checksums, cache_dir
from hoptree.graph.relation_linking import bare_words, name_words
from hoptree.graph.vocabulary import is_property

if TYPE_CHECKING:
    from hoptree.graph.embedded import EmbeddedGraph

_INDEX_FORMAT = 1
_WRITER_BYTES = 64_000_000
_PROGRESS_NAMES = 5_000
_MAX_EXACT_HITS = 500  # entities of one name
_COMPLETE_FILE = "hoptree-names.json"  # written last, with the digest of the list of the others
_CHECKED_AT_ONCE_BYTES = 32 * 2**20  # compared with their checksums when opened; the rest in the background

Hit = tuple[str, tuple[str, ...]]  # the id of an entity, and the words of the matching name


class NameIndex:
    """Finds entities by exact name, by words of it, or by similar words."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._damage: list[ValueError] = []
        with _errors(folder):
            complete = json.loads((folder / _COMPLETE_FILE).read_text(encoding="utf-8"))
            digest = complete.get("checksums", "") if isinstance(complete, dict) else "none"
            checksums = Checksums(folder, digest)
            if later := checksums.check(at_once=_CHECKED_AT_ONCE_BYTES):
                Thread(target=self._check_later, args=(checksums, later), daemon=True).start()
            self._index = tantivy.Index.open(str(folder))
            self._searcher = self._index.searcher()
            self._schema = self._index.schema
        self.rarity = lru_cache(100_000)(partial(_rarity, folder, self._searcher))

    def _check_later(self, checksums: Checksums, names: Sequence[str]) -> None:
        with suppress(OSError):  # a change of the graph has replaced them
            try:
                for name in names:
                    checksums.check_file(name)
            except ValueError as error:
                self._damage.append(error)

    def knows(self, word: str) -> bool:
        """Return whether any name has this word."""
        with _errors(self._folder):
            return bool(self._searcher.doc_freq("words", word))

    def exact_name(self, words: Sequence[str]) -> list[Hit]:
        key = " ".join(words)
        with _errors(self._folder):
            if not self._searcher.doc_freq("key", key):
                return []
        return self._hits(self._term("key", key), _MAX_EXACT_HITS)

    def with_words(self, words: Iterable[str], most: int) -> list[Hit]:
        """Return the entities whose names have most of these words, rare ones first."""
        parts = [(tantivy.Occur.Should, self._term("words", word)) for word in words]
        return self._hits(tantivy.Query.boolean_query(parts), most) if parts else []

    def with_nearly(self, word: str, others: Iterable[str], most: int, *, distance: int) -> list[Hit]:
        """Return the entities with a similar word in a name."""
        nearly = tantivy.Query.fuzzy_term_query(self._schema, "words", word, distance, True, False)
        parts = [(tantivy.Occur.Must, nearly)]
        parts += [(tantivy.Occur.Should, self._term("words", other)) for other in others]
        return self._hits(tantivy.Query.boolean_query(parts), most)

    def _term(self, field: str, text: str) -> tantivy.Query:
        return tantivy.Query.term_query(self._schema, field, text)

    def _hits(self, query: tantivy.Query, most: int) -> list[Hit]:
        with _errors(self._folder):
            if self._damage:
                raise self._damage[0]
            hits = self._searcher.search(query, most, count=False).hits
            records: list[Any] = [self._searcher.doc(address).get_first("record") for _, address in hits]
            return [(row[0], tuple(row[1].split())) for row in (json.loads(bytes(record)) for record in records)]


def _rarity(folder: Path, searcher: tantivy.Searcher, word: str) -> float:
    """Return the inverse document frequency of a word."""
    with _errors(folder):
        return log(1 + (searcher.num_docs + 1) / (searcher.doc_freq("words", word) + 0.5))


def open_name_index(graph: EmbeddedGraph, *, on_progress: Callable[[int], None] = lambda done: None) -> NameIndex:
    """Open the index of a graph's names, building it if needed."""
    name = f"names-{_INDEX_FORMAT}-{graph.manifest.uid}"
    beside, cached = graph.folder, cache_dir() / "names"
    for place in (beside, cached):
        # tantivy locks a folder to read it, and cannot open one that may not be written to.
        if (place / name / _COMPLETE_FILE).is_file() and os.access(place / name, os.W_OK):
            return NameIndex(place / name)
    try:
        return NameIndex(_build(graph, beside, name, on_progress))
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise _unwritable(beside, error) from error
    try:
        return NameIndex(_build(graph, cached, name, on_progress))
    except OSError as error:
        raise _unwritable(cached, error) from error


def _unwritable(place: Path, error: Exception) -> GraphUnavailable:
    cause = f"The index of names cannot be written to {place}: {error}."
    return GraphUnavailable(cause, "Free some space, or let the folder be written to, and run the same command.")


def _build(graph: EmbeddedGraph, place: Path, name: str, on_progress: Callable[[int], None]) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f"{name}.part-", dir=place))
    try:
        _write(part, graph.all_names(), on_progress)
        digest = Checksums.write(part)
        (part / _COMPLETE_FILE).write_text(json.dumps({"checksums": digest}), encoding="utf-8")
        # A process with an older graph open must not delete the names of the newer one.
        if place == graph.folder and graph.is_current():
            older = (path for path in place.glob("names-*") if not path.name.startswith(name))
            for path in older:  # including interrupted builds; processes that have them open keep them
                shutil.rmtree(path, ignore_errors=True)
        part.chmod(0o755)
        with suppress(OSError):
            part.rename(place / name)
        if not (place / name / _COMPLETE_FILE).is_file():  # otherwise another process was faster
            shutil.rmtree(place / name, ignore_errors=True)
            part.rename(place / name)
    except ValueError as error:  # tantivy's own
        raise _unwritable(place, error) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return place / name


def _write(folder: Path, names: Iterable[tuple[str, str]], on_progress: Callable[[int], None]) -> None:
    builder = tantivy.SchemaBuilder().add_bytes_field("record", stored=True, indexed=False)
    builder = builder.add_text_field("key", stored=False, tokenizer_name="raw", index_option="basic")
    schema = builder.add_text_field("words", stored=False, tokenizer_name="whitespace", index_option="freq").build()
    index = tantivy.Index(schema, path=str(folder))
    writer = index.writer(_WRITER_BYTES, 1)  # one thread: the same names in the same order make the same index
    last: tuple[str, str] = ("", "")
    for count, (identifier, name) in enumerate(names, 1):
        if count % _PROGRESS_NAMES == 0:
            on_progress(count)
        if is_property(identifier) or identifier.startswith("urn:hoptree:"):
            continue
        for words in dict.fromkeys((name_words(name), bare_words(name))):
            row = (identifier, " ".join(words))
            if words and row != last:  # several sources or languages have the same name
                document = tantivy.Document()
                document.add_bytes("record", json.dumps(row, ensure_ascii=False).encode("utf-8", "replace"))
                document.add_text("key", row[1])
                document.add_text("words", row[1])
                writer.add_document(document)
                last = row
    writer.commit()
    writer.wait_merging_threads()


@contextmanager
def _errors(folder: Path) -> Iterator[None]:
    """Turn tantivy's errors for damaged files into a GraphError."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, ValueError | FileNotFoundError) or type(error).__name__ == "PanicException":
            cause = f"The index of names {folder} is damaged: {error}."
            raise GraphError(cause, "Remove this folder: it is rebuilt.") from error
        raise
