"""One-time retrieval."""

from __future__ import annotations

from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import method
from hoptree.methods.steps.answer import READINGS, answer_from, read_several_ways
from hoptree.methods.steps.answer import surest as surest_of


@method(
    "oner",
    title="One-time retrieval",
    needs=("corpus",),
    query="The question itself",
    beyond={"surest": "several readings, of which the surest counts, are more than one"},
    shared_prompts=("read", "read_asked_first"),
)
async def oner(question: Question, ctx: Context, *, k: int = 5, titles: bool = False, surest: bool = False) -> Answer:
    """Retrieve once with the question itself, then read.

    With `surest`, the passages are read three times, in part and as a whole, always with titles, and the surest answer
    is taken.
    """
    ctx.require_corpus()
    passages = await ctx.search(question.text, k=k)
    if surest:
        answers = await read_several_ways(ctx, question.text, passages)
        return surest_of(ctx, answers, when="final", named=READINGS)
    return await answer_from(ctx, question.text, passages, titles=titles)
