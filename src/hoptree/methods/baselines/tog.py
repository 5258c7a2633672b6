"""Think-on-Graph: a beam search over a knowledge graph, led by the model."""

from __future__ import annotations

from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import method
from hoptree.engine.schedule import plant, together
from hoptree.graph.facts import Entity, Fact
from hoptree.methods.steps import graph_exploration as graph
from hoptree.methods.steps.answer import synthesise
from hoptree.methods.steps.chain_of_thought import REASONING_PROMPTS, think
from hoptree.methods.steps.evidence_box import EvidenceBox
from hoptree.methods.steps.graph_exploration import Hop
from hoptree.methods.steps.link import edges_in


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
    always_deviates="the graph is the one at hand, be it extracted from passages, and entities are linked to it, where "
    "the paper's runs have Freebase or Wikidata and take the entities from the data set",
    shared_prompts=("entities", "mentions", "score_relations", *REASONING_PROMPTS),
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
    judgements and answers without any. If a path ends, the answer is concluded from the evidence so far; if that does
    not suffice at the depth, the model reasons without paths. In the released runs the entities to start from come with
    the data set; here they are linked, by the names in the question and by the model.
    """
    ctx.require_graph()
    asked, root = question.text, plant(ctx, question.text)
    ctx.begin_node(root, asked)
    entities, paths = list(await graph.find_topics(ctx, asked, keep=width)), dict[Fact, None]()

    async def hops_from(entity: Entity) -> list[Hop]:
        edges = edges_in([await ctx.facts(entity)], known=paths)
        chosen = await graph.choose_edges(ctx, asked, edges, keep=width, temperature=temperature)
        ends = await together(
            graph.choose_ends(ctx, asked, edge, score, sampled=sampled, temperature=temperature)
            for edge, score in chosen
        )
        return [hop for group in ends for hop in group]

    async def go_further(level: int, clue: str) -> EvidenceBox | None:
        nonlocal entities
        groups = await together(hops_from(entity) for entity in entities)
        hops, entities = graph.keep_best_hops(ctx, [hop for group in groups for hop in group], width=width, level=level)
        paths.update((hop.fact, None) for hop in hops)
        return EvidenceBox(facts=tuple(paths)) if hops else None

    box, verdict, reason = await graph.explore(ctx, asked, EvidenceBox(), go_further, depth=depth, nothing="no paths")
    if reason in ("depth", "no paths"):
        (answer,) = await think(ctx, asked, shots=shots, draw=draw)
        return graph.end_exploration(ctx, root, answer, EvidenceBox())
    if verdict.enough and verdict.answer:
        return graph.end_exploration(ctx, root, verdict.as_answer, box)
    answer = await synthesise(ctx, asked, [box.shown(ctx)[1]], prompt="final")
    return graph.end_exploration(ctx, root, answer, box)
