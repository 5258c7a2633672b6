"""What else to search for, when nothing that was found says whether a hypothesis is right."""

from __future__ import annotations

from collections.abc import Mapping

from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.steps.hypotheses.evidence_box import NOTHING, EvidenceBox
from hoptree.steps.hypotheses.logic_tree import text_of
from hoptree.steps.reading.noting import note_reply
from hoptree.steps.reading.parse import clean_answer, read_json
from hoptree.tree import Node

__all__ = ["new_clue", "read_clue"]

MAX_TOKENS = 128
_MAX_CLUE = 300
_NAMES = ("new_clue", "clue", "newclue", "query", "search")


def read_clue(text: str) -> str:
    """The clue in a reply: the value in its JSON, never the JSON itself; else its first line."""
    value = read_json(text).value
    if isinstance(value, list):
        value = next((item for item in value if item), "")
    if isinstance(value, Mapping):
        folded = {str(key).strip().casefold().replace(" ", "_"): item for key, item in value.items()}
        named = next((folded[name] for name in _NAMES if folded.get(name)), None)
        value = named if named is not None else next(iter(folded.values()), "") if len(folded) == 1 else ""
    if value is not None:
        return text_of(value)[:_MAX_CLUE]
    line = clean_answer(text)
    return "" if line[:1] in ("{", "[") else text_of(line)[:_MAX_CLUE]


async def new_clue(ctx: Context, question: str, hypothesis: str, box: EvidenceBox, *, node: Node | None = None) -> str:
    """Something new to search for, given what was found in vain; "" where the reply holds nothing."""
    texts, facts = box.shown(ctx)
    prompt = prompt_for(ctx.method, "clue").fill(
        question=question, hypothesis=hypothesis or NOTHING, texts=texts, facts=facts
    )
    reply = (await ctx.generate("clue", prompt, role="verify", max_tokens=MAX_TOKENS, node=node)).text
    clue = read_clue(reply)
    note_reply(ctx, "clue", "" if clue else "no clue")
    ctx.decide("clue", clue, node=node)
    return clue
