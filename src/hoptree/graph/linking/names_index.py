"""The index of a graph's names: tantivy in a folder beside the data, made anew when the graph has changed.

    DIR/hoptree-graph.json
    DIR/000002/                   the data
    DIR/names-1-UID/              the names of the generation with this UID

Where that folder may not be written to, the index is kept in the user's cache folder. It is made under another name and
moved in one step, so that two processes can make it at once.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import log
from pathlib import Path

import tantivy

from hoptree.core.errors import GraphError, GraphUnavailable
from hoptree.core.files import cache_dir
from hoptree.graph.linking.words import bare_words, name_words
from hoptree.graph.store.embedded import EmbeddedGraph
from hoptree.graph.store.folder import read_manifest
from hoptree.graph.vocabulary import is_property

_FORMAT = 1
_MEMORY = 64_000_000
_EVERY = 5_000
_WHOLE = 500
"""Entities of one name that are looked at."""
_DONE = "hoptree-names.json"

Hit = tuple[str, tuple[str, ...]]
"""The id of an entity, and the words of the name it was found by."""


class NameIndex:
    """Finds entities by a whole name, or by words of it as they are or nearly so."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with _errors(folder):
            self._index = tantivy.Index.open(str(folder))
            self._searcher = self._index.searcher()
            self._schema = self._index.schema
        self._rarity: dict[str, float] = {}

    def __len__(self) -> int:
        return int(self._searcher.num_docs)

    def knows(self, word: str) -> bool:
        """Whether the word stands in any name."""
        return bool(self._searcher.doc_freq("words", word))

    def rarity(self, word: str) -> float:
        """How much a word tells: most one that no name has."""
        known = self._rarity.get(word)
        if known is None:
            if len(self._rarity) > 100_000:
                self._rarity.clear()
            count = self._searcher.doc_freq("words", word)
            known = self._rarity[word] = log(1 + (len(self) + 1) / (count + 0.5))
        return known

    def whole(self, words: Sequence[str]) -> list[Hit]:
        """The entities that have just this name."""
        key = " ".join(words)
        if not self._searcher.doc_freq("key", key):
            return []
        return self._hits(self._term("key", key), _WHOLE)

    def with_words(self, words: Iterable[str], most: int) -> list[Hit]:
        """The entities whose names have most of these words, the rarer ones first."""
        parts = [(tantivy.Occur.Should, self._term("words", word)) for word in words]
        return self._hits(tantivy.Query.boolean_query(parts), most) if parts else []

    def with_nearly(self, word: str, others: Iterable[str], most: int, *, distance: int) -> list[Hit]:
        """The entities with a name that has nearly this word, first those that have some of the others, too."""
        nearly = tantivy.Query.fuzzy_term_query(self._schema, "words", word, distance, True, False)
        parts = [(tantivy.Occur.Must, nearly)]
        parts += [(tantivy.Occur.Should, self._term("words", other)) for other in others]
        return self._hits(tantivy.Query.boolean_query(parts), most)

    def _term(self, field: str, text: str) -> tantivy.Query:
        return tantivy.Query.term_query(self._schema, field, text)

    def _hits(self, query: tantivy.Query, most: int) -> list[Hit]:
        with _errors(self._folder):
            found = self._searcher.search(query, most, count=False).hits
            return [_read(self._searcher.doc(address).get_first("record")) for _, address in found]


def _read(record: object) -> Hit:
    identifier, words = json.loads(bytes(record))  # type: ignore[call-overload]
    return identifier, tuple(words.split())


def open_name_index(graph: EmbeddedGraph, *, on_progress: Callable[[int], None] = lambda done: None) -> NameIndex:
    """The index of an embedded graph's names; it is made if there is none for the graph as it is."""
    name = f"names-{_FORMAT}-{graph.manifest.uid}"
    places = (graph.folder, cache_dir() / "names")
    for place in places:
        # tantivy locks a folder to read it, and cannot open one that may not be written to.
        if (place / name / _DONE).is_file() and os.access(place / name, os.W_OK):
            return NameIndex(place / name)
    try:
        return NameIndex(_made(graph, places[0], name, on_progress))
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise _unwritable(places[0], error) from error
    try:
        return NameIndex(_made(graph, places[1], name, on_progress))
    except OSError as error:
        raise _unwritable(places[1], error) from error


def _unwritable(place: Path, error: Exception) -> GraphUnavailable:
    return GraphUnavailable(
        f"The index of names cannot be written to {place}: {error}.",
        "Free some space, or let the folder be written to, and run the same command.",
    )


def _made(graph: EmbeddedGraph, place: Path, name: str, on_progress: Callable[[int], None]) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f"{name}.part-", dir=place))
    try:
        with _writing(place):
            _write(part, graph.all_names(), on_progress)
            (part / _DONE).write_text("{}\n")
        # A process that still has an older graph open must not take the newer one's names away.
        if place == graph.folder and read_manifest(place).uid == graph.manifest.uid:
            _sweep(place, part)
        part.chmod(0o755)
        with suppress(OSError):
            part.rename(place / name)
        if not (place / name / _DONE).is_file():  # else another process was faster
            shutil.rmtree(place / name, ignore_errors=True)
            part.rename(place / name)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return place / name


def _sweep(place: Path, part: Path) -> None:
    """Take away the names of older generations, and what was cut off; whoever has them open keeps them."""
    for path in place.glob("names-*"):
        if path != part and not path.name.startswith(part.name.partition(".")[0]):
            shutil.rmtree(path, ignore_errors=True)


def _write(folder: Path, names: Iterable[tuple[str, str]], on_progress: Callable[[int], None]) -> None:
    builder = tantivy.SchemaBuilder().add_bytes_field("record", stored=True, indexed=False)
    builder = builder.add_text_field("key", stored=False, tokenizer_name="raw", index_option="basic")
    schema = builder.add_text_field("words", stored=False, tokenizer_name="whitespace", index_option="freq").build()
    index = tantivy.Index(schema, path=str(folder))
    writer = index.writer(_MEMORY, 1)  # one thread: the same names in the same order make the same index
    last: tuple[str, str] = ("", "")
    for count, (identifier, name) in enumerate(names, 1):
        if count % _EVERY == 0:
            on_progress(count)
        if is_property(identifier) or identifier.startswith("urn:hoptree:"):
            continue
        for words in dict.fromkeys((name_words(name), bare_words(name))):
            row = (identifier, " ".join(words))
            if words and row != last:  # several sources, or languages, tell the same
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
    """tantivy reports a damaged file as a ValueError, or panics."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, ValueError) or type(error).__name__ == "PanicException":
            raise GraphError(
                f"The index of names {folder} is damaged: {error}.", "Remove this folder: it is made anew."
            ) from error
        raise


@contextmanager
def _writing(place: Path) -> Iterator[None]:
    try:
        yield
    except ValueError as error:  # tantivy's own
        raise _unwritable(place, error) from error
