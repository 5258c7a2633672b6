"""Splitting a question into a list of simpler ones."""

from __future__ import annotations

from collections.abc import Callable, Collection

from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.steps.reading.parse import question_key, read_questions
from hoptree.tree import Node

__all__ = ["MAX_SUB_QUESTIONS", "drop_asked", "split_question"]

MAX_TOKENS = 256
MAX_SUB_QUESTIONS = 4


async def split_question(
    ctx: Context, question: str, *, linked: bool = False, node: Node | None = None
) -> tuple[str, ...]:
    """The sub-questions a model lists for a question; none where its reply holds none.

    `linked` ones are asked one after another, each with the answers before it, and may refer to these.
    """
    prompt = prompt_for(ctx.method, "decompose_linked" if linked else "decompose").fill(question=question)
    raw = (await ctx.generate("decompose", prompt, role="decompose", max_tokens=MAX_TOKENS, node=node)).text
    questions = read_questions(raw)
    ctx.trace.add("parse", step="decompose", ok=bool(questions), repairs=[], error="" if questions else "no question")
    return questions


def drop_asked(
    ctx: Context,
    questions: Collection[str],
    asked: Collection[str],
    *,
    again: Callable[[str], bool] = lambda question: False,
    node: Node | None = None,
) -> tuple[str, ...]:
    """The first sub-questions that are none of those `asked` on the way down (as keys): a loop would never end.

    `again` says of others that they ask the same in other words.
    """
    new = [question for question in questions if question_key(question) not in asked and not again(question)]
    kept = new[:MAX_SUB_QUESTIONS]
    loops = [question for question in questions if question not in new]
    ctx.decide("split", len(kept), node=node, questions=kept, loops=loops, beyond=new[MAX_SUB_QUESTIONS:])
    return tuple(kept)
