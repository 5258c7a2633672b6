"""Where TreeQA looks for evidence: facts around the entities of a query, and the text of their pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from hoptree.graph.facts import Entity, Fact
from hoptree.runtime.context import Context
from hoptree.runtime.once import Once
from hoptree.runtime.schedule import both, together
from hoptree.steps.evidence_box import EvidenceBox
from hoptree.steps.link import Linker, choose_facts
from hoptree.steps.mentions import MentionLinker, Titles, graph_names
from hoptree.steps.own_pages import own_page
from hoptree.steps.sources import Kinds, require_sources
from hoptree.steps.verify import Verdict
from hoptree.tree import Node
from hoptree.values import Passage

__all__ = ["PRESETS", "SEARCHED", "Ahead", "Kept", "Kinds", "Sources", "Wanted"]

Wanted = Callable[[], bool]
"""Whether what is being looked for is still of use."""
SEARCHED = 5
"""Passages of a search in the whole corpus: where no page is that of an entity, and beyond the paper always."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """A `Wanted` of work that is done before it is known to be needed: to be there early, it may cost a call more.

    `refuted` is to be told of a verdict that refutes, before what that leads to is worked out.
    """

    wanted: Wanted
    refuted: Callable[[Verdict], None]

    def __call__(self) -> bool:
        return self.wanted()


@dataclass(frozen=True, slots=True)
class Kept:
    """How much is kept: entities of a query, relations of these, and passages of each page."""

    entities: int
    relations: int
    passages: int


PRESETS = {"paper": Kept(3, 3, 3), "code": Kept(2, 1, 2)}


class Sources:
    """The knowledge graph, the corpus, or both, asked with one query.

    What a query finds is remembered for the question. Entities are those of the words of a query and of the names that
    the model reads out of it, unless another `linker` is given.
    """

    def __init__(self, ctx: Context, kinds: Kinds, kept: Kept, *, linker: Linker | None = None) -> None:
        self._ctx, self._kinds, self._kept = ctx, kinds, kept
        names = Titles if kinds == "text" else graph_names(ctx)
        self._linker: Linker = linker or MentionLinker(names)
        self._linker_ahead: Linker = linker or MentionLinker(names, ahead=True)
        self._once = Once()
        self._asking: dict[str, list[Wanted]] = {}
        self._given_up: Counter[str] = Counter()

    def require(self) -> None:
        """Refuse to start without a source that is to be asked."""
        require_sources(self._ctx, self._kinds)

    async def look_up(self, query: str, node: Node, wanted: Wanted) -> EvidenceBox:
        """What there is about the entities of a query. Nothing further is asked once it is not wanted any more."""
        asking = self._asking.setdefault(query, [])
        asking.append(wanted)
        while True:
            key = (query, self._given_up[query])
            found = await self._once(
                key, lambda: self._found(query, node, lambda: any(one() for one in asking), isinstance(wanted, Ahead))
            )
            if found is not None or not wanted():
                return found or EvidenceBox()
            # Nobody wanted it any more when it was given up.
            self._given_up[query] = key[1] + 1

    async def _found(self, query: str, node: Node, wanted: Wanted, ahead: bool) -> EvidenceBox | None:
        """None where it was given up."""
        linker = self._linker_ahead if ahead else self._linker
        entities = await linker.link(self._ctx, query, keep=self._kept.entities, node=node)
        if not wanted():
            return None
        facts, passages = await both(
            self._facts(query, entities, node, wanted), self._passages(query, entities, node, wanted)
        )
        return EvidenceBox(passages, facts) if facts is not None and passages is not None else None

    async def _facts(
        self, query: str, entities: tuple[Entity, ...], node: Node, wanted: Wanted
    ) -> tuple[Fact, ...] | None:
        if self._kinds == "text" or not entities:
            return ()
        found = await together(self._ctx.facts(entity, node=node) for entity in entities)
        if not wanted():
            return None
        return await choose_facts(self._ctx, query, found, keep=self._kept.relations, node=node)

    async def _passages(
        self, query: str, entities: tuple[Entity, ...], node: Node, wanted: Wanted
    ) -> tuple[Passage, ...] | None:
        """The best passages of the entities' own pages; of the whole corpus where it has no such page."""
        if self._kinds == "graph":
            return ()
        pages = await together(
            own_page(self._ctx, entity, query, k=self._kept.passages, node=node) for entity in entities
        )
        found = tuple({passage.id: passage for page in pages for passage in page}.values())
        if found or not wanted():
            return found or None
        return await self._ctx.search(query, k=SEARCHED, node=node)
