"""Reading each passage alone: one answer a passage, as sure as the model was of its tokens on the whole."""

from __future__ import annotations

from collections.abc import Sequence

from hoptree.core.values import Answer, Passage
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.engine.schedule import together
from hoptree.methods.steps.answer import mean_probability
from hoptree.methods.steps.evidence import show_passages
from hoptree.methods.steps.reply_notes import note_answer
from hoptree.text.parse import clean_answer, find_refusal

MAX_TOKENS = 64


async def answer_each(
    ctx: Context, question: str, passages: Sequence[Passage], *, titles: bool = False, logprobs: bool = True
) -> list[Answer]:
    """The answer in each passage, all read at once; the one in the best of them is proposed for the end.

    With `logprobs`, its confidence is the geometric mean of its tokens' probabilities.
    """
    count = len(passages)
    return await together(
        _read(ctx, question, passage, titles=titles, logprobs=logprobs, order=count - rank)
        for rank, passage in enumerate(passages)
    )


async def _read(ctx: Context, question: str, passage: Passage, *, titles: bool, logprobs: bool, order: int) -> Answer:
    documents = show_passages(ctx, [passage], titles=titles)
    prompt = prompt_for(ctx.method, "read").fill(documents=documents, question=question)
    reply = await ctx.generate("read", prompt, max_tokens=MAX_TOKENS, top_logprobs=1 if logprobs else 0)
    text, words = clean_answer(reply.text), find_refusal(reply.text)
    note_answer(ctx, "read", reply.text, text)
    ctx.decide("answered", not words, step="read", passage=passage.id, continuation_hit=words or None, raw=reply.text)
    confidence = mean_probability(reply.choices[0].tokens) if logprobs else None
    answer = Answer(
        text, reply.text, "unknown" if words else "answered", "external", (passage.id,), confidence=confidence
    )
    ctx.propose(answer, order=order)
    return answer
