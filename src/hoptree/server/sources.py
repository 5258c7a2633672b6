"""Where questions are looked up: retrievers and graphs, opened once and shared by all questions."""

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

_MEND = "Tell whoever runs the server; of a corpus that was made here, adding or removing a document mends it."


def opening_error(error: CorpusError, corpus: str, where: str) -> CorpusError | Refusal:
    """The error in its place: about the way that was chosen, or a fault of the server."""
    if is_remote(where) or isinstance(error, IndexUnavailable):
        return error
    if not _is_sound(Path(where)):
        log_failure(error, what=f"opening the corpus {corpus}")
        return Refusal(500, "CorpusError", f"The index of the corpus '{corpus}' is damaged, or gone.", _MEND)
    places = re.compile(rf"{re.escape(where)}(?:/[^\s'\",;()<>]*)?")
    return CorpusError(places.sub(lambda _: f"'{corpus}'", error.cause), error.remedy)


def _is_sound(index: Path) -> bool:
    try:
        check_parts(Index(index))
    except (CorpusError, OSError, sqlite3.Error):
        return False
    return True


_Way = tuple[str, str, str, bool]
"""Corpus, kind of retriever, reranker, and whether facts are gone out from where they are there."""


def _state_of(where: str) -> tuple[int, ...]:
    """By what an index shows that it is another one now: its manifest is replaced at every change."""
    if is_remote(where):
        return ()
    try:
        found = os.stat(os.path.join(where, MANIFEST))  # noqa: PTH116, PTH118 - for every question
    except OSError:
        return ()  # opening it says what is wrong
    return found.st_ino, found.st_mtime_ns, found.st_size


def _gone(corpus: str) -> Refusal:
    return Refusal(409, "Removed", f"The corpus '{corpus}' was removed meanwhile.", "Choose another.")


class Retrievers:
    """Retrievers by corpus, kind and reranker; an index that changed is opened anew.

    `place` gives the folder or address of a corpus by its name. The one that was open before stays so for `keep`
    seconds, which no question outlasts.
    """

    def __init__(self, place: Callable[[str], str], rerankers: Mapping[str, str], *, cached: bool, keep: float) -> None:
        self._place = place
        self._rerankers = rerankers
        self._cached = cached
        self._keep = keep
        self._open: dict[_Way, tuple[tuple[int, ...], Retriever]] = {}
        self._opening: dict[_Way, asyncio.Lock] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def find(self, corpus: str, kind: str, rerank: str = "", *, facts: bool = False) -> Retriever:
        """The retriever over a corpus as it is now; `facts` as of `open_retriever`."""
        if rerank and rerank not in self._rerankers:
            raise unknown("reranker", rerank, self._rerankers)
        way = (corpus, kind, rerank, facts)
        self._place(corpus)  # a name that nobody has is refused before anything is kept of it
        async with self._opening.setdefault(way, asyncio.Lock()):
            where = self._place(corpus)
            state = _state_of(where)
            known = self._open.get(way)
            if known and known[0] == state:
                return known[1]
            try:
                fresh = await asyncio.to_thread(self._open_one, where, kind, rerank, facts)
            except CorpusError as error:
                if state and not _state_of(where):
                    raise _gone(corpus) from error
                raise await asyncio.to_thread(opening_error, error, corpus, where) from error
            if state and not _state_of(where):  # forgotten meanwhile, and nobody would close it
                await fresh.aclose()
                raise _gone(corpus)
            known = self._open.get(way)
            self._open[way] = (state, fresh)
            if known:
                self._retire(known[1])
            return fresh

    def forget(self, corpus: str) -> None:
        """Let go of a corpus that is to be removed."""
        for way in [way for way in self._open if way[0] == corpus]:
            self._retire(self._open.pop(way)[1])
            self._opening.pop(way, None)

    async def aclose(self) -> None:
        for closing in self._closing:
            closing.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        for _, retriever in self._open.values():
            await retriever.aclose()

    def _open_one(self, where: str, kind: str, rerank: str, facts: bool) -> Retriever:
        return open_retriever(where, kind, rerank=self._rerankers.get(rerank, ""), cached=self._cached, facts=facts)

    def _retire(self, retriever: Retriever) -> None:
        async def close_later() -> None:
            try:
                await asyncio.sleep(self._keep)
            finally:
                await retriever.aclose()

        task = asyncio.get_running_loop().create_task(close_later())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


class Graphs:
    """Knowledge graphs by name, each opened when it is first asked."""

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
                # What it says is remembered with the models' replies.
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
        """The model of a name, or the default one."""
        chosen = self.default if name is None else name
        if chosen not in self._models:
            raise unknown("model", chosen, self._models)
        return chosen, self._models[chosen]

    async def aclose(self) -> None:
        for model in self._opened:
            await model.aclose()
