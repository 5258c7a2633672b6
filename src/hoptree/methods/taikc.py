"""TAIKC: a tree of sub-questions, answered from confident knowledge or documents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.events import ChainWritten, Decision, PlanRepaired, decision
from hoptree.engine.registry import method
from hoptree.engine.schedule import in_order, together
from hoptree.methods.steps.answer import answer_from, confident_answer, direct_answer, summarise_chain, synthesise
from hoptree.methods.steps.decompose import decompose_tree, fixed_demonstrations
from hoptree.text.parse import question_key
from hoptree.text.question_tree import Node, Plan, resolve

Attempt = Callable[[str, Node], Awaitable[Answer]]  # one way to answer a node's completed question


@dataclass(frozen=True, slots=True)
class AnsweredNode:
    """A node's question with its references filled in, and its answer."""

    question: str
    answer: Answer


@decision("probability")
class ProbabilityJudged(Decision):
    """Whether the least token probability of a direct answer reaches the threshold."""

    value: bool
    signal: float | None
    threshold: float


class _Unanswered(Exception):
    """A sub-question has no answer and reasoning continuation is off."""


@method(
    "taikc",
    title="Tree-organised active internal knowledge completion",
    paper="TAIKC",
    needs=("corpus",),
    iterative=True,
    dynamic=True,
    strategy="Model's knowledge boundary awareness",
    query="Sub-questions decomposed from complex questions",
    deviating_options={"strict=off": "a model that says it does not know, without the identifier, is not sure either"},
    roles=("decompose", "know", "answer", "summarise"),
    shared_prompts=("bank.jsonl", "confident", "decompose", "direct", "read", "summarise"),
)
async def taikc(
    question: Question,
    ctx: Context,
    *,
    source: Literal["unified", "internal", "external", "probability"] = "unified",
    continuation: bool = True,
    order: Literal["parallel", "preorder"] = "parallel",
    k: int = 5,
    tau: float = 0.5,
    strict: bool = True,
    titles: bool = False,
) -> Answer:
    """Split the question into a tree, fill it from confident knowledge or passages, and reason over its chains.

    `source` is the paper's ablation: internal answers every node from memory, external always retrieves, probability
    retrieves if the least token probability of the direct answer is under `tau`. With `continuation` off, a node that
    documents do not answer ends the run without an answer. With `strict`, only RAG_REQUIRED is a refusal, as in the
    paper; else "I don't know" is one too.
    """
    if source != "internal":
        ctx.require_corpus()
    if source == "probability":
        ctx.require("logprobs")

    async def recall(asked: str, node: Node) -> Answer:
        """Answer by confident QA, or by its replacement in an ablation."""
        if source == "external":
            return Answer("", status="refused")
        if source == "unified":
            return await confident_answer(ctx, asked, node=node, strict=strict)
        answer = await direct_answer(ctx, asked, node=node, logprobs=source == "probability")
        if source == "internal":
            return answer
        confident = answer.confidence is not None and answer.confidence >= tau
        ctx.emit(ProbabilityJudged(value=confident, signal=answer.confidence, threshold=tau), node=node)
        return answer if confident else replace(answer, status="refused")

    async def read(asked: str, node: Node) -> Answer:
        passages = await ctx.search(asked, k=k, node=node)
        return await answer_from(ctx, asked, passages, node=node, titles=titles)

    async def continue_reasoning(asked: str, node: Node) -> Answer:
        """Guess, so that the chain stays complete (reasoning continuation)."""
        if not continuation:
            ctx.end_node(node, Answer("", status="unknown"), iterations=2)
            raise _Unanswered
        return replace(await direct_answer(ctx, asked, node=node), source="fallback")

    plan = await decompose_tree(ctx, question.text, demonstrations=fixed_demonstrations())
    attempts: tuple[Attempt, ...] = (recall,) if source == "internal" else (recall, read, continue_reasoning)
    try:
        solved = await fill_tree(ctx, question.text, plan, attempts, parallel=order == "parallel")
    except _Unanswered:
        return Answer("", status="unknown")
    # Every path from root to leaf is a chain (Equation 5).
    paths = [[(n.id, solved[n.id].question, solved[n.id].answer.text) for n in path] for path in plan.paths()]
    chains = list(dict.fromkeys(await together(summarise_chain(ctx, path) for path in paths)))
    for chain in chains:
        ctx.emit(ChainWritten(text=chain))
    return await synthesise(ctx, question.text, chains)


async def fill_tree(
    ctx: Context, question: str, plan: Plan, attempts: Sequence[Attempt], *, parallel: bool
) -> dict[int, AnsweredNode]:
    """Answer every node by the first attempt that succeeds."""

    async def solve(node: Node, done: Mapping[int, AnsweredNode]) -> AnsweredNode:
        asked = _complete(ctx, node, done)
        ctx.begin_node(node, asked)
        answer, iterations = Answer("", status="unknown"), 0
        for attempt in attempts:
            iterations += 1
            answer = await attempt(asked, node)
            if answer.known:
                break
        ctx.end_node(node, answer, iterations=iterations)
        if question_key(asked) == question_key(question):
            ctx.propose(answer, order=node.id)
        return AnsweredNode(asked, answer)

    return await in_order(plan, solve, parallel=parallel)


def _complete(ctx: Context, node: Node, done: Mapping[int, AnsweredNode]) -> str:
    """Replace references by answers (Equation 2) or descriptions of unknown ones."""
    texts = {}
    for ref in node.refs:
        answer = done[ref].answer
        if not answer.known:
            ctx.emit(PlanRepaired(kind="ref_unanswered", node=node.id, detail=f"#query{ref} has no answer"))
        texts[ref] = answer.text if answer.known else f'the answer to "{done[ref].question}"'
    return resolve(node.question, texts)
