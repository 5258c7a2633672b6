"""Answering a question from the answers to its sub-questions."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hoptree.core.values import Answer, Passage
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.methods.steps.answer import MAX_TOKENS, least_probability
from hoptree.methods.steps.evidence import show_passages
from hoptree.methods.steps.reply_notes import note_answer, note_reply
from hoptree.text.parse import clean_answer, find_refusal
from hoptree.text.question_tree import Node

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
    words = find_refusal(reply.text)
    ctx.decide("answered", not words, node=node, step="combine", continuation_hit=words or None, raw=reply.text)
    confidence = least_probability(reply) if logprobs else None
    return Answer(
        clean_answer(reply.text), reply.text, "unknown" if words else "answered", "synthesis", confidence=confidence
    )


_SUMMARY_TOKENS = 256


async def summarise_chain(ctx: Context, path: Sequence[tuple[int, str, str]]) -> str:
    """One sentence for a path of (id, question, answer), given to the model as nested JSON."""
    nested: dict[str, object] = {}
    for node_id, question, answer in reversed(path):
        entry: dict[str, object] = {"question": question, "answer": answer}
        if nested:
            entry["children"] = nested
        nested = {f"query{node_id}": entry}
    prompt = prompt_for(ctx.method, "summarise").fill(pairs=json.dumps(nested, ensure_ascii=False))
    reply = (await ctx.generate("summarise", prompt, role="summarise", max_tokens=_SUMMARY_TOKENS)).text
    chain = " ".join(reply.split())
    note_reply(ctx, "summarise", "" if chain else "no sentence")
    return chain
