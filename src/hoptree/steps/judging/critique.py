"""Judging an answer and the passage it was read from in words: relevant, supported, useful."""

from __future__ import annotations

from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.runtime.schedule import together
from hoptree.steps.answering.evidence import show_passages
from hoptree.steps.judging.labels import weigh_labels
from hoptree.steps.judging.reflection import WORTH, Critique
from hoptree.values import Answer, Passage

__all__ = ["criticise", "judge_need"]

_WORTH = {str(number): worth for number, worth in enumerate(WORTH, 1)}


async def judge_need(ctx: Context, question: str) -> float | None:
    """How probably documents are needed to answer a question, by the model's own account; None if it gives none."""
    prompt = prompt_for(ctx.method, "need").fill(question=question)
    shares = await weigh_labels(ctx, "need", prompt, ("yes", "no"), role="judge")
    return shares.get("yes", 0.0) if shares else None


async def criticise(ctx: Context, question: str, passage: Passage, answer: Answer, *, titles: bool) -> Critique:
    """Three judgements at once; what cannot be read counts nothing."""
    documents = show_passages(ctx, [passage], titles=titles)
    asked = (
        ("relevant", ("yes", "no")),
        ("supported", ("full", "part", "no")),
        ("useful", tuple(_WORTH)),
    )
    relevant, supported, useful = await together(
        weigh_labels(
            ctx,
            step,
            prompt_for(ctx.method, step).fill(documents=documents, question=question, answer=answer.text),
            labels,
            role="judge",
        )
        for step, labels in asked
    )
    return Critique(
        relevant.get("yes", 0.0),
        supported.get("full", 0.0) + 0.5 * supported.get("part", 0.0),
        sum(share * _WORTH[label] for label, share in useful.items()),
        answer.confidence or 0.0,
    )
