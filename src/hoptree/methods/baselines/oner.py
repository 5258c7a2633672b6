"""One-time retrieval."""

from __future__ import annotations

from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import method
from hoptree.methods.steps.answer import answer_from
from hoptree.methods.steps.choose import surest as surest_of
from hoptree.methods.steps.multi_read import GLANCES, glances


@method("oner", title="One-time retrieval", needs=("corpus",), query="The question itself", beyond=("surest",))
async def oner(question: Question, ctx: Context, *, k: int = 5, titles: bool = False, surest: bool = False) -> Answer:
    """Retrieve once with the question itself, then read.

    With `surest`, what was found is read three times, in part and whole, always with titles, and the surest answer is
    taken: so the robust forms of other methods begin, which are to be better than this.
    """
    ctx.require_corpus()
    passages = await ctx.search(question.text, k=k)
    if surest:
        answers = await glances(ctx, question.text, passages)
        return surest_of(ctx, answers, when="final", named=GLANCES)
    return await answer_from(ctx, question.text, passages, titles=titles)
