"""Putting a path of questions and answers into one sentence: a knowledge chain."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.steps.reading.noting import note_reply

__all__ = ["summarise_chain"]

MAX_TOKENS = 256


async def summarise_chain(ctx: Context, path: Sequence[tuple[int, str, str]]) -> str:
    """One sentence for a path of (id, question, answer), given to the model as nested JSON."""
    nested: dict[str, object] = {}
    for node_id, question, answer in reversed(path):
        entry: dict[str, object] = {"question": question, "answer": answer}
        if nested:
            entry["children"] = nested
        nested = {f"query{node_id}": entry}
    prompt = prompt_for(ctx.method, "summarise").fill(pairs=json.dumps(nested, ensure_ascii=False))
    reply = (await ctx.generate("summarise", prompt, role="summarise", max_tokens=MAX_TOKENS)).text
    chain = " ".join(reply.split())
    note_reply(ctx, "summarise", "" if chain else "no sentence")
    return chain
