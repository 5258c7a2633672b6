"""Exploring a graph together with the pages of its entities: what was collected on the way, and where it goes on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hoptree.graph.facts import Entity
from hoptree.runtime.context import Context
from hoptree.steps.hypotheses.evidence_box import EvidenceBox
from hoptree.steps.linking.exploring import choose_edges, draw_hops, edges_around
from hoptree.steps.linking.page_weights import best_sentences, hops_by_pages, pages_of, passages_in
from hoptree.steps.linking.topics import find_topics

__all__ = ["Trail", "go_further", "set_out"]

_TOPICS = 2
"""Entities of a question to start from, as in the released code of ToG-2."""
_DRAWN = 5
"""Ends of an edge with many that are drawn."""


@dataclass(frozen=True, slots=True)
class Trail:
    """Facts and passages that were collected, the newest first, and the entities to go on from."""

    entities: tuple[Entity, ...]
    box: EvidenceBox

    def best(self, query: str, *, sentences: int) -> EvidenceBox:
        """All facts, and the sentences that share most with a query."""
        return replace(self.box, passages=best_sentences(query, self.box.passages, keep=sentences))


async def set_out(ctx: Context, question: str) -> Trail:
    """A trail that begins with the entities that a question is about, and their pages."""
    entities = await find_topics(ctx, question, keep=_TOPICS)
    return Trail(entities, EvidenceBox(passages_in(await pages_of(ctx, question, entities))))


async def go_further(ctx: Context, question: str, query: str, trail: Trail, *, width: int, level: int) -> Trail | None:
    """The trail one hop further, None where it leads nowhere.

    The relations of all its entities are chosen in one call for the question, `width` for each of them; the `width`
    entities are gone to whose pages say most for the query.
    """
    edges = await edges_around(ctx, trail.entities, known=trail.box.facts)
    chosen = await choose_edges(ctx, question, edges, keep=width * len(trail.entities))
    ends = [hop for edge, score in chosen for hop in draw_hops(edge, score, question, draw=_DRAWN)]
    found = await hops_by_pages(ctx, query, ends, width=width, level=level)
    if not found.facts:
        return None
    return Trail(found.entities, EvidenceBox(found.passages, found.facts).over(trail.box))
