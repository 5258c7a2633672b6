"""GenGround's deduction: the next simple question, and the model's own answer to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.steps.reading.dialogue import Said, note_said, read_dialogue
from hoptree.steps.reading.parse import question_key
from hoptree.values import Answer

__all__ = ["deduce", "read_deduced"]

MAX_TOKENS = 128
_LABELS = re.compile(
    r"(?P<final>\bFINISH(?:ED)?\b[\s*]{0,3}[\[({:]?|(?im:^)\W{0,4}(?i:finish)[\s*]{0,3}[\[({:]"
    r"|(?i:\bfinal\s+answer(?:\s+is\b[\s*]{0,3}:?|[\s*]{0,3}:)))"
    r"|(?P<ask>(?i:\bthought[\s*]{0,3}:|\b(?:thought|step|question)\s{0,3}\d{1,2}[\s*]{0,3}[:.)]))"
    r"|(?P<reply>(?i:\banswer[\s*]{0,3}:|\banswer\s{0,3}\d{1,2}[\s*]{0,3}[:.)]))"
)
_BRACKETS = {"]": "[", ")": "(", "}": "{"}


async def deduce(ctx: Context, question: str, pairs: Sequence[tuple[str, Answer]]) -> Said:
    """The next question and the model's own answer to it, or the final answer, after these steps."""
    steps = [
        f"Thought {number}: {asked}\nAnswer {number}: {answer.text if answer.known else 'unknown'}"
        for number, (asked, answer) in enumerate(pairs, 1)
    ]
    prompt = prompt_for(ctx.method, "deduce").fill(question=question, steps="\n".join(steps) or "none")
    stop = ("\nQuestion:", f"\nThought {len(pairs) + 2}:")
    raw = (await ctx.generate("deduce", prompt, role="decompose", max_tokens=MAX_TOKENS, stop=stop, part=True)).text
    said = read_deduced(raw, [asked for asked, _ in pairs])
    note_said(ctx, "deduce", said)
    return said


def read_deduced(text: str, asked: Sequence[str] = ()) -> Said:
    """The thoughts of a reply that none of those `asked` before asked, with their answers, up to FINISH."""
    said = read_dialogue(text, _LABELS, {question_key(one) for one in asked})
    return replace(said, final=_unbracketed(said.final))


def _unbracketed(text: str) -> str:
    """A final answer up to the bracket that closes FINISH[, which the answer itself may hold in pairs."""
    depth = dict.fromkeys(_BRACKETS.values(), 0)
    for place, char in enumerate(text):
        if char in depth:
            depth[char] += 1
        elif opening := _BRACKETS.get(char):
            if not depth[opening]:
                return text[:place].strip(" \"'“”")
            depth[opening] -= 1
    return text
