"""Asking a model whether it knows an answer, before it gives one."""

from __future__ import annotations

from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.steps.parse import Knowing, read_knowing
from hoptree.tree import Node

__all__ = ["judge_knowledge"]

MAX_TOKENS = 128


async def judge_knowledge(ctx: Context, question: str, *, node: Node | None = None) -> Knowing:
    """Whether the model says that it knows the answer; one that goes on after its "yes" has given it already."""
    prompt = prompt_for(ctx.method, "know").fill(question=question)
    raw = (await ctx.generate("know", prompt, role="know", max_tokens=MAX_TOKENS, node=node)).text
    knowing = read_knowing(raw)
    ctx.decide("know", knowing.known, node=node, raw=raw, answer=knowing.answer)
    return knowing
