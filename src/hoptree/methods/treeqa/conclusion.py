"""How TreeQA comes to its answer beyond its paper (`robust`): by readings of passages, and of a tree that holds."""

from __future__ import annotations

from dataclasses import replace

from hoptree.methods.treeqa.evidence import SEARCHED, Kinds
from hoptree.methods.treeqa.told import told
from hoptree.methods.treeqa.walk import Walk
from hoptree.runtime.context import Context
from hoptree.steps.answering.answer import synthesise
from hoptree.steps.answering.choose import surest
from hoptree.steps.answering.compare import compare_pairs
from hoptree.steps.answering.evidence import show_passages
from hoptree.steps.answering.glances import GLANCES, glances
from hoptree.steps.hypotheses.evidence_box import EvidenceBox
from hoptree.values import Answer, Passage

__all__ = ["conclude", "read_own"]

_SHOWN = 8
"""Passages that the last reading sees beside the tree: those that verdicts cite, then others that were looked at."""


async def read_own(ctx: Context, question: str, evidence: Kinds) -> list[Answer]:
    """What the passages say that the question itself finds; nothing where only facts are to be looked at."""
    if evidence == "graph":
        return []
    return await glances(ctx, question, await ctx.search(question, k=SEARCHED))


async def conclude(ctx: Context, question: str, walk: Walk, own: list[Answer]) -> Answer:
    """What a comparison comes to in code, or else the surest of the readings.

    The tree is read only if evidence bears out all of it, or nothing else is known: a model is as sure of its own
    guesses as of what it has read, so that their reading would be the surest for no good reason.
    """
    # What evidence says alone is compared: a guess is nothing to compare by.
    branches = [one for top in walk.tops for one in (top, *top.below())]
    pairs = [(one.node.question, Answer(one.hypothesis)) for one in branches if walk.outcomes[one.node.id].checked]
    if compared := compare_pairs(ctx, question, pairs):
        return compared
    outcomes = [walk.outcomes[one.node.id] for one in branches]
    if any(answer.known for answer in own) and not all(outcome.checked for outcome in outcomes):
        return surest(ctx, own, when="final", named=GLANCES)
    cited = [passage for outcome in outcomes for passage in outcome.verdict.cited.passages]
    seen = [passage for outcome in outcomes for attempt in outcome.attempts for passage in attempt.box.passages]
    shown: list[Passage] = list({passage.id: passage for passage in reversed([*cited, *seen])}.values())[::-1][:_SHOWN]
    statements = list(told(ctx, walk.tops, walk.outcomes, texts=False))
    documents = [show_passages(ctx, shown, titles=True)] if shown else []
    sure = "logprobs" in ctx.model_for("answer").capabilities
    last = await synthesise(ctx, question, [*statements, *documents], logprobs=sure)
    last = replace(last, support=EvidenceBox(tuple(shown)).supporting(last.text) if last.known else ())
    if last.known and not any(answer.known for answer in own) and not any(outcome.checked for outcome in outcomes):
        ctx.warn("unsupported", "The answer is put together from guesses that nothing found confirms.")
        last = replace(last, source="fallback")
    return surest(ctx, [*own, last], when="final", named=(*(GLANCES if own else ()), "the tree and what it cites"))
