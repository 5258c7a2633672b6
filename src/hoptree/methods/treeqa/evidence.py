"""Where TreeQA looks for evidence: facts around the entities of a query, and the text of their pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from hoptree.graph.facts import Entity, Fact
from hoptree.retrieval.filters import TITLE
from hoptree.runtime.context import Context
from hoptree.runtime.schedule import both, together
from hoptree.steps.evidence_box import EvidenceBox
from hoptree.steps.link import GraphNames, Linker, Titles, choose_facts
from hoptree.tree import Node
from hoptree.values import Passage

__all__ = ["PRESETS", "Kept", "Sources"]

Kinds = Literal["hybrid", "graph", "text"]
Wanted = Callable[[], bool]
"""Whether what is being looked for is still of use."""
SEARCHED = 5
"""Passages of a search in the whole corpus, where no page is that of an entity."""


@dataclass(frozen=True, slots=True)
class Kept:
    """How much is kept: entities of a query, relations of these, and passages of each page."""

    entities: int
    relations: int
    passages: int


PRESETS = {"paper": Kept(3, 3, 3), "code": Kept(2, 1, 2)}


class Sources:
    """The knowledge graph, the corpus, or both, asked with one query."""

    def __init__(self, ctx: Context, kinds: Kinds, kept: Kept, *, linker: Linker | None = None) -> None:
        self._ctx, self._kinds, self._kept = ctx, kinds, kept
        self._linker: Linker = linker or (Titles() if kinds == "text" else GraphNames())

    def require(self) -> None:
        """Refuse to start without a source that is to be asked."""
        if self._kinds != "text":
            self._ctx.require_graph(instead="--set evidence=text" if self._kinds == "hybrid" else "")
        if self._kinds != "graph":
            self._ctx.require_corpus()

    async def look_up(self, query: str, node: Node, wanted: Wanted) -> EvidenceBox:
        """What there is about the entities of a query. Nothing further is asked once it is not wanted any more."""
        entities = await self._linker.link(self._ctx, query, keep=self._kept.entities, node=node)
        if not wanted():
            return EvidenceBox()
        facts, passages = await both(
            self._facts(query, entities, node, wanted), self._passages(query, entities, node, wanted)
        )
        return EvidenceBox(passages, facts)

    async def _facts(self, query: str, entities: tuple[Entity, ...], node: Node, wanted: Wanted) -> tuple[Fact, ...]:
        if self._kinds == "text" or not entities:
            return ()
        found = await together(self._ctx.facts(entity, node=node) for entity in entities)
        if not wanted():
            return ()
        return await choose_facts(self._ctx, query, found, keep=self._kept.relations, node=node)

    async def _passages(
        self, query: str, entities: tuple[Entity, ...], node: Node, wanted: Wanted
    ) -> tuple[Passage, ...]:
        """The best passages of the entities' own pages; of the whole corpus where it has no such page."""
        if self._kinds == "graph":
            return ()
        pages = await together(self._page(query, entity, node) for entity in entities)
        found = tuple({passage.id: passage for page in pages for passage in page}.values())
        return found or (await self._ctx.search(query, k=SEARCHED, node=node) if wanted() else ())

    async def _page(self, query: str, entity: Entity, node: Node) -> tuple[Passage, ...]:
        for title in dict.fromkeys(filter(None, (entity.page, entity.label))):
            found = await self._ctx.search(query, k=self._kept.passages, where={TITLE: title}, node=node)
            if found:
                return found
        return ()
