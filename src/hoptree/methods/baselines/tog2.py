"""Think-on-Graph 2: a beam search over a knowledge graph whose entities are ranked by what their pages say."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from hoptree.methods.registry import method
from hoptree.runtime.context import Context
from hoptree.steps.answering.answer import synthesise
from hoptree.steps.answering.enough import judge_enough
from hoptree.steps.answering.thinking import think
from hoptree.steps.hypotheses.evidence_box import EvidenceBox
from hoptree.steps.linking.found_path import begin_path, end_path
from hoptree.steps.linking.trail import go_further, set_out
from hoptree.steps.planning.gate import agreement_gate
from hoptree.values import Answer, Question

__all__ = ["tog2"]


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
