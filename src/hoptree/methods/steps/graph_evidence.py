"""Find evidence in the knowledge graph and the corpus with one query."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from hoptree.core.values import Passage
from hoptree.engine.context import Context
from hoptree.engine.schedule import SingleFlight, both, together
from hoptree.graph.entity_linking import MentionModel, MentionModelCandidates
from hoptree.graph.facts import Candidates, Entity, Fact
from hoptree.methods.steps import mentions
from hoptree.methods.steps.evidence_box import EvidenceBox, Verdict
from hoptree.methods.steps.link import RelationRanking, choose_facts
from hoptree.methods.steps.mentions import EvidenceKinds, MentionLinker, Titles
from hoptree.text.question_tree import Node

_SEARCHED = 5  # passages of a search in the whole corpus
_YES_OR_NO = re.compile(r"(?<=\?) (?:yes|no)\.?\Z", re.IGNORECASE)
"""A hypothesis behind its question that names nothing to look up."""


Wanted = Callable[[], bool]  # whether work that was begun is still of use


@dataclass(frozen=True, slots=True)
class Ahead:
    """A `Wanted` of speculative work; `refuted` is called before a rebuild."""

    wanted: Wanted
    refuted: Callable[[Verdict], None]

    def __call__(self) -> bool:
        return self.wanted()


@dataclass(frozen=True, slots=True)
class Kept:
    """How many entities, relations and passages are kept."""

    entities: int
    relations: int
    passages: int


PRESETS = {"paper": Kept(3, 3, 3), "code": Kept(2, 1, 2)}


class Sources:
    """RetrieveEvidence: entities of a query, their facts and pages; cached.

    Entities are those of the words of a query and of the names that the model reads out of it; a `reader` marks names
    in the query, which then count instead of its words. The model says which of their relations matter, or a `ranking`.
    With `whole_corpus`, all passages are searched where a query names no page, which the paper does not do.
    """

    def __init__(
        self,
        ctx: Context,
        kinds: EvidenceKinds,
        kept: Kept,
        *,
        reader: MentionModel | None = None,
        ranking: RelationRanking | None = None,
        whole_corpus: bool = True,
    ) -> None:
        self._ctx, self._kinds, self._kept, self._ranking = ctx, kinds, kept, ranking
        self._whole_corpus = whole_corpus
        candidates = Titles if kinds == "text" else mentions.graph_names(ctx)

        def names(ctx: Context, node: Node | None) -> Candidates:
            return MentionModelCandidates(reader, candidates(ctx, node)) if reader else candidates(ctx, node)

        self._linkers = {ahead: MentionLinker(names, ahead=ahead, read=self._read_names) for ahead in (False, True)}
        self._once, self._names = SingleFlight(), SingleFlight()
        self._waiting: dict[str, list[Wanted]] = {}
        self._abandoned: Counter[str] = Counter()

    async def _read_names(self, ctx: Context, query: str, node: Node | None = None) -> tuple[str, ...]:
        """Read the names in a query, once for graph and corpus."""
        return await self._names(query, lambda: mentions.extract_mentions(ctx, query, node))

    async def retrieve(self, query: str, node: Node, wanted: Wanted = lambda: True) -> EvidenceBox:
        """Return the evidence about a query's entities; stop once nobody wants it."""
        query = _YES_OR_NO.sub("", query)
        waiting = self._waiting.setdefault(query, [])
        waiting.append(wanted)
        while True:
            key = (query, self._abandoned[query])
            box = await self._once(
                key,
                lambda: self._retrieve(
                    query, node, lambda: any(is_wanted() for is_wanted in waiting), isinstance(wanted, Ahead)
                ),
            )
            if box is not None or not wanted():
                return box or EvidenceBox()
            # It was abandoned while nobody wanted it.
            self._abandoned[query] = key[1] + 1

    async def _retrieve(self, query: str, node: Node, wanted: Wanted, ahead: bool) -> EvidenceBox | None:
        """Return None where it was abandoned."""
        entities, titles = await self._link(query, node, ahead)
        if not wanted():
            return None
        facts, passages = await both(
            self._facts(query, entities, node, wanted), self._passages(query, titles, entities, node, wanted)
        )
        return EvidenceBox(passages, facts) if facts is not None and passages is not None else None

    async def _link(self, query: str, node: Node, ahead: bool) -> tuple[tuple[Entity, ...], tuple[Entity, ...]]:
        """Return the entities of a query, and of names that are titles."""
        linking = self._linkers[ahead].link(self._ctx, query, keep=self._kept.entities, node=node)
        if self._kinds == "hybrid":  # a graph may know only some of the names
            return await both(linking, mentions.find_titles(self._ctx, query, self._read_names, node=node))
        entities = await linking
        return entities, entities if self._kinds == "text" else ()

    async def _facts(
        self, query: str, entities: tuple[Entity, ...], node: Node, wanted: Wanted
    ) -> tuple[Fact, ...] | None:
        if self._kinds == "text" or not entities:
            return ()
        around = await together(self._ctx.facts(entity, node=node) for entity in entities)
        if not wanted():
            return None
        return await choose_facts(self._ctx, query, around, keep=self._kept.relations, ranking=self._ranking, node=node)

    async def _passages(
        self, query: str, titles: tuple[Entity, ...], entities: tuple[Entity, ...], node: Node, wanted: Wanted
    ) -> tuple[Passage, ...] | None:
        """Return the best passages of the pages of a query and its entities; of `whole_corpus` if either has none."""
        if self._kinds == "graph":
            return ()
        titled = {entity.page for entity in titles}
        others = [entity for entity in entities if (entity.page or entity.label) not in titled]
        most = max(self._kept.entities * self._kept.passages, _SEARCHED)
        named, own = await both(self._pages(query, titles[:most], most, node), self._pages(query, others, most, node))
        if not self._whole_corpus or (named and (own or len(others) < len(entities))):
            return _distinct(named, own)[:most]
        if not wanted():  # the part found so far must not be remembered as all of it
            return None
        searched = await self._ctx.search(query, k=_SEARCHED, node=node)
        return _distinct(named, searched)[:most] if named else _distinct(own[: most - len(searched)], searched)

    async def _pages(self, query: str, entities: Sequence[Entity], most: int, node: Node) -> tuple[Passage, ...]:
        """Return the best passages of each page, `most` in all."""
        k = self._kept.passages
        pages = await together(mentions.own_page(self._ctx, entity, query, k=k, node=node) for entity in entities)
        if sum(map(len, pages)) <= most:
            return _distinct(*pages)
        return _distinct([passage for rank in zip_longest(*pages) for passage in rank if passage])[:most]


def _distinct(*groups: Sequence[Passage]) -> tuple[Passage, ...]:
    return tuple({passage.id: passage for group in groups for passage in group}.values())
