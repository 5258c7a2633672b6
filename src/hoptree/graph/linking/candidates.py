"""Entities that a mention, or a whole question, may be about, best first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hoptree.graph.candidates import Candidate, Candidates
from hoptree.graph.facts import Entity
from hoptree.graph.knowledge import KnowledgeGraph
from hoptree.names import name_spans

__all__ = ["Candidate", "Candidates", "LookedUp", "open_candidates"]

_SPANS = 6
"""Names of a text that are looked up where there is no index."""


def open_candidates(graph: KnowledgeGraph, *, on_progress: Callable[[int], None] = lambda done: None) -> Candidates:
    """Candidates from the index of a graph's names; from its own search by name where it is not on this machine.

    The index is made where there is none for the graph as it is; `on_progress` is told how many names were read.
    """
    if graph.kind != "embedded":
        return LookedUp(graph)
    from hoptree.graph.linking.index import open_name_index
    from hoptree.graph.linking.indexed import IndexedCandidates
    from hoptree.graph.store.embedded import EmbeddedGraph

    assert isinstance(graph, EmbeddedGraph)
    return IndexedCandidates(graph, open_name_index(graph, on_progress=on_progress))


class LookedUp:
    """Asks the graph itself for exact names: those a text writes with capitals, where nobody marked them."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._graph = graph

    async def of_mention(self, mention: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        return _by_rank([await self._graph.entities(mention, limit=limit)], limit)

    async def of_text(self, text: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        spans = [text[start:end].removesuffix("'s").removesuffix("’s") for start, end in name_spans(text)]
        if spans and " " in spans[0] and text.lstrip().startswith(spans[0]):  # "Did John Campbell …"
            spans[0] = spans[0].partition(" ")[2]
        names = sorted(dict.fromkeys(spans), key=len, reverse=True)[:_SPANS]
        return _by_rank([await self._graph.entities(name, limit=limit) for name in names], limit)


def _by_rank(found: Sequence[Sequence[Entity]], limit: int) -> tuple[Candidate, ...]:
    """The best of each name before the second best of any."""
    best: dict[str, Candidate] = {}
    for place in range(max((len(group) for group in found), default=0)):
        for group in found:
            if place < len(group):
                best.setdefault(group[place].id, Candidate(group[place], round(1 / (1 + place), 4)))
    return tuple(best.values())[:limit]
