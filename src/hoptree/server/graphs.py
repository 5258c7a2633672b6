"""Knowledge graphs of a server, opened once and shared by all questions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from hoptree.core.errors import ASK_OPERATOR, GraphError, GraphUnavailable, hide_path
from hoptree.graph import MANIFEST, open_graph
from hoptree.graph.facts import KnowledgeGraph
from hoptree.server.error_responses import Refusal, log_failure
from hoptree.server.resources import version_of
from hoptree.server.settings import unknown


def _is_remote_graph(place: str) -> bool:
    return place == "wikidata" or "://" in place


def _open_graph(name: str, place: str) -> KnowledgeGraph:
    """Open a graph whose replies are cached with those of models; where it is stays here."""
    try:
        return open_graph(place, cached=False)
    except GraphError as error:
        if _is_remote_graph(place) or isinstance(error, GraphUnavailable):
            raise
        log_failure(error, what=f"opening the graph {name}")
        raise Refusal(500, "GraphError", f"The graph '{name}' is damaged, or gone.", ASK_OPERATOR) from error


class Graphs:
    """Knowledge graphs by name, each opened when it is first used; one that changed is opened anew."""

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
            version = version_of(self._places[name], MANIFEST)
            known = self._open.get(name)
            if known is None or known[0] != version:  # the files of one in a folder close with its last question
                graph = await asyncio.to_thread(_open_graph, name, self._places[name])
                known = self._open[name] = version, graph
            return known[1]

    async def aclose(self) -> None:
        for _, graph in self._open.values():
            await graph.aclose()
