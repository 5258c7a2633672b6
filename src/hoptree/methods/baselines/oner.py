"""One-time retrieval."""

from __future__ import annotations

from hoptree.methods.registry import method
from hoptree.runtime.context import Context
from hoptree.steps.answer import answer_from
from hoptree.values import Answer, Question

__all__ = ["oner"]


@method("oner", title="One-time retrieval", needs=("corpus",), query="The question itself")
async def oner(question: Question, ctx: Context, *, k: int = 5, titles: bool = False) -> Answer:
    """Retrieve once with the question itself, then read."""
    ctx.require_corpus()
    passages = await ctx.search(question.text, k=k)
    return await answer_from(ctx, question.text, passages, titles=titles)
