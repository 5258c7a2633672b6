"""DyPlan: choose a strategy from the question alone, use it, and if need be another."""

from __future__ import annotations

from hoptree.methods.baselines.self_ask import self_ask
from hoptree.methods.registry import method
from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.steps.answering.answer import direct_answer
from hoptree.steps.answering.thinking import think
from hoptree.steps.dialogues.strategy_turns import Turns
from hoptree.steps.planning.route import choose_way, list_ways, load_ways, says_yes
from hoptree.values import Answer, Question

__all__ = ["dyplan"]


@method(
    "dyplan",
    title="Dynamic strategy planning",
    paper="DyPlan",
    needs=("corpus",),
    signals=("prefix",),
    iterative=True,
    dynamic=True,
    strategy="Strategy chosen from the question",
    query="The question itself",
    roles=("answer", "route"),
    trained=True,
    reworded=True,
)
async def dyplan(
    question: Question,
    ctx: Context,
    *,
    checkpoint: bool = False,
    verify: bool = False,
    k: int = 3,
    shots: int = 6,
    draw: int = 0,
    titles: bool = False,
) -> Answer:
    """Choose to answer directly, by a plan (Self-Ask without search), by reasoning, or by reasoning over documents.

    With `verify` (DyPlan-verify) the model then says whether the answer is right, and if it does not say Yes, another
    strategy is chosen and its answer taken. A name that is none of the strategies counts as the dearest of those left.
    With `checkpoint` all of this is one conversation, as the paper trains a model for it, with its names (Direct, Plan,
    CoT, RAG) and `Final answer: "…"`; no weights of it were found, and the instructions are in other words than
    theirs. Their second round shows no documents; here it does. Where the second strategy finds no answer, the first
    one's stays.
    """
    ctx.require_corpus()
    if checkpoint:
        return await Turns(ctx, question.text, k, titles).answer(verify=verify)

    async def use(strategy: str) -> Answer:
        if strategy == "Direct":
            return await direct_answer(ctx, question.text)
        if strategy == "Plan":
            return await self_ask(question, ctx, search=False)
        passages = await ctx.search(question.text, k=k) if strategy == "Retrieval" else ()
        (answer,) = await think(ctx, question.text, passages=passages, shots=shots, draw=draw, titles=titles)
        return answer

    chosen = await _choose(ctx, "route", question.text)
    answer = await use(chosen)
    ctx.propose(answer, order=2)
    if not verify or await _looks_right(ctx, question.text, answer):
        return answer
    again = await use(await _choose(ctx, "route_again", question.text, used=chosen, answer=answer.text or "(none)"))
    return again if again.known else answer


async def _choose(ctx: Context, step: str, question: str, *, used: str = "", answer: str = "") -> str:
    ways = [way for way in load_ways("dyplan") if way.name != used]
    names = [way.name for way in ways]
    prompt = prompt_for(ctx.method, step).fill(
        ways=list_ways(ways), names=" or ".join(names), question=question, used=used, answer=answer
    )
    return await choose_way(ctx, prompt, names, default=names[-1], step=step)


async def _looks_right(ctx: Context, question: str, answer: Answer) -> bool:
    """Whether the model holds an answer for right; none is wrong without being asked about."""
    if not answer.known:
        return False
    prompt = prompt_for(ctx.method, "verify").fill(question=question, reasoning=answer.raw, answer=answer.text)
    return await says_yes(ctx, prompt, default=False, step="verify")
