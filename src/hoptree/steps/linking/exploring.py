"""Exploring a graph from the entities of a question: which edges to follow, and which of their ends to go on from."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hoptree.graph.facts import Entity, Fact, Term
from hoptree.runtime.context import Context
from hoptree.runtime.schedule import together
from hoptree.steps.linking.edges import Edge, edges_in
from hoptree.steps.linking.scoring import score_lines

__all__ = ["Hop", "choose_edges", "choose_ends", "draw_hops", "edges_around", "go_along", "hops_from"]

_SHOWN = 60
"""Edges that one prompt shows."""
_MANY = 20
"""From so many ends of an edge on, some are drawn."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A fact that was followed from one of its sides, what stands at the other, and how promising that is."""

    fact: Fact
    end: Term
    score: float


async def edges_around(ctx: Context, entities: Sequence[Entity], *, known: Collection[Fact]) -> tuple[Edge, ...]:
    """The edges of all these entities, without the facts by which they were come to."""
    return edges_in(await together(ctx.facts(entity) for entity in entities), known=frozenset(known))


async def choose_edges(
    ctx: Context, question: str, edges: Sequence[Edge], *, keep: int, temperature: float = 0.0
) -> list[tuple[Edge, float]]:
    """The edges that the model scores highest for a question, in one call, not knowing where they lead.

    An edge that is alone is followed, and not asked about.
    """
    if len(edges) == 1:
        return [(edges[0], 1.0)]
    shown = edges[:_SHOWN]
    lines = [edge.open_line for edge in shown]
    names = [(edge.open_line, edge.relation) for edge in shown]
    scored = await score_lines(ctx, "score_relations", question, lines, names=names, keep=keep, temperature=temperature)
    return [(shown[place], score) for place, score in scored]


async def choose_ends(
    ctx: Context, question: str, edge: Edge, score: float, *, draw: int, temperature: float = 0.0
) -> list[Hop]:
    """The ends of an edge with the scores that the model gives them, each times that of the edge.

    An end that is alone has that of the edge, and is not asked about.
    """
    hops = draw_hops(edge, score, question, draw=draw)
    if len(hops) < 2:
        return hops
    lines = [hop.fact.text for hop in hops]
    names = [(hop.fact.text, hop.end.text) for hop in hops]
    scored = await score_lines(
        ctx, "score_entities", question, lines, names=names, keep=len(lines), temperature=temperature
    )
    return [Hop(hops[place].fact, hops[place].end, score * given) for place, given in scored]


def draw_hops(edge: Edge, score: float, question: str, *, draw: int) -> list[Hop]:
    """The ends of an edge; where there are many, `draw` of them by chance, the same ones for the same question."""
    hops = [Hop(fact, end, score) for fact, end in zip(edge.facts, edge.ends, strict=True)]
    return random.Random(f"{question} {edge.open_line}").sample(hops, draw) if len(hops) >= _MANY > draw else hops


async def hops_from(
    ctx: Context,
    question: str,
    entity: Entity,
    *,
    known: Collection[Fact],
    keep: int,
    draw: int,
    temperature: float = 0.0,
) -> list[Hop]:
    """The ends of the best edges of one entity, `keep` edges at most, with their scores."""
    edges = await edges_around(ctx, [entity], known=known)
    chosen = await choose_edges(ctx, question, edges, keep=keep, temperature=temperature)
    ends = await together(
        choose_ends(ctx, question, edge, score, draw=draw, temperature=temperature) for edge, score in chosen
    )
    return [hop for some in ends for hop in some]


def go_along(ctx: Context, hops: Sequence[Hop], *, width: int, level: int) -> tuple[list[Hop], list[Entity]]:
    """The best hops, `width` at most, and the entities that they lead to; dates and numbers lead nowhere."""
    kept = sorted(hops, key=lambda hop: -hop.score)[:width]
    ctx.decide(
        "hops",
        [hop.fact.text for hop in kept],
        level=level,
        scores=[round(hop.score, 4) for hop in kept],
        candidates=len(hops),
    )
    ends = {hop.end.id: Entity(hop.end.id, hop.end.text) for hop in kept if hop.end.id}
    return kept, list(ends.values())
