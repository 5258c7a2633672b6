"""Think-on-Graph 2: search a graph whose entities are ranked by their pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import method
from hoptree.engine.schedule import plant, together
from hoptree.graph.facts import Entity
from hoptree.methods.steps import graph_exploration as graph
from hoptree.methods.steps.answer import agreement_gate, synthesise
from hoptree.methods.steps.chain_of_thought import REASONING_PROMPTS, think
from hoptree.methods.steps.evidence_box import EvidenceBox
from hoptree.methods.steps.link import edges_in
from hoptree.methods.steps.mentions import own_page
from hoptree.retrieval.bm25_memory import best_sentences

Pages = Mapping[str, Sequence[Passage]]  # passages of the pages of entities, by their ids
_TOPICS = 2  # entities of a question to start from, as in the released code
_SAMPLED_ENDS = 5  # of an edge with many
_MAX_PAGES = 20
_TOP_PASSAGES = 10  # passages of all pages that count, so at most as many are requested of each
_DECAY = 0.8


@method(
    "tog2",
    title="Think on graph and text",
    paper="ToG-2",
    needs=("corpus", "graph"),
    signals=("prefix",),
    iterative=True,
    dynamic=True,
    strategy="Chains of thought that disagree, then evidence that is not enough",
    query="The question and the last clue, on the pages of entities in a graph",
    deviating_options={"fall_back=reading": "the paper drops what was found at a dead end, and asks the model alone"},
    roles=("link", "verify", "answer"),
    always_deviates="graph, pages and linker are those at hand, and rank by their search; the paper has Wikidata and "
    "Wikipedia",
    shared_prompts=("entities", "mentions", "read", "score_relations", *REASONING_PROMPTS),
)
async def tog2(
    question: Question,
    ctx: Context,
    *,
    samples: int = 10,
    agreement: float = 0.8,
    temperature: float = 0.7,
    width: int = 3,
    depth: int = 3,
    sentences: int = 10,
    fall_back: Literal["reading", "model"] = "reading",
    shots: int = 6,
    draw: int = 0,
    max_tokens: int = 256,
) -> Answer:
    """Explore graph and pages together from the entities of a question, unless several chains of thought agree.

    If a share of `agreement` of `samples` chains agrees, theirs is the answer. Else relations are chosen in one call
    for all entities of a level, and the `width` entities kept whose pages say most for the question and the clue that
    the model gave last; it judges facts and the best `sentences` of the pages read. At a dead end, or at the `depth`,
    `fall_back` reads what was collected, and takes the answer of most chains where that holds none; or it asks the
    model alone, as the released code does. Pages are scored by the search of the corpus, and sentences by BM25.
    """
    ctx.require_graph()
    ctx.require_corpus()
    asked, root = question.text, plant(ctx, question.text)
    ctx.begin_node(root, asked)
    shown: dict[str, Any] = {"shots": shots, "draw": draw, "max_tokens": max_tokens}
    chains = await think(ctx, asked, samples=samples, temperature=temperature, **shown)
    voted, agreed = agreement_gate(ctx, chains, least=agreement)
    if agreed:
        ctx.emit(graph.ExplorationEnded(value="agreement", level=0))
        return graph.end_exploration(ctx, root, voted, EvidenceBox())
    entities = await graph.find_topics(ctx, asked, keep=_TOPICS)
    pages = await _find_pages(ctx, asked, entities)
    box = EvidenceBox(tuple(passage for page in pages.values() for passage in page))

    def best(query: str) -> EvidenceBox:
        """Return all facts, and the sentences that share most words with a query."""
        return replace(box, passages=best_sentences(query, box.passages, keep=sentences))

    async def go_further(level: int, clue: str) -> EvidenceBox | None:
        """Choose relations in one call, and keep the ends with the greatest page weights."""
        nonlocal entities, box
        query = f"{asked} {clue}".strip()
        edges = edges_in(await together(ctx.facts(entity) for entity in entities), known=box.facts)
        chosen = await graph.choose_edges(ctx, asked, edges, keep=width * len(entities))
        hops = [hop for edge, score in chosen for hop in graph.sample_hops(edge, score, asked, sampled=_SAMPLED_ENDS)]
        ranked = sorted(hops, key=lambda hop: -hop.score)
        values = [hop.fact for hop in ranked if not hop.end.id][:width]  # dates and numbers have no page
        ends = [hop for hop in ranked if hop.end.id][:_MAX_PAGES]
        pages = await _find_pages(ctx, query, [Entity(hop.end.id, hop.end.text) for hop in ends])
        weights = weigh_pages(pages)
        weighed = [replace(hop, score=weights[hop.end.id]) for hop in ends]
        kept, reached = graph.keep_best_hops(ctx, weighed, width=width, level=level)
        facts = (*(hop.fact for hop in kept), *values)
        if not facts:
            return None
        passages = tuple(passage for entity in reached for passage in pages[entity.id])
        entities, box = tuple(reached), EvidenceBox(passages, facts).over(box)
        return best(query)

    seen, verdict, _ = await graph.explore(ctx, asked, best(asked), go_further, depth=depth, clues=True)
    answer = verdict.as_answer if verdict.enough else Answer("", status="unknown")
    if not answer.known and fall_back == "model":
        (answer,) = await think(ctx, asked, **shown)
        return graph.end_exploration(ctx, root, answer, EvidenceBox())
    if not answer.known and seen:
        answer = await synthesise(ctx, asked, seen.shown(ctx))
    if not answer.known:
        return graph.end_exploration(ctx, root, replace(voted, source="fallback"), EvidenceBox())
    return graph.end_exploration(ctx, root, answer, seen)


async def _find_pages(ctx: Context, query: str, entities: Sequence[Entity]) -> Pages:
    """Return the passages of each entity's page that are among the best of all pages."""
    each = {entity.id: entity for entity in entities}
    results = await together(own_page(ctx, entity, query, k=_TOP_PASSAGES) for entity in each.values())
    pages = dict(zip(each, results, strict=True))
    best = {passage.id for passage in _best_passages(pages)}
    return {name: [passage for passage in page if passage.id in best] for name, page in pages.items()}


def weigh_pages(pages: Pages) -> dict[str, float]:
    """Return each page's sum of score times exp(-0.8 rank) over its best passages.

    Ranks are among the best passages of all pages; scores are shifted so that none is negative.
    """
    best = _best_passages(pages)
    least = min([0.0, *(passage.score for passage in best)])
    weight = {passage.id: (passage.score - least) * math.exp(-_DECAY * rank) for rank, passage in enumerate(best)}
    return {name: sum(weight.get(passage.id, 0.0) for passage in page) for name, page in pages.items()}


def _best_passages(pages: Pages) -> list[Passage]:
    each = {passage.id: passage for page in pages.values() for passage in page}
    return sorted(each.values(), key=lambda passage: (-passage.score, passage.id))[:_TOP_PASSAGES]
