"""Self-Ask's dialogue: a question, follow-up questions with intermediate answers, and the final answer."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.steps.reading.dialogue import Said, first_line, note_said, read_dialogue
from hoptree.steps.reading.noting import note_reply
from hoptree.steps.reading.parse import question_key
from hoptree.values import Answer

__all__ = ["LABELS", "final_answer", "go_on", "write_dialogue"]

LINE_TOKENS = 64
WHOLE_TOKENS = 256
LAST_TOKENS = 20
BETWEEN = "Intermediate answer:"
_NEEDED = "Are follow up questions needed here:"
_LAST = "So the final answer is:"
_NONE_NEEDED = re.compile(r"no\W*", re.IGNORECASE)
# "Are follow up questions needed here:" is no label.
LABELS = re.compile(
    r"(?P<ask>\bfollow[\s-]?ups?(?:\s+questions?)?(?:\s{0,3}\d{1,2})?[\s*]{0,3}:)"
    r"|(?P<reply>\bintermediate\s+answers?(?:\s{0,3}\d{1,2})?[\s*]{0,3}:)"
    r"|(?P<final>\b(?:so|thus|hence|therefore)\b,?\s{1,3}(?:the|my)\s+(?:final\s+)?answer\s+is\b[\s*]{0,3}:?"
    r"|\bfinal\s+answer(?:\s+is\b[\s*]{0,3}:?|[\s*]{0,3}:))",
    re.IGNORECASE,
)


async def go_on(ctx: Context, question: str, pairs: Sequence[tuple[str, Answer]], *, alone: bool) -> Said:
    """What the model says next: the next follow-up, or `alone` all that it would ask and answer by itself."""
    said = await _write(
        ctx,
        "follow_up",
        question,
        f"{write_dialogue(pairs)}\n" if pairs else _NEEDED,  # else the answer before would be written on
        max_tokens=WHOLE_TOKENS if alone else LINE_TOKENS,
        stop=("\nQuestion:",) if alone else (BETWEEN, "\nQuestion:"),
    )
    found = read_dialogue(said, LABELS, {question_key(asked) for asked, _ in pairs})
    if found.error and _NONE_NEEDED.fullmatch(said.strip().removeprefix(_NEEDED).lstrip()):
        found = Said(idle="No")
    note_said(ctx, "follow_up", found)
    return found


async def final_answer(ctx: Context, question: str, pairs: Sequence[tuple[str, Answer]]) -> str:
    """What the model gives for the final answer when it is made to."""
    before = write_dialogue(pairs) if pairs else f"{_NEEDED} No."
    said = await _write(ctx, "final", question, f"{before}\n{_LAST}", max_tokens=LAST_TOKENS, stop=("\nQuestion:",))
    found = read_dialogue(said, LABELS).final or first_line(LABELS.split(said, maxsplit=1)[0])
    note_reply(ctx, "final", "" if found else "no answer", ["last words"])
    return found


async def _write(ctx: Context, step: str, question: str, text: str, *, max_tokens: int, stop: tuple[str, ...]) -> str:
    """What comes behind a text; models that cannot continue one are shown it and asked to."""
    prefix = "prefix" in ctx.model_for("answer").capabilities
    shown = "" if prefix or text == _NEEDED else f"\nWritten so far:\n{text.rstrip()}\nWrite only what comes next:"
    filled = prompt_for(ctx.method, "follow_up").fill(question=question, so_far=shown)
    reply = await ctx.generate(step, filled, max_tokens=max_tokens, prefix=text if prefix else "", stop=stop, part=True)
    return reply.text


def write_dialogue(pairs: Sequence[tuple[str, Answer]]) -> str:
    """Follow-ups and their answers as the worked examples have them."""
    lines = [f"{_NEEDED} Yes."]
    for question, answer in pairs:
        lines += [f"Follow up: {question}", f"{BETWEEN} {answer.text if answer.known else 'unknown'}"]
    return "\n".join(lines)
