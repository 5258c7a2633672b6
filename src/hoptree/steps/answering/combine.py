"""Answering a question from the answers to its sub-questions."""

from __future__ import annotations

from collections.abc import Sequence

from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.steps.answering.answer import MAX_TOKENS, least_probability
from hoptree.steps.answering.evidence import show_passages
from hoptree.steps.reading.noting import note_answer
from hoptree.steps.reading.parse import clean_answer, why_unanswered
from hoptree.tree import Node
from hoptree.values import Answer, Passage

__all__ = ["combine_answers"]

UNKNOWN = "[unknown]"


async def combine_answers(
    ctx: Context,
    question: str,
    pairs: Sequence[tuple[str, Answer]],
    *,
    passages: Sequence[Passage] = (),
    node: Node | None = None,
    logprobs: bool = False,
) -> Answer:
    """The answer that follows from sub-answers, and from passages where some are given.

    A sub-question without an answer is shown as [unknown]. With `logprobs`, its confidence is the least probability
    among its tokens.
    """
    lines = [f"{n}. {asked}\n{answer.text if answer.known else UNKNOWN}" for n, (asked, answer) in enumerate(pairs, 1)]
    prompt = prompt_for(ctx.method, "combine_documents" if passages else "combine").fill(
        pairs="\n".join(lines), question=question, documents=show_passages(ctx, passages, titles=True)
    )
    reply = await ctx.generate("combine", prompt, max_tokens=MAX_TOKENS, node=node, top_logprobs=1 if logprobs else 0)
    note_answer(ctx, "combine", reply.text, clean_answer(reply.text))
    words = why_unanswered(reply.text)
    ctx.decide("answered", not words, node=node, step="combine", continuation_hit=words or None, raw=reply.text)
    confidence = least_probability(reply) if logprobs else None
    return Answer(
        clean_answer(reply.text), reply.text, "unknown" if words else "answered", "synthesis", confidence=confidence
    )
