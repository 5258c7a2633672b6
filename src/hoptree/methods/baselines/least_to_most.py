"""Least-to-most prompting: answer simpler questions first."""

from __future__ import annotations

import math

from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import method
from hoptree.engine.schedule import grow, plant
from hoptree.methods.steps.answer import combine_answers, direct_answer
from hoptree.methods.steps.chain_of_thought import REASONING_PROMPTS, think
from hoptree.methods.steps.decompose import drop_asked, split_question
from hoptree.text.parse import question_key
from hoptree.text.question_tree import Node


@method(
    "least_to_most",
    title="Least-to-most prompting",
    paper="Least-to-most",
    signals=("prefix",),
    deviating_options={"max_sub_questions": "small models list more than it takes, and each is a call"},
    bounds={"max_sub_questions": (1, math.inf)},
    roles=("decompose", "answer"),
    shared_prompts=("direct", *REASONING_PROMPTS),
)
async def least_to_most(
    question: Question, ctx: Context, *, max_sub_questions: int | None = None, shots: int = 6, draw: int = 0
) -> Answer:
    """List simpler questions, answer them from memory in turn, and the question itself last.

    All that are listed are asked, unless `max_sub_questions` caps them, each with all questions before it and their
    answers in view. A question that is not split is answered step by step, with `shots` worked examples; another `draw`
    than 0 shows others.
    """
    root = plant(ctx, question.text)
    ctx.begin_node(root, question.text)
    listed = await split_question(ctx, question.text, node=root)
    parts = grow(ctx, root, drop_asked(ctx, listed, {question_key(question.text)}, most=max_sub_questions, node=root))
    if not parts:
        (answer,) = await think(ctx, question.text, shots=shots, draw=draw)
        ctx.end_node(root, answer, why="no simpler question; answered step by step")
        return answer
    pairs: list[tuple[str, Answer]] = []
    for part in parts:
        ctx.begin_node(part, part.question)
        answer = await _answer(ctx, part, pairs)
        ctx.end_node(part, answer)
        pairs.append((part.question, answer))
    answer = await _answer(ctx, root, pairs)
    ctx.end_node(root, answer, why=f"from {len(pairs)} simpler question{'s' if len(pairs) > 1 else ''}")
    return answer


async def _answer(ctx: Context, node: Node, before: list[tuple[str, Answer]]) -> Answer:
    if not before:
        return await direct_answer(ctx, node.question, node=node)
    return await combine_answers(ctx, node.question, before, node=node)
