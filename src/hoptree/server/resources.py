"""Models, corpora and graphs of a server, opened once and shared by all questions."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from typing_extensions import TypedDict

from hoptree.core.errors import (
    ASK_OPERATOR,
    ConfigError,
    CorpusError,
    GraphError,
    GraphUnavailable,
    IndexUnavailable,
    hide_path,
)
from hoptree.core.values import Passage
from hoptree.graph import MANIFEST as GRAPH_MANIFEST
from hoptree.graph import open_graph
from hoptree.graph.facts import KnowledgeGraph
from hoptree.models import open_model
from hoptree.models.model import Model
from hoptree.retrieval import DEFAULT_RETRIEVER
from hoptree.retrieval.index.folder import MANIFEST, Index, read_manifest, sample_index
from hoptree.retrieval.index.tantivy_files import key_of
from hoptree.retrieval.indexing.check import check_parts
from hoptree.retrieval.retriever import KINDS, Retriever, is_remote, open_retriever
from hoptree.server.error_responses import Refusal, log_failure
from hoptree.server.settings import Settings, check_name, unknown
from hoptree.server.topics import Topic, suggest_topics
from hoptree.text.line_breaks import unwrap_lines

_DAMAGED_REMEDY = (
    "Tell the server's administrator; for a corpus made over HTTP, adding or removing a document repairs it."
)
_Key = tuple[str, str, str, bool]
"""Corpus, kind of retriever, reranker, and whether searches start from facts, if there are any."""


def opening_error(error: CorpusError, corpus: str, where: str) -> CorpusError | Refusal:
    """Return what a client sees of an error in opening a corpus."""
    if is_remote(where) or isinstance(error, IndexUnavailable):
        return error
    try:
        check_parts(Index(Path(where)))
    except (CorpusError, OSError, sqlite3.Error):
        log_failure(error, what=f"opening the corpus {corpus}")
        return Refusal(500, "CorpusError", f"The index of the corpus '{corpus}' is damaged, or gone.", _DAMAGED_REMEDY)
    paths = re.compile(rf"{re.escape(where)}(?:/[^\s'\",;()<>]*)?")
    return CorpusError(paths.sub(lambda _: f"'{corpus}'", error.cause), error.remedy)


def version_of(where: str, manifest: str = MANIFEST) -> tuple[int, ...]:
    """Identify the state of an index or graph: each change replaces its manifest."""
    if is_remote(where):
        return ()
    try:
        stat = os.stat(os.path.join(where, manifest))  # noqa: PTH116, PTH118 - fast, as it runs for every question
    except OSError:
        return ()  # opening it tells what is wrong
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


class Retrievers:
    """Retrievers by corpus, kind and reranker; a changed index is opened again.

    `place` gives the folder or address of a corpus by its name. A replaced retriever stays open for `keep_seconds`,
    longer than any question takes.
    """

    def __init__(
        self, place: Callable[[str], str], rerankers: Mapping[str, str], *, cached: bool, keep_seconds: float
    ) -> None:
        self._place, self._rerankers = place, rerankers
        self._cached, self._keep_seconds = cached, keep_seconds
        self._open: dict[_Key, tuple[tuple[int, ...], Retriever]] = {}
        self._opening: dict[_Key, asyncio.Lock] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def find(self, corpus: str, kind: str, rerank: str = "", *, facts: bool = False) -> Retriever:
        """Return a retriever for the current corpus; `facts` as in `open_retriever`."""
        if kind not in KINDS:
            raise unknown("retriever", kind, KINDS)
        if rerank and rerank not in self._rerankers:
            raise unknown("reranker", rerank, self._rerankers)
        key = (corpus, kind, rerank, facts)
        self._place(corpus)  # refuses an unknown name before a lock is stored for it
        async with self._opening.setdefault(key, asyncio.Lock()):
            where = self._place(corpus)
            version = version_of(where)
            known = self._open.get(key)
            if known and known[0] == version:
                return known[1]
            removed = Refusal(409, "Removed", f"The corpus '{corpus}' was removed meanwhile.", "Choose another.")
            reranker = self._rerankers.get(rerank, "")
            try:
                fresh = await asyncio.to_thread(
                    open_retriever, where, kind, rerank=reranker, cached=self._cached, facts=facts
                )
            except CorpusError as error:
                if version and not version_of(where):
                    raise removed from error
                raise await asyncio.to_thread(opening_error, error, corpus, where) from error
            if version and not version_of(where):  # removed meanwhile: `forget` has run, and would not close it
                await fresh.aclose()
                raise removed
            known = self._open.get(key)
            self._open[key] = (version, fresh)
            if known:
                self._retire(known[1])
            return fresh

    def forget(self, corpus: str) -> None:
        """Close the retrievers of a corpus that is to be removed."""
        for key in [key for key in self._open if key[0] == corpus]:
            self._retire(self._open.pop(key)[1])
            self._opening.pop(key, None)

    async def aclose(self) -> None:
        for task in self._closing:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        for _, retriever in self._open.values():
            await retriever.aclose()

    def _retire(self, retriever: Retriever) -> None:
        """Close a retriever once no question can be using it."""

        async def close_later() -> None:
            try:
                await asyncio.sleep(self._keep_seconds)
            finally:
                await retriever.aclose()

        task = asyncio.get_running_loop().create_task(close_later())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


class Models:
    """Open models by the names clients see; the first is the default."""

    def __init__(self, settings: Settings) -> None:
        for name in settings.base_urls:
            if name not in settings.models:
                raise ConfigError(f"--base-url names no model '{name}'.", f"There are {', '.join(settings.models)}.")
        self._opened: list[Model] = []
        self._models: dict[str, Model] = {}
        for name, given in settings.models.items():
            if not isinstance(given, str):
                self._models[name] = given
                continue
            self._models[name] = open_model(given, base_url=settings.base_urls.get(name, ""))
            self._opened.append(self._models[name])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._models)

    @property
    def default(self) -> str:
        return self.names[0]

    def find(self, name: str | None) -> tuple[str, Model]:
        """Return a model with its name; None is the default one."""
        chosen = self.default if name is None else name
        if chosen not in self._models:
            raise unknown("model", chosen, self._models)
        return chosen, self._models[chosen]

    async def aclose(self) -> None:
        for model in self._opened:
            await model.aclose()


def _is_remote_graph(place: str) -> bool:
    return place == "wikidata" or "://" in place


def _open_graph(name: str, place: str) -> KnowledgeGraph:
    """Open a graph whose calls are cached by the engine; errors do not show its place."""
    try:
        return open_graph(place, cached=False)
    except GraphError as error:
        if _is_remote_graph(place) or isinstance(error, GraphUnavailable):
            raise
        log_failure(error, what=f"opening the graph {name}")
        raise Refusal(500, "GraphError", f"The graph '{name}' is damaged, or gone.", ASK_OPERATOR) from error


class Graphs:
    """Knowledge graphs by name, opened at first use; a changed one is opened again."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = {name: place if _is_remote_graph(place) else hide_path(place) for name, place in places.items()}
        self._open: dict[str, tuple[tuple[int, ...], KnowledgeGraph]] = {}
        self._opening = asyncio.Lock()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._places)

    async def find(self, name: str) -> KnowledgeGraph:
        if name not in self._places:
            raise unknown("graph", name, self._places)
        async with self._opening:
            version = version_of(self._places[name], GRAPH_MANIFEST)
            known = self._open.get(name)
            if known is None or known[0] != version:  # the files of an old one close with its last question
                graph = await asyncio.to_thread(_open_graph, name, self._places[name])
                known = self._open[name] = version, graph
            return known[1]

    async def aclose(self) -> None:
        for _, graph in self._open.values():
            await graph.aclose()


_SAMPLE = "sample"
_REBUILD_REMEDY = "Add or remove a document, which rebuilds the index, or tell the server's administrator."
_TOPIC_FILES, _TOPIC_PASSAGES, _MIN_TOPIC_PASSAGES = 300, 300, 3  # of a corpus, and of each file at least
_PASSAGES_AROUND = 3


class CorpusAbout(TypedDict):
    """A corpus as the list shows it."""

    name: str
    passages: int | None
    documents: int | None
    retrievers: list[str]
    managed: bool


class ManagedCorpus:
    """A corpus made over HTTP, and the paths in its folder."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.documents, self.index, self.replaced = folder / "documents", folder / "index", folder / "replaced"
        self.pending, self.counts, self.outcome = folder / "pending", folder / "passages", folder / "job"

    @property
    def ready(self) -> bool:
        return (self.index / MANIFEST).exists()

    def files(self) -> list[tuple[str, int]]:
        """Return the names and sizes of the documents, sorted by name."""
        files = []
        for parent, _, names in os.walk(self.documents):
            for name in names:
                path = Path(parent) / name
                with suppress(FileNotFoundError, NotADirectoryError):  # removed at this moment
                    files.append((path.relative_to(self.documents).as_posix(), path.stat().st_size))
        return sorted(files)

    def count(self) -> int:
        """Count the documents with passages, or all while the index is being changed."""
        indexed = {} if self.pending.exists() else self.passages()
        return sum(count > 0 for count in indexed.values()) or len(self.files())

    def passages(self) -> dict[str, int]:
        """Return the number of passages of each document; {} if it is not known."""
        try:
            return {str(name): int(count) for name, count in json.loads(self.counts.read_text("utf-8")).items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}


class Corpora:
    """All corpora by name; clients cannot change those that the settings name."""

    def __init__(self, named: Mapping[str, str], folder: Path | None) -> None:
        self._named: dict[str, str] = {}
        self._open: dict[str, tuple[tuple[int, ...], Index]] = {}
        self.folder = folder and Path(hide_path(str(folder)))
        for name, where in named.items():
            check_name(name)
            place = str(sample_index()) if where == _SAMPLE else where
            self._named[name] = place if is_remote(place) else hide_path(place)
            if not is_remote(where):
                read_manifest(Path(self._named[name]))  # raises, before anything is served, if it cannot be used

    @property
    def names(self) -> tuple[str, ...]:
        """The corpora that can be searched now."""
        return (*self._named, *(corpus.name for corpus in self.managed() if corpus.ready))

    @property
    def default(self) -> str | None:
        return next(iter(self._named), None) or next(iter(self.names), None)

    def managed(self) -> list[ManagedCorpus]:
        """Return the corpora made over HTTP, sorted by name."""
        if self.folder is None or not self.folder.is_dir():
            return []
        folders = [path for path in self.folder.iterdir() if (path / "documents").is_dir()]
        return [ManagedCorpus(path.name, path) for path in sorted(folders) if path.name not in self._named]

    def taken(self, name: str) -> bool:
        return name in self._named or (self.folder is not None and (self.folder / name).exists())

    def own(self, name: str) -> ManagedCorpus:
        """Return a corpus made over HTTP; refuse any other name."""
        if name in self._named:
            cause = f"The corpus '{name}' was not made here."
            raise Refusal(403, "NotManaged", cause, "Whoever runs the server can change it.")
        known = {corpus.name: corpus for corpus in self.managed()}
        if name not in known:
            raise unknown("corpus", name, known, status=404)
        return known[name]

    def place(self, name: str, *, status: int = 400) -> str:
        """Return the folder or address of a corpus that can be searched.

        An unknown name is refused with `status`: 404 if the name is part of the URL.
        """
        if name in self._named:
            return self._named[name]
        corpus = next((corpus for corpus in self.managed() if corpus.name == name), None)
        if corpus is None:
            raise unknown("corpus", name, self.names, status=status)
        if corpus.ready:
            return str(corpus.index)
        if corpus.pending.exists():
            raise Refusal(409, "NotReady", f"The corpus '{name}' is still being made.", "Wait for its job to be done.")
        raise Refusal(409, "NotReady", f"The index of the corpus '{name}' is gone.", _REBUILD_REMEDY)

    def passage(self, name: str, passage_id: str) -> tuple[str, Passage, str]:
        """Return the text before a passage, the passage, and the text after it."""
        where = self.place(name, status=404)
        texts = None if is_remote(where) else self._index(name, where).texts
        passages = texts.fetch([key_of(passage_id)]) if texts else {}
        if texts is None or not passages:
            cause = f"The corpus '{name}' has no such passage."
            raise Refusal(404, "NotFound", cause, "Look for it: POST /v1/search.")
        passage = next(iter(passages.values()))
        document, _, number = passage.id.rpartition("#")
        if document != passage.document or not number.isdecimal():  # the passage is a whole document
            return "", passage, ""
        around = range(max(1, int(number) - _PASSAGES_AROUND), int(number) + _PASSAGES_AROUND + 1)
        near = texts.fetch([key_of(f"{document}#{other}") for other in around if other != int(number)]).values()
        ordered = sorted(near, key=lambda other: other.start)
        return (
            _joined([other for other in ordered if other.start < passage.start], passage.start),
            passage,
            _joined([other for other in ordered if other.start > passage.start], None, after=passage.end),
        )

    def file(self, name: str, document: str, *, of_others: bool) -> Path:
        """Return the source file of a document, which is never one outside the corpus.

        Only `of_others` returns files of corpora that were not made over HTTP.
        """
        own = next((corpus for corpus in self.managed() if corpus.name == name), None)
        where = self.place(name, status=404)
        for file in _file_names(document):
            if own is not None and file in {known for known, _ in own.files()}:
                return own.documents / file
            if own is None and of_others and not is_remote(where):
                with suppress(CorpusError, Refusal, OSError), closing(self._index(name, where).ledger()) as ledger:
                    for source, known in map(ledger.place_of, ledger.files_named(file)):
                        path = Path(source, known) if Path(source).is_dir() else Path(source)
                        if source and path.is_file() and path.resolve().is_relative_to(Path(source).resolve()):
                            return path
        raise Refusal(404, "NotFound", "The file of that document cannot be opened here.", "Its passages can be read.")

    def topics(self, name: str) -> list[Topic]:
        """Suggest topics for questions, from passages sampled evenly over the corpus."""
        where = self.place(name, status=404)
        if is_remote(where):
            return []
        index = self._index(name, where)
        with closing(index.ledger()) as ledger:
            spans = ledger.spans()
        spans = spans[:: max(1, len(spans) // _TOPIC_FILES)]
        share = max(_TOPIC_PASSAGES // max(1, len(spans)), _MIN_TOPIC_PASSAGES)
        # From the middle of equal parts: a file often begins with its title and contents.
        numbers = {low + (2 * at + 1) * (high - low + 1) // (2 * share) for low, high in spans for at in range(share)}
        return suggest_topics(row[2] for number in sorted(numbers) for row in index.texts.scan(number, number + 1))

    def forget(self, name: str) -> None:
        """Close the index of a corpus that is to be removed."""
        if self.folder is not None:
            self._open.pop(str(ManagedCorpus(name, self.folder / name).index), None)

    def _index(self, name: str, where: str) -> Index:
        """Return an index, opened again if it has changed; opening verifies checksums."""
        version = version_of(where)
        known = self._open.get(where)
        if known is None or known[0] != version:
            try:
                known = self._open[where] = version, Index(Path(where))
            except CorpusError as error:
                raise opening_error(error, name, where) from error
        return known[1]

    def list_all(self) -> list[CorpusAbout]:
        """List all corpora, those made over HTTP last."""
        named = [_about(name, where) for name, where in self._named.items()]
        managed = [
            _about(corpus.name, str(corpus.index) if corpus.ready else None, corpus.count())
            for corpus in self.managed()
        ]
        return [*named, *managed]


def _joined(passages: Sequence[Passage], until: int | None, after: int = 0) -> str:
    """Join passages of a document without what overlaps, and without wrapped lines."""
    parts: list[str] = []
    at = after
    for passage in passages:
        text = passage.text[max(0, at - passage.start) : None if until is None else until - passage.start]
        gap = passage.start - at if parts else 0
        parts.append((" " if gap == 1 else "\n\n" if gap > 1 else "") + unwrap_lines(text))
        at = max(at, passage.end)
    return "".join(parts)


def _file_names(document: str) -> Iterator[str]:
    """Yield possible file names of a document id, which may end with "#page=3"."""
    while document:
        yield document
        document = document.rpartition("#")[0]


def _about(name: str, where: str | None, documents: int | None = None) -> CorpusAbout:
    """Describe a corpus; one made over HTTP has `documents`, and may lack an index."""
    passages: int | None = 0
    retrievers: list[str] = []
    if where is not None and is_remote(where):
        passages, retrievers = None, [DEFAULT_RETRIEVER, "bm25"]
    elif where is not None:
        with suppress(CorpusError):
            manifest = read_manifest(Path(where))
            passages, settings = manifest.passages, manifest.settings
            retrievers = [DEFAULT_RETRIEVER, "bm25", *(["linked"] if settings.links else [])]
            retrievers += ["dense", "hybrid"] if settings.encoder else []
    managed = documents is not None
    return CorpusAbout(name=name, passages=passages, documents=documents, retrievers=retrievers, managed=managed)
