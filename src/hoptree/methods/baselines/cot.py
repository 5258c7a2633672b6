"""Chain of thought."""

from __future__ import annotations

from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import method
from hoptree.methods.steps.chain_of_thought import REASONING_PROMPTS, think


@method("cot", title="Chain of thought", paper="CoT", signals=("prefix",), shared_prompts=REASONING_PROMPTS)
async def cot(question: Question, ctx: Context, *, shots: int = 6, draw: int = 0, max_tokens: int = 256) -> Answer:
    """Reason step by step from memory, and answer at the end.

    `shots` worked examples are shown (none: only the instruction to go step by step); another `draw` than 0 shows
    others. A text without an answer is continued behind "So the answer is", for 20 tokens.
    """
    (answer,) = await think(ctx, question.text, shots=shots, draw=draw, max_tokens=max_tokens)
    return answer
