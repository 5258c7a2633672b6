"""Think-on-Graph: a beam search over a knowledge graph, led by the model."""

from __future__ import annotations

from collections.abc import Collection

from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import method
from hoptree.engine.schedule import together
from hoptree.graph.facts import Entity, Fact
from hoptree.methods.steps.answer import synthesise
from hoptree.methods.steps.chain_of_thought import think
from hoptree.methods.steps.evidence_box import EvidenceBox
from hoptree.methods.steps.graph_exploration import (
    ExplorationEnded,
    Hop,
    begin_exploration,
    choose_edges,
    choose_ends,
    edges_around,
    end_exploration,
    find_topics,
    judge_enough,
    keep_best_hops,
)


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

    `width` relations of each entity are followed, and as many paths kept, to a `depth`. A single relation or end is
    followed without asking, and of an edge with 20 ends or more `sampled` are drawn. Scores are given at `temperature`,
    judgements and answers without any. Where a path leads on to nothing, the answer is concluded from what was found;
    where the depth is reached and it is still not enough, the model reasons without paths. In the released runs the
    entities to start from come with the data set; here they are linked, by the names in the question and by the model.
    """
    ctx.require_graph()
    root = begin_exploration(ctx, question.text)

    async def hops_from(entity: Entity, known: Collection[Fact]) -> list[Hop]:
        edges = await edges_around(ctx, [entity], known=known)
        chosen = await choose_edges(ctx, question.text, edges, keep=width, temperature=temperature)
        ends = await together(
            choose_ends(ctx, question.text, edge, score, sampled=sampled, temperature=temperature)
            for edge, score in chosen
        )
        return [hop for group in ends for hop in group]

    async def explore() -> tuple[Answer, tuple[Fact, ...]]:
        """Return the answer that paths give, and these; no paths where there are none or they are not enough."""
        entities = list(await find_topics(ctx, question.text, keep=width))
        paths: tuple[Fact, ...] = ()
        for level in range(1, depth + 1):
            groups = await together(hops_from(entity, paths) for entity in entities)
            hops, entities = keep_best_hops(ctx, [hop for group in groups for hop in group], width=width, level=level)
            if not hops:
                ctx.emit(ExplorationEnded(value="no candidates" if paths else "no paths", level=level))
                return (await _conclude(ctx, question.text, paths) if paths else Answer("")), paths
            paths = tuple(dict.fromkeys((*paths, *(hop.fact for hop in hops))))
            verdict = await judge_enough(ctx, question.text, EvidenceBox(facts=paths))
            if verdict.enough:
                ctx.emit(ExplorationEnded(value="enough", level=level))
                return (verdict.as_answer if verdict.answer else await _conclude(ctx, question.text, paths)), paths
        ctx.emit(ExplorationEnded(value="depth", level=depth))
        return Answer(""), ()

    answer, paths = await explore()
    if not paths:
        (answer,) = await think(ctx, question.text, shots=shots, draw=draw)
    return end_exploration(ctx, root, answer, EvidenceBox(facts=paths))


async def _conclude(ctx: Context, question: str, paths: tuple[Fact, ...]) -> Answer:
    """Return the answer that the paths so far give, with what the model knows."""
    return await synthesise(ctx, question, [EvidenceBox(facts=paths).shown(ctx)[1]], prompt="final")
