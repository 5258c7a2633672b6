"""Direct QA: what the model says by itself."""

from __future__ import annotations

from hoptree.methods.registry import method
from hoptree.runtime.context import Context
from hoptree.steps.answering.answer import direct_answer
from hoptree.values import Answer, Question

__all__ = ["direct"]


@method("direct", title="Direct QA")
async def direct(question: Question, ctx: Context) -> Answer:
    """Ask the model the question as it is, without documents."""
    return await direct_answer(ctx, question.text)
