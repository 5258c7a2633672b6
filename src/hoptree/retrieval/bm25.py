"""BM25 over an on-disk tantivy index (k1 1.2, b 0.75, which are tantivy's own)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tantivy

from hoptree.errors import CorpusError
from hoptree.values import Passage

__all__ = ["BM25", "Manifest", "build_index"]

FORMAT = 1
MANIFEST = "hoptree-index.json"
_ANALYZER = "hoptree"
_WRITER_BYTES = 64 * 2**20
_TITLE_BOOST = 2.0
_BUILD_AGAIN = "Build it again: hoptree index … --out DIR"
_TIE_ROOM = 10
_MOST_TIES = 20_000
_WORTH_A_THREAD = 50_000
"""Passages: under that a search takes less than handing it to a thread and back."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an index holds and how it was made; checked when it is opened."""

    format: int
    passages: int
    language: str
    digest: str


def build_index(
    passages: Iterable[Passage],
    out: Path,
    *,
    language: str = "english",
    on_passage: Callable[[int], None] | None = None,
) -> Manifest:
    """Write a new index to `out`; an index that was there stays usable until the new one is complete."""
    out = out.resolve()
    if out.exists() and not (out / MANIFEST).exists() and (not out.is_dir() or any(out.iterdir())):
        raise CorpusError(f"{out} exists and is no index.", "Choose a new folder for --out.")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as scratch:
            fresh = Path(scratch, "new")
            fresh.mkdir()
            manifest = _write(passages, fresh, language, on_passage)
            _put_in_place(fresh, out, Path(scratch, "old"))
    except (OSError, ValueError) as error:  # tantivy reports what the system told it as a ValueError
        reason = error.strerror if isinstance(error, OSError) else error
        raise CorpusError(
            f"The index cannot be written to {out}: {reason}.", "Free some space or choose another --out."
        ) from error
    return manifest


def _put_in_place(fresh: Path, out: Path, old: Path) -> None:
    """Swap the folders; if that fails, the old index is where it was."""
    if out.exists():
        out.rename(old)
    try:
        fresh.rename(out)
    except OSError:
        if old.exists():
            old.rename(out)
        raise


def _write(
    passages: Iterable[Passage], folder: Path, language: str, on_passage: Callable[[int], None] | None
) -> Manifest:
    schema = _schema()
    index = tantivy.Index(schema, path=str(folder))
    _register(index, language)
    writer = index.writer(_WRITER_BYTES, 1)
    digest = hashlib.sha256()
    seen: set[str] = set()
    try:
        for count, passage in enumerate(passages, 1):
            if passage.id in seen:
                raise CorpusError(f"Two passages have the id '{passage.id}'.", "Give every passage an id of its own.")
            seen.add(passage.id)
            fields = {"id": _utf8(passage.id), "title": _utf8(passage.title), "text": _utf8(passage.text)}
            digest.update(json.dumps(fields).encode())
            writer.add_document(tantivy.Document.from_dict(fields, schema))
            if on_passage is not None:
                on_passage(count)
        if not seen:
            raise CorpusError("The corpus is empty: no passage was found.", "Give a folder or file with text in it.")
        writer.commit()
    finally:
        writer.wait_merging_threads()  # until then its threads write to the folder
    manifest = Manifest(FORMAT, len(seen), language, digest.hexdigest())
    (folder / MANIFEST).write_text(json.dumps(asdict(manifest), indent=1), encoding="utf-8")
    return manifest


def _utf8(text: str) -> str:
    """The text with halves of characters, which no file can hold, replaced."""
    return text.encode("utf-8", "replace").decode()


class BM25:
    """A retriever over an index folder."""

    kind = "bm25"

    def __init__(self, folder: Path) -> None:
        self.manifest = _read_manifest(folder)
        self.identity = f"bm25:{self.manifest.digest}"
        try:
            self._index = tantivy.Index.open(str(folder))
            self._analyzer = _register(self._index, self.manifest.language)
            self._index.reload()
            self._searcher = self._index.searcher()
        except BaseException as error:
            if not isinstance(error, ValueError) and type(error).__name__ != "PanicException":
                raise
            raise CorpusError(f"The index {folder} is damaged: {error}.", _BUILD_AGAIN) from error
        if self._searcher.num_docs != self.manifest.passages:
            raise CorpusError(
                f"The index {folder} holds {self._searcher.num_docs} passages, not {self.manifest.passages}.",
                _BUILD_AGAIN,
            )

    async def search(self, query: str, *, k: int) -> tuple[Passage, ...]:
        if self.manifest.passages < _WORTH_A_THREAD:
            return self.search_now(query, k)
        return await asyncio.to_thread(self.search_now, query, k)

    def search_now(self, query: str, k: int) -> tuple[Passage, ...]:
        """Search in this thread. Ties at the cut are broken by id, so that indexing order never shows."""
        try:
            return self._search(query, k)
        except BaseException as error:
            if isinstance(error, ValueError) or type(error).__name__ == "PanicException":  # tantivy met a damaged file
                raise CorpusError(f"The index is damaged: {error}.", _BUILD_AGAIN) from error
            raise

    def _search(self, query: str, k: int) -> tuple[Passage, ...]:
        terms = dict.fromkeys(self._analyzer.analyze(_utf8(query)))
        if not terms or k <= 0:
            return ()
        schema = self._index.schema
        clauses = []
        for term in terms:
            for field, boost in (("text", 1.0), ("title", _TITLE_BOOST)):
                exact = tantivy.Query.term_query(schema, field, term, index_option="freq")
                clauses.append((tantivy.Occur.Should, tantivy.Query.boost_query(exact, boost)))
        found = []
        for score, address in self._best(tantivy.Query.boolean_query(clauses), k):
            stored = self._searcher.doc(address)
            found.append(Passage(stored["id"][0], stored["title"][0], stored["text"][0], float(score)))
        found.sort(key=lambda passage: (-passage.score, passage.id))
        return tuple(found[:k])

    def _best(self, query: tantivy.Query, k: int) -> list[tuple[Any, tantivy.DocAddress]]:
        """At least the k best, with all that tie with the last of them (within reason)."""
        wanted = k + _TIE_ROOM
        while True:
            hits: list[tuple[Any, tantivy.DocAddress]] = self._searcher.search(query, wanted, count=False).hits
            if len(hits) < wanted or hits[-1][0] < hits[k - 1][0] or wanted >= _MOST_TIES:
                return hits
            wanted *= 8


def _read_manifest(folder: Path) -> Manifest:
    try:
        manifest = Manifest(**json.loads((folder / MANIFEST).read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError) as error:
        if folder.exists():
            raise CorpusError(
                f"{folder} is no index.", f"Make one: hoptree index {folder} --out {folder}.idx"
            ) from error
        raise CorpusError(
            f"There is no index at {folder}.", f"Make one: hoptree index FOLDER --out {folder}"
        ) from error
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise CorpusError(f"The index {folder} is damaged: {error}.", _BUILD_AGAIN) from error
    if manifest.format != FORMAT:
        raise CorpusError(f"The index {folder} is of format {manifest.format}, not {FORMAT}.", "Build it again.")
    return manifest


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name="raw", index_option="basic")
    for name in ("title", "text"):
        builder.add_text_field(name, stored=True, tokenizer_name=_ANALYZER, index_option="freq")
    return builder.build()


def _register(index: tantivy.Index, language: str) -> tantivy.TextAnalyzer:
    """Custom analyzers are not saved with an index: give it its own again on every open."""
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(tantivy.Filter.lowercase())
    builder = builder.filter(tantivy.Filter.ascii_fold())
    try:
        builder = builder.filter(tantivy.Filter.stopword(language)).filter(tantivy.Filter.stemmer(language))
    except ValueError as error:
        raise CorpusError(
            f"There is no stemmer for '{language}'.", "Use a language such as english or german."
        ) from error
    analyzer = builder.build()
    index.register_tokenizer(_ANALYZER, analyzer)
    return analyzer
