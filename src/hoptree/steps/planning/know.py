"""Asking a model whether it knows an answer, before it gives one."""

from __future__ import annotations

from dataclasses import replace

from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.steps.answering.answer import least_probability
from hoptree.steps.planning.route import read_way
from hoptree.steps.reading.noting import note_reply
from hoptree.steps.reading.parse import Knowing, read_knowing, says_unknown
from hoptree.tree import Node

__all__ = ["judge_knowledge"]

MAX_TOKENS = 128
_VERDICTS = ("Yes", "No")


async def judge_knowledge(ctx: Context, question: str, *, node: Node | None = None, logprobs: bool = False) -> Knowing:
    """Whether the model says that it knows the answer; one that goes on after its "yes" has given it already.

    With `logprobs`, what it gave has a confidence: the least probability among the reply's tokens.
    """
    prompt = prompt_for(ctx.method, "know").fill(question=question)
    reply = await ctx.generate(
        "know", prompt, role="know", max_tokens=MAX_TOKENS, node=node, top_logprobs=1 if logprobs else 0
    )
    knowing = read_knowing(reply.text, question)
    read = knowing.known or says_unknown(reply.text) or read_way(reply.text, _VERDICTS) == "No"
    note_reply(ctx, "know", "" if read else "neither yes nor no")
    ctx.decide("know", knowing.known, node=node, raw=reply.text, answer=knowing.answer)
    return replace(knowing, confidence=least_probability(reply)) if logprobs else knowing
