"""Writing passages to the text index: its fields, and what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import tantivy

from hoptree.core.values import Passage
from hoptree.retrieval.index.tantivy_files import (
    ANALYZER,
    LANGUAGE,
    STEMMED,
    KeyedWriter,
    TantivyErrors,
    analyzer_for,
    composed,
    foreign_terms,
    is_plain,
    open_for_writing,
    pairs,
    record_of,
    tag_of,
)
from hoptree.retrieval.retriever import DOCUMENT, SECTION, TITLE

_TITLE_WEIGHT = 3  # how often the title counts among the words of a passage


class TextWriter(KeyedWriter):
    """Adds and removes passages of a text index."""

    def __init__(self, folder: Path, *, language: str, memory: int) -> None:
        with TantivyErrors(f"The index cannot be written to {folder}"):
            index = open_for_writing(folder, _schema())
            index.register_tokenizer(ANALYZER, analyzer_for(language))
            self._language = language
            super().__init__(index, "The index", memory=memory, threads=2)

    def add(self, passages: Sequence[tuple[Passage, int]], number: int) -> None:
        """Add passages with their keys, numbered from `number` on."""
        with self._writing:
            for count, (passage, key) in enumerate(passages, number):
                self._writer.add_document(self._document(passage, key, count))

    def _document(self, passage: Passage, key: int, number: int) -> tantivy.Document:
        document = tantivy.Document()
        document.add_unsigned("key", key)
        document.add_unsigned("number", number)
        document.add_bytes("record", record_of(passage))
        title, text = composed(passage.title), composed(passage.text)
        for _ in range(_TITLE_WEIGHT):
            document.add_text("body", title)
        document.add_text("body", text)
        for tag in passage.metadata:
            document.add_text("tags", tag_of(*tag))
        if not is_plain(passage):
            document.add_text("tags", tag_of(DOCUMENT, passage.document))
        for page in ("", *accumulate(title.split(SECTION), f"{{}}{SECTION}{{}}".format)):
            document.add_text("tags", tag_of(TITLE, page))  # "" marks that titles are tagged
        if not text.isascii() or not title.isascii():
            document.add_text("pairs", " ".join(pairs(f"{title} {text}")))
        language = next((value for name, value in passage.metadata if name == LANGUAGE), self._language)
        if language != self._language and language in STEMMED:
            document.add_text("pairs", " ".join(foreign_terms(language, f"{title} " * _TITLE_WEIGHT + text)))
        return document

    def remove_from(self, number: int) -> None:
        """Remove the passages from this number on: the ledger has not committed them."""
        above = tantivy.Query.range_query(self._schema, "number", tantivy.FieldType.Unsigned, number, None)
        self._writer.delete_documents_by_query(above)


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("key", indexed=True, fast=True)
    builder.add_unsigned_field("number", fast=True)
    builder.add_bytes_field("record", stored=True)
    builder.add_text_field("body", stored=True, tokenizer_name=ANALYZER, index_option="freq")
    builder.add_text_field("pairs", tokenizer_name="whitespace", index_option="freq")
    builder.add_text_field("tags", tokenizer_name="raw", index_option="basic")
    return builder.build()
