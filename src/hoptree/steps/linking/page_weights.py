"""Ranking entities by what their own pages say about a question, and the best sentences of these."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from hoptree.graph.facts import Entity, Fact
from hoptree.retrieval.few import Analysis, bm25
from hoptree.runtime.context import Context
from hoptree.runtime.schedule import together
from hoptree.sentences import sentences
from hoptree.steps.linking.exploring import Hop, go_along
from hoptree.steps.linking.own_pages import own_page
from hoptree.values import Passage

__all__ = ["Pages", "Reached", "best_sentences", "hops_by_pages", "pages_of", "passages_in", "weigh_pages"]

Pages = Mapping[str, Sequence[Passage]]
"""Passages of the pages of entities, by their ids."""
_LOOKED_AT = 20
"""Entities whose pages are looked at."""
_DECAY = 0.8
_TOP = 10
"""Passages of all pages that count, and so many that each is asked for."""


@dataclass(frozen=True, slots=True)
class Reached:
    """What one step in a graph came to: facts, the passages that speak for where they lead, and these entities."""

    facts: tuple[Fact, ...]
    passages: tuple[Passage, ...]
    entities: tuple[Entity, ...]


async def pages_of(ctx: Context, query: str, entities: Sequence[Entity]) -> Pages:
    """The passages of the entities' own pages that count: the best ones for a query, of all pages together."""
    once = {entity.id: entity for entity in entities}
    found = await together(own_page(ctx, entity, query, k=_TOP) for entity in once.values())
    best = {passage.id for passage in _best(dict(zip(once, found, strict=True)))}
    return {name: [one for one in page if one.id in best] for name, page in zip(once, found, strict=True)}


def weigh_pages(pages: Pages) -> dict[str, float]:
    """The weight of each page: of its passages among the best of all, the sum of score times exp(-0.8 rank).

    Searches that give negative scores are taken to begin at their lowest.
    """
    best = _best(pages)
    least = min([0.0, *(passage.score for passage in best)])
    weight = {one.id: (one.score - least) * math.exp(-_DECAY * rank) for rank, one in enumerate(best)}
    return {name: sum(weight.get(one.id, 0.0) for one in page) for name, page in pages.items()}


def _best(pages: Pages) -> list[Passage]:
    every = {passage.id: passage for page in pages.values() for passage in page}
    return sorted(every.values(), key=lambda passage: (-passage.score, passage.id))[:_TOP]


def passages_in(pages: Pages) -> tuple[Passage, ...]:
    return tuple(passage for page in pages.values() for passage in page)


async def hops_by_pages(ctx: Context, query: str, hops: Sequence[Hop], *, width: int, level: int) -> Reached:
    """The hops that lead to the pages that weigh most, `width` at most; of equal pages the likeliest hops.

    Dates and numbers have no page: as many of their facts are kept beside.
    """
    ranked = sorted(hops, key=lambda hop: -hop.score)
    values = [hop.fact for hop in ranked if not hop.end.id][:width]
    ends = [hop for hop in ranked if hop.end.id][:_LOOKED_AT]
    pages = await pages_of(ctx, query, [Entity(hop.end.id, hop.end.text) for hop in ends])
    weights = weigh_pages(pages)
    kept, entities = go_along(ctx, [replace(hop, score=weights[hop.end.id]) for hop in ends], width=width, level=level)
    passages = passages_in({entity.id: pages[entity.id] for entity in entities})
    return Reached((*(hop.fact for hop in kept), *values), passages, tuple(entities))


def best_sentences(query: str, passages: Sequence[Passage], *, keep: int) -> tuple[Passage, ...]:
    """The sentences that share most with a query, as passages with the ids of those they stand in."""
    each = {passage.id: passage for passage in passages}.values()
    cut = [replace(passage, text=sentence) for passage in each for sentence in dict.fromkeys(sentences(passage.text))]
    analysis = _english()
    scores = bm25([analysis.words(one.title, one.text) for one in cut], analysis.sought(query))
    places = sorted(range(len(cut)), key=lambda place: -scores[place])[:keep]
    return tuple(replace(cut[place], score=scores[place]) for place in places)


@cache
def _english() -> Analysis:
    return Analysis("english")
