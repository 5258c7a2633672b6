"""Judging which passages help to answer a question, one by one or all in one look."""

from __future__ import annotations

from collections.abc import Sequence

from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.runtime.schedule import together
from hoptree.steps.answering.evidence import show_passages
from hoptree.steps.reading.noting import note_reply
from hoptree.steps.reading.relevant import judges_relevance, read_numbers, read_relevance
from hoptree.tree import Node
from hoptree.values import Passage

__all__ = ["judge_passages"]

MAX_TOKENS = 16
LISTWISE_TOKENS = 128


async def judge_passages(
    ctx: Context,
    question: str,
    passages: Sequence[Passage],
    *,
    listwise: bool = False,
    titles: bool = False,
    node: Node | None = None,
) -> tuple[Passage, ...]:
    """The passages the model calls relevant, in their order.

    One call a passage, all at once; with `listwise` one call for all, which also asks whether they are sufficient and
    so lets fewer through.
    """
    if not passages:
        verdicts = []
    elif listwise:
        verdicts = await _judge_all(ctx, question, passages, titles, node)
    else:
        verdicts = await together(_judge(ctx, question, passage, titles, node) for passage in passages)
    judged = [[passage.id, verdict] for passage, verdict in zip(passages, verdicts, strict=True)]
    ctx.decide("relevance", sum(verdicts), node=node, how="listwise" if listwise else "each", judged=judged)
    return tuple(passage for passage, verdict in zip(passages, verdicts, strict=True) if verdict)


async def _judge(ctx: Context, question: str, passage: Passage, titles: bool, node: Node | None) -> bool:
    shown = show_passages(ctx, [passage], titles=titles).removeprefix("passage: ")
    prompt = prompt_for(ctx.method, "relevance").fill(passage=shown, question=question)
    reply = await ctx.generate("relevance", prompt, role="relevance", max_tokens=MAX_TOKENS, node=node)
    note_reply(ctx, "relevance", "" if judges_relevance(reply.text) else "neither relevant nor irrelevant")
    return read_relevance(reply.text)


async def _judge_all(
    ctx: Context, question: str, passages: Sequence[Passage], titles: bool, node: Node | None
) -> list[bool]:
    shown = (show_passages(ctx, [passage], titles=titles).removeprefix("passage: ") for passage in passages)
    lines = "\n".join(f"[{number}] {text}" for number, text in enumerate(shown, 1))
    prompt = prompt_for(ctx.method, "relevance_list").fill(passages=lines, question=question)
    reply = await ctx.generate("relevance", prompt, role="relevance", max_tokens=LISTWISE_TOKENS, node=node)
    named = read_numbers(reply.text, len(passages))
    note_reply(ctx, "relevance", "" if named or judges_relevance(reply.text) else "no number of a passage")
    return [number in named for number in range(1, len(passages) + 1)]
