"""Where TreeQA looks for evidence: facts around the entities of a query, and the text of their pages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from hoptree.graph.facts import Entity, Fact
from hoptree.graph.linking import Candidates, NameReader, ReadCandidates
from hoptree.runtime.context import Context
from hoptree.runtime.once import Once
from hoptree.runtime.schedule import both, together
from hoptree.steps.hypotheses.evidence_box import EvidenceBox
from hoptree.steps.hypotheses.sources import Kinds, require_sources
from hoptree.steps.hypotheses.verify import Verdict
from hoptree.steps.linking.link import Linker, choose_facts
from hoptree.steps.linking.mentions import MentionLinker, Titles, extract_mentions, find_titles, graph_names
from hoptree.steps.linking.own_pages import own_page
from hoptree.steps.linking.relations import RelationRanking
from hoptree.tree import Node
from hoptree.values import Passage

__all__ = ["PRESETS", "SEARCHED", "Ahead", "Kept", "Kinds", "Sources", "Wanted"]

Wanted = Callable[[], bool]
"""Whether what is being looked for is still of use."""
SEARCHED = 5
"""Passages of a search in the whole corpus: where no page is that of an entity, and beyond the paper always."""


_YES_OR_NO = re.compile(r"(?<=\?) (?:yes|no)\.?\Z", re.IGNORECASE)
"""A hypothesis behind its question that names nothing to look up."""


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
    the model reads out of it; a `reader` marks names in the query, which then count in the place of its words. The
    model says which of their relations matter, or a `ranking` does.
    """

    def __init__(
        self,
        ctx: Context,
        kinds: Kinds,
        kept: Kept,
        *,
        reader: NameReader | None = None,
        ranking: RelationRanking | None = None,
    ) -> None:
        self._ctx, self._kinds, self._kept, self._ranking = ctx, kinds, kept, ranking
        plain = Titles if kinds == "text" else graph_names(ctx)

        def names(ctx: Context, node: Node | None) -> Candidates:
            return ReadCandidates(reader, plain(ctx, node)) if reader else plain(ctx, node)

        self._linkers: dict[bool, Linker] = {
            ahead: MentionLinker(names, ahead=ahead, read=self._read) for ahead in (False, True)
        }
        self._once, self._names = Once(), Once()
        self._asking: dict[str, list[Wanted]] = {}
        self._given_up: Counter[str] = Counter()

    async def _read(self, ctx: Context, query: str, *, node: Node | None = None) -> tuple[str, ...]:
        """The names in a query, read once for graph and corpus."""
        return await self._names(query, lambda: extract_mentions(ctx, query, node=node))

    def require(self) -> None:
        """Refuse to start without a source that is to be asked."""
        require_sources(self._ctx, self._kinds)

    async def look_up(self, query: str, node: Node, wanted: Wanted) -> EvidenceBox:
        """What there is about the entities of a query. Nothing further is asked once it is not wanted any more."""
        query = _YES_OR_NO.sub("", query)
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
        entities, titles = await self._linked(query, node, ahead)
        if not wanted():
            return None
        facts, passages = await both(
            self._facts(query, entities, node, wanted), self._passages(query, titles, entities, node, wanted)
        )
        return EvidenceBox(passages, facts) if facts is not None and passages is not None else None

    async def _linked(self, query: str, node: Node, ahead: bool) -> tuple[tuple[Entity, ...], tuple[Entity, ...]]:
        """The entities of a query, and those of its names that are titles of the corpus."""
        entities = self._linkers[ahead].link(self._ctx, query, keep=self._kept.entities, node=node)
        if self._kinds == "hybrid":  # a graph may know some of the names only
            return await both(entities, find_titles(self._ctx, query, self._read, node=node))
        found = await entities
        return found, found if self._kinds == "text" else ()

    async def _facts(
        self, query: str, entities: tuple[Entity, ...], node: Node, wanted: Wanted
    ) -> tuple[Fact, ...] | None:
        if self._kinds == "text" or not entities:
            return ()
        found = await together(self._ctx.facts(entity, node=node) for entity in entities)
        if not wanted():
            return None
        return await choose_facts(self._ctx, query, found, keep=self._kept.relations, ranking=self._ranking, node=node)

    async def _passages(
        self, query: str, titles: tuple[Entity, ...], entities: tuple[Entity, ...], node: Node, wanted: Wanted
    ) -> tuple[Passage, ...] | None:
        """The best passages of the pages that the query names, and of the entities' own; where either has none, of the
        whole corpus too. What the graph leads to comes beside what the corpus alone gives, and never instead.
        """
        if self._kinds == "graph":
            return ()
        there = {one.page for one in titles}
        others = [one for one in entities if (one.page or one.label) not in there]
        most = max(self._kept.entities * self._kept.passages, SEARCHED)
        named, own = await both(self._pages(query, titles[:most], most, node), self._pages(query, others, most, node))
        if named and (own or len(others) < len(entities)):
            return _each(named, own)[:most]
        if not wanted():  # a part of it would be remembered as the whole, for who comes to want it again
            return None
        searched = await self._ctx.search(query, k=SEARCHED, node=node)
        if named:
            return _each(named, searched)[:most]
        return _each(own[: most - len(searched)], searched)

    async def _pages(self, query: str, entities: Sequence[Entity], most: int, node: Node) -> tuple[Passage, ...]:
        """The best passages of each page; of more than there is room for, the best of each in turn."""
        k = self._kept.passages
        pages = await together(own_page(self._ctx, entity, query, k=k, node=node) for entity in entities)
        if sum(map(len, pages)) <= most:
            return _each(*pages)
        return _each([one for rank in zip_longest(*pages) for one in rank if one])[:most]


def _each(*groups: Sequence[Passage]) -> tuple[Passage, ...]:
    """Passages in their order, each once."""
    return tuple({passage.id: passage for group in groups for passage in group}.values())
