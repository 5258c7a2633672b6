"""Knowledge about a statement: what the corpus finds for it, and the facts of the entities in it."""

from __future__ import annotations

from typing import Literal

from hoptree.graph.facts import Fact
from hoptree.runtime.context import Context
from hoptree.runtime.schedule import both, together
from hoptree.steps.hypotheses.evidence_box import EvidenceBox
from hoptree.steps.linking.link import choose_facts
from hoptree.steps.linking.mentions import MentionLinker, graph_names
from hoptree.values import Passage

__all__ = ["Kinds", "knowledge_of", "require_sources"]

Kinds = Literal["hybrid", "graph", "text"]
"""Where to look: in both, in the knowledge graph alone, or in the corpus alone."""


def require_sources(ctx: Context, kinds: Kinds) -> None:
    """Refuse to start without a source that is to be asked."""
    if kinds != "text":
        ctx.require_graph(instead="--set evidence=text" if kinds == "hybrid" else "")
    if kinds != "graph":
        ctx.require_corpus(instead="--set evidence=graph" if kinds == "hybrid" else "")


async def knowledge_of(ctx: Context, statement: str, kinds: Kinds, *, keep: int) -> EvidenceBox:
    """What is found for a statement: passages, and facts of as many relations of as many entities."""
    return EvidenceBox(*await both(_passages(ctx, statement, kinds, keep), _facts(ctx, statement, kinds, keep)))


async def _passages(ctx: Context, statement: str, kinds: Kinds, keep: int) -> tuple[Passage, ...]:
    return () if kinds == "graph" else await ctx.search(statement, k=keep)


async def _facts(ctx: Context, statement: str, kinds: Kinds, keep: int) -> tuple[Fact, ...]:
    if kinds == "text":
        return ()
    entities = await MentionLinker(graph_names(ctx)).link(ctx, statement, keep=keep)
    found = await together(ctx.facts(entity) for entity in entities)
    return await choose_facts(ctx, statement, found, keep=keep)
