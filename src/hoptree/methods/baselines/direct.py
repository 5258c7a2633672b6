"""Direct QA: the model alone."""

from __future__ import annotations

from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import method
from hoptree.methods.steps.answer import direct_answer


@method("direct", title="Direct QA", shared_prompts=("direct",))
async def direct(question: Question, ctx: Context) -> Answer:
    """Ask the model the question, without documents."""
    return await direct_answer(ctx, question.text)
