"""Think-on-Graph 2: a beam search over a knowledge graph whose entities are ranked by what their pages say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import method
from hoptree.engine.schedule import together
from hoptree.graph.facts import Entity, Fact
from hoptree.methods.steps.answer import synthesise
from hoptree.methods.steps.chain_of_thought import think
from hoptree.methods.steps.choose import agreement_gate
from hoptree.methods.steps.enough import judge_enough
from hoptree.methods.steps.evidence_box import EvidenceBox
from hoptree.methods.steps.graph_exploration import (
    Hop,
    begin_path,
    choose_edges,
    draw_hops,
    edges_around,
    end_path,
    find_topics,
    go_along,
)
from hoptree.methods.steps.own_pages import own_page
from hoptree.retrieval.bm25_memory import Analysis, bm25
from hoptree.text.sentences import sentences

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
    beyond=("fall_back=reading",),
    roles=("link", "verify", "answer"),
    differs="the graph and the pages are those at hand, and entities are linked to it, where the paper's runs have "
    "Wikidata and Wikipedia; pages and sentences are ranked by the search that there is",
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

    From a share of `agreement` of `samples` chains on, theirs is the answer. Else relations are chosen in one call for
    all entities of a level, and the `width` entities kept whose pages say most for the question and the clue that the
    model gave last; it judges facts and the best `sentences` of the pages read. At a dead end, or where the `depth` is
    reached, `fall_back` reads what was collected, and takes the answer of most chains where that holds none; or it asks
    the model alone, as the released code does, which throws that away and never renews its clue. Pages are scored by
    the search of the corpus, the paper's dense model where that is one, and sentences by BM25.
    """
    ctx.require_graph()
    ctx.require_corpus()
    asked = question.text
    root, nothing = begin_path(ctx, asked), EvidenceBox()
    chains = await think(
        ctx, asked, shots=shots, draw=draw, samples=samples, temperature=temperature, max_tokens=max_tokens
    )
    voted, agreed = agreement_gate(ctx, chains, least=agreement)
    if agreed:
        ctx.decide("ended", "agreement", level=0)
        return end_path(ctx, root, voted, nothing)
    trail = await set_out(ctx, asked)
    shown, answer, clue = trail.best(asked, sentences=sentences), Answer("", status="unknown"), ""
    level, why = 0, "depth"
    for level in range(1, depth + 1):
        query = f"{asked} {clue}".strip()
        further = await go_further(ctx, asked, query, trail, width=width, level=level)
        if further is None:
            why = "no candidates"
            break
        trail, shown = further, further.best(query, sentences=sentences)
        said = await judge_enough(ctx, asked, shown, clue=clue)
        if said.enough:
            answer, why = said.as_answer, "enough"
            break
        clue = said.clue or clue
    ctx.decide("ended", why, level=level)
    if not answer.known and fall_back == "model":
        (answer,) = await think(ctx, asked, shots=shots, draw=draw, max_tokens=max_tokens)
        return end_path(ctx, root, answer, nothing)
    if not answer.known and shown:
        answer = await synthesise(ctx, asked, shown.shown(ctx))
    if not answer.known:
        return end_path(ctx, root, replace(voted, source="fallback"), nothing)
    return end_path(ctx, root, answer, shown)
