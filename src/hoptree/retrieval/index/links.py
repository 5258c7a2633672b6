"""Who mentions whom: a tantivy index with the names a passage bears and the names it mentions.

A passage may have several records (one for each round of looking for names); together they are its mentions.
Names are stored folded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path

import tantivy

from hoptree.retrieval.index.tantivy_folder import open_writer, readable, tantivy_errors, writing

__all__ = ["LINK_AGAIN", "LinkWriter", "Links"]

LINK_AGAIN = "Make the links again: hoptree index compact --out DIR"
_AT_ONCE = 1_000
_MOST_OF_A_DOCUMENT = 100
_KEPT = 10_000
"""Names and passages whose links stay in memory, of each kind: questions about one matter meet the same again."""
_DAMAGED = tantivy_errors("The links are damaged", LINK_AGAIN)


class LinkWriter:
    """Adds the mentions of passages, and takes them out."""

    def __init__(self, folder: Path, *, memory: int) -> None:
        folder.mkdir(exist_ok=True)
        with tantivy_errors(f"The links cannot be written to {folder}", LINK_AGAIN):
            self._schema = _schema()
            self._writer = open_writer(tantivy.Index(self._schema, path=str(folder)), memory, 1)

    def add(self, key: int, document_key: int, *, bears: Iterable[str] = (), mentions: Iterable[str] = ()) -> None:
        """Add names that a passage bears or mentions; `document_key` tells passages of one document from others."""
        document = tantivy.Document()
        document.add_unsigned("key", key)
        document.add_unsigned("document", document_key)
        for name in bears:
            document.add_text("bears", name)
        for name in mentions:
            document.add_text("mentions", name)
        self._writer.add_document(document)

    def remove(self, keys: Iterable[int]) -> None:
        walk = iter(keys)
        while some := list(islice(walk, _AT_ONCE)):
            self._writer.delete_documents_by_query(tantivy.Query.term_set_query(self._schema, "key", some))

    def commit(self) -> None:
        with writing("The links cannot be written"):
            self._writer.commit()

    def close(self) -> None:
        """Wait for tantivy's threads: until then they write to the folder."""
        with writing("The links cannot be written"):
            self._writer.wait_merging_threads()


class Links:
    """Reads the mention graph, as it was when it was opened.

    `mentions` are the names a passage mentions, in a fixed order. `count` is how many passages mention a name, and
    `borne` whether any bears it. `mentioning` are the passages that mention a name: all of them, or none if they are
    more than a number. `bearing` are those that bear it, by document and in their order; none if more documents than a
    number have it, and of a very long document only the first.
    """

    def __init__(self, folder: Path) -> None:
        read = _Reader(folder)  # one that knows nothing of what is kept: a ring would keep the index open
        self.knows: Callable[[int], bool] = read.knows
        self.mentions: Callable[[int], tuple[str, ...]] = lru_cache(_KEPT)(read.mentions)
        self.count: Callable[[str], int] = lru_cache(_KEPT)(read.count)
        self.borne: Callable[[str], bool] = lru_cache(_KEPT)(read.borne)
        self.mentioning: Callable[[str, int], tuple[int, ...]] = lru_cache(_KEPT)(read.mentioning)
        self.bearing: Callable[[str, int], tuple[tuple[int, ...], ...]] = lru_cache(_KEPT)(read.bearing)


class _Reader:
    def __init__(self, folder: Path) -> None:
        with tantivy_errors(f"The links in {folder} are damaged", LINK_AGAIN), readable(folder) as place:
            index = tantivy.Index.open(str(place))
            index.reload()
            self._schema = index.schema
            self._searcher = index.searcher()

    def knows(self, key: int) -> bool:
        """Whether anything is written down about a passage, be it that it mentions nothing."""
        with _DAMAGED:
            return bool(self._searcher.doc_freq("key", key))

    def mentions(self, key: int) -> tuple[str, ...]:
        found: set[str] = set()
        with _DAMAGED:
            records = max(int(self._searcher.doc_freq("key", key)), 1)
            for _, address in self._searcher.search(self._term("key", key), records, count=False).hits:
                found.update(self._searcher.doc(address).get_all("mentions"))
        return tuple(sorted(found))

    def count(self, name: str) -> int:
        with _DAMAGED:
            return int(self._searcher.doc_freq("mentions", name))

    def borne(self, name: str) -> bool:
        with _DAMAGED:
            if not self._searcher.doc_freq("bears", name):
                return False
            # That counts passages that are gone, too, as long as others of their segment are there.
            return bool(self._searcher.search(self._term("bears", name), 1, count=False).hits)

    def mentioning(self, name: str, most: int) -> tuple[int, ...]:
        hits = self._hits("mentions", name, most + 1)
        return () if len(hits) > most else tuple(sorted(self._values("key", hits)))

    def bearing(self, name: str, most: int) -> tuple[tuple[int, ...], ...]:
        hits = self._hits("bears", name, most * _MOST_OF_A_DOCUMENT)
        found: dict[int, list[int]] = {}
        for key, document in zip(self._values("key", hits), self._values("document", hits), strict=True):
            found.setdefault(document, []).append(key)
        return () if len(found) > most else tuple(tuple(found[document]) for document in sorted(found))

    def _hits(self, field: str, name: str, most: int) -> list[tantivy.DocAddress]:
        with _DAMAGED:
            if not self._searcher.doc_freq(field, name):
                return []
            hits = self._searcher.search(self._term(field, name), most, count=False).hits
            return sorted((at for _, at in hits), key=lambda at: (at.segment_ord, at.doc))

    def _values(self, field: str, places: Sequence[tantivy.DocAddress]) -> list[int]:
        with _DAMAGED:
            return [int(value or 0) for value in self._searcher.fast_field_values(field, list(places))]

    def _term(self, field: str, value: str | int) -> tantivy.Query:
        return tantivy.Query.term_query(self._schema, field, value, index_option="basic")


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("key", indexed=True, fast=True)
    builder.add_unsigned_field("document", fast=True)
    builder.add_text_field("bears", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("mentions", stored=True, tokenizer_name="raw", index_option="basic")
    return builder.build()
