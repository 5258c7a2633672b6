"""Retrievers, graphs and models, opened once and shared by all questions."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

from hoptree.core.errors import ConfigError, CorpusError, IndexUnavailable
from hoptree.graph.facts import KnowledgeGraph
from hoptree.graph.opening import open_graph
from hoptree.models import open_model
from hoptree.models.model import Model
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.index.manifest import MANIFEST
from hoptree.retrieval.indexing.check import check_parts
from hoptree.retrieval.opening import open_retriever
from hoptree.retrieval.remote import is_remote
from hoptree.retrieval.retriever import Retriever
from hoptree.server.error_responses import Refusal, log_failure
from hoptree.server.names import unknown
from hoptree.server.settings import Settings

_DAMAGED_REMEDY = (
    "Tell whoever runs the server; of a corpus that was made here, adding or removing a document mends it."
)
_Key = tuple[str, str, str, bool]
"""Corpus, kind of retriever, reranker, and whether searches start from facts where there are any."""


def opening_error(error: CorpusError, corpus: str, where: str) -> CorpusError | Refusal:
    """Return what a client sees of an error in opening a corpus: about what it chose, or a fault of the server."""
    if is_remote(where) or isinstance(error, IndexUnavailable):
        return error
    try:
        check_parts(Index(Path(where)))
    except (CorpusError, OSError, sqlite3.Error):
        log_failure(error, what=f"opening the corpus {corpus}")
        return Refusal(500, "CorpusError", f"The index of the corpus '{corpus}' is damaged, or gone.", _DAMAGED_REMEDY)
    paths = re.compile(rf"{re.escape(where)}(?:/[^\s'\",;()<>]*)?")
    return CorpusError(paths.sub(lambda _: f"'{corpus}'", error.cause), error.remedy)


def _version(where: str) -> tuple[int, ...]:
    """Return what differs once an index has changed: its manifest is replaced at every change."""
    if is_remote(where):
        return ()
    try:
        stat = os.stat(os.path.join(where, MANIFEST))  # noqa: PTH116, PTH118 - for every question
    except OSError:
        return ()  # opening it says what is wrong
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


class Retrievers:
    """Retrievers by corpus, kind and reranker; an index that changed is opened anew.

    `place` gives the folder or address of a corpus by its name. The retriever that was open before stays so for
    `keep_seconds`, which no question outlasts.
    """

    def __init__(
        self, place: Callable[[str], str], rerankers: Mapping[str, str], *, cached: bool, keep_seconds: float
    ) -> None:
        self._place = place
        self._rerankers = rerankers
        self._cached = cached
        self._keep_seconds = keep_seconds
        self._open: dict[_Key, tuple[tuple[int, ...], Retriever]] = {}
        self._opening: dict[_Key, asyncio.Lock] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def find(self, corpus: str, kind: str, rerank: str = "", *, facts: bool = False) -> Retriever:
        """Return the retriever over a corpus as it is now; `facts` as of `open_retriever`."""
        if rerank and rerank not in self._rerankers:
            raise unknown("reranker", rerank, self._rerankers)
        key = (corpus, kind, rerank, facts)
        self._place(corpus)  # an unknown name is refused before anything is kept of it
        async with self._opening.setdefault(key, asyncio.Lock()):
            where = self._place(corpus)
            version = _version(where)
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
                if version and not _version(where):
                    raise removed from error
                raise await asyncio.to_thread(opening_error, error, corpus, where) from error
            if version and not _version(where):  # forgotten meanwhile, and nobody would close it
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
        for closing in self._closing:
            closing.cancel()
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


class Graphs:
    """Knowledge graphs by name, each opened when it is first used."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places
        self._open: dict[str, KnowledgeGraph] = {}
        self._opening = asyncio.Lock()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._places)

    async def find(self, name: str) -> KnowledgeGraph:
        if name not in self._places:
            raise unknown("graph", name, self._places)
        async with self._opening:
            if name not in self._open:
                # Its replies are cached with those of models.
                self._open[name] = await asyncio.to_thread(open_graph, self._places[name], cached=False)
            return self._open[name]

    async def aclose(self) -> None:
        for graph in self._open.values():
            await graph.aclose()


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
