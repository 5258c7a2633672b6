"""Whether documents bear an answer out, or which of two: asked in one word."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hoptree.comparing import read_yes_no
from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.steps.answering.evidence import show_passages
from hoptree.steps.reading.noting import note_reply
from hoptree.tree import Node
from hoptree.values import Passage

__all__ = ["bears_out", "borne_out_of_two"]

MAX_TOKENS = 8
_NUMBER = re.compile(r"\b([12])\b")


async def bears_out(
    ctx: Context, question: str, answer: str, passages: Sequence[Passage], *, node: Node | None = None
) -> bool | None:
    """Whether the passages bear the answer out; None where the reply is neither yes nor no."""
    documents = show_passages(ctx, passages, titles=True)
    prompt = prompt_for(ctx.method, "check").fill(documents=documents, question=question, answer=answer)
    said = (await ctx.generate("check", prompt, role="verify", max_tokens=MAX_TOKENS, node=node)).text
    holds = read_yes_no(said)
    note_reply(ctx, "check", "" if holds is not None else "neither yes nor no")
    ctx.decide("checked", holds, node=node, answer=answer, passages=[passage.id for passage in passages])
    return holds


async def borne_out_of_two(
    ctx: Context, question: str, answers: tuple[str, str], passages: Sequence[Passage]
) -> int | None:
    """The place of the answer that the passages bear out; None where the reply names neither or both."""
    documents = show_passages(ctx, passages, titles=True)
    prompt = prompt_for(ctx.method, "which").fill(
        documents=documents, question=question, first=answers[0], second=answers[1]
    )
    said = (await ctx.generate("which", prompt, role="verify", max_tokens=MAX_TOKENS)).text
    named = set(_NUMBER.findall(said))
    place = int(named.pop()) - 1 if len(named) == 1 else None
    note_reply(ctx, "which", "" if place is not None else "neither of the two numbers")
    ctx.decide("which", place, answers=list(answers), passages=[passage.id for passage in passages])
    return place
