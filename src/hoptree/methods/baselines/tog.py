"""Think-on-Graph: a beam search over a knowledge graph, led by the model."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import method
from hoptree.engine.schedule import together
from hoptree.graph.facts import Fact
from hoptree.methods.steps.answer import synthesise
from hoptree.methods.steps.chain_of_thought import think
from hoptree.methods.steps.enough import judge_enough
from hoptree.methods.steps.evidence_box import EvidenceBox
from hoptree.methods.steps.graph_exploration import Hop, begin_path, end_path, find_topics, go_along, hops_from


@method(
    "tog",
    title="Think on graph",
    paper="ToG",
    needs=("graph",),
    signals=("prefix",),
    iterative=True,
    dynamic=True,
    strategy="Paths that are not enough to answer",
    query="Relations and entities of a graph that the model scores",
    roles=("link", "verify", "answer"),
    differs="the graph is the one at hand, be it extracted from passages, and entities are linked to it, where the "
    "paper's runs have Freebase or Wikidata and take the entities from the data set",
)
async def tog(
    question: Question,
    ctx: Context,
    *,
    width: int = 3,
    depth: int = 3,
    temperature: float = 0.4,
    sampled: int = 5,
    shots: int = 6,
    draw: int = 0,
) -> Answer:
    """Follow the relations and entities that the model scores highest, until it can answer from the paths.

    `width` relations of each entity are followed, and as many paths kept, to a `depth`; a relation or an end that is
    alone is followed unasked, and of an edge with 20 ends or more `sampled` are drawn. Scores are given at
    `temperature`, judgements and answers without any. Where a path leads on to nothing, the answer is concluded from
    what was found; where the depth is reached and it is still not enough, the model reasons without paths. In the
    released runs the entities to start from come with the data set; here they are linked, by the names in the question
    and by the model.
    """
    ctx.require_graph()
    asked = question.text
    root = begin_path(ctx, asked)
    hops = partial(hops_from, ctx, asked, keep=width, draw=sampled, temperature=temperature)
    answer, paths = await _explore(ctx, asked, hops, width, depth)
    if not paths:
        (answer,) = await think(ctx, asked, shots=shots, draw=draw)
    return end_path(ctx, root, answer, EvidenceBox(facts=paths))


async def _explore(
    ctx: Context, asked: str, hops_of: Callable[..., Coroutine[Any, Any, list[Hop]]], width: int, depth: int
) -> tuple[Answer, tuple[Fact, ...]]:
    """The answer that paths give, and these; no paths where there are none or they are not enough."""
    entities = list(await find_topics(ctx, asked, keep=width))
    paths: tuple[Fact, ...] = ()
    for level in range(1, depth + 1):
        found = await together(hops_of(entity, known=paths) for entity in entities)
        hops, entities = go_along(ctx, [hop for some in found for hop in some], width=width, level=level)
        if not hops:
            ctx.decide("ended", "no paths" if not paths else "no candidates", level=level)
            return (await _told(ctx, asked, paths) if paths else Answer("")), paths
        paths = tuple(dict.fromkeys((*paths, *(hop.fact for hop in hops))))
        said = await judge_enough(ctx, asked, EvidenceBox(facts=paths))
        if said.enough:
            ctx.decide("ended", "enough", level=level)
            return (said.as_answer if said.answer else await _told(ctx, asked, paths)), paths
    ctx.decide("ended", "depth", level=depth)
    return Answer(""), ()


async def _told(ctx: Context, question: str, paths: tuple[Fact, ...]) -> Answer:
    """The answer that the paths so far give, with what the model knows."""
    return await synthesise(ctx, question, [EvidenceBox(facts=paths).shown(ctx)[1]], prompt="final")
