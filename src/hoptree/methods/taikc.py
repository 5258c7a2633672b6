"""TAIKC: a tree of sub-questions, each answered from confident knowledge or else from documents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hoptree.methods.registry import method
from hoptree.runtime.context import Context
from hoptree.runtime.schedule import in_order, together
from hoptree.steps.answer import answer_from, confident_answer, direct_answer, synthesise
from hoptree.steps.decompose import decompose_tree
from hoptree.steps.demonstrations import fixed, nearest
from hoptree.steps.ground import grounded
from hoptree.steps.summarise import summarise_chain
from hoptree.tree import Node, Plan, resolve
from hoptree.values import Answer, Question

__all__ = ["taikc"]

Attempt = Callable[[str, Node], Awaitable[Answer]]
"""One way to answer a node's completed question."""


@dataclass(frozen=True, slots=True)
class _Solved:
    """What a node finally asked, references filled in, and its answer."""

    asked: str
    answer: Answer


class _Broken(Exception):
    """A sub-question without an answer, where reasoning is not to be continued without one."""


@method(
    "taikc",
    title="Tree-organised active internal knowledge completion",
    paper="TAIKC",
    needs=("corpus",),
    iterative=True,
    dynamic=True,
    strategy="Model's knowledge boundary awareness",
    query="Sub-questions decomposed from complex questions",
    beyond=("robust",),
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
    strict: bool = False,
    titles: bool = False,
    robust: bool = False,
) -> Answer:
    """Split the question into a tree, fill it from confident knowledge or passages, and reason over its chains.

    `source` is the paper's ablation: internal answers every node from memory, external always retrieves, probability
    retrieves where the least token probability of the direct answer is under `tau`. With `continuation` off, a node
    that documents do not answer ends the run without an answer. `strict` takes only RAG_REQUIRED for a refusal.
    `robust` goes beyond the paper: nearest demonstrations, leaks in the plan mended, documents asked before memory and
    their answers held against them, chains kept word for word, a reasoned conclusion, no answer rather than a guess
    (`continuation` and `titles` have no effect on it).
    """
    if source != "internal":
        ctx.require_corpus()
    if source == "probability":
        ctx.require("logprobs")

    async def recall(asked: str, node: Node) -> Answer:
        """Confident QA, or what an ablation puts in its place."""
        if source == "external":
            return Answer("", status="refused")
        if source == "unified":
            return await confident_answer(ctx, asked, node=node, strict=strict)
        answer = await direct_answer(ctx, asked, node=node, logprobs=source == "probability")
        if source == "internal":
            return answer
        sure = answer.confidence is not None and answer.confidence >= tau
        ctx.decide("probability", sure, node=node, signal=answer.confidence, threshold=tau)
        return answer if sure else replace(answer, status="refused")

    if robust:
        return await _robust(question, ctx, recall, parallel=order == "parallel", k=k, read=source != "internal")

    async def look_up(asked: str, node: Node) -> Answer:
        passages = await ctx.search(asked, k=k, node=node)
        return await answer_from(ctx, asked, passages, node=node, titles=titles)

    async def go_on(asked: str, node: Node) -> Answer:
        """Reasoning continuation: a guess keeps the chain whole."""
        if not continuation:
            ctx.end_node(node, Answer("", status="unknown"), iterations=2)
            raise _Broken
        return replace(await direct_answer(ctx, asked, node=node), source="fallback")

    plan = await decompose_tree(ctx, question.text, demonstrations=fixed())
    attempts: tuple[Attempt, ...] = (recall,) if source == "internal" else (recall, look_up, go_on)
    try:
        solved = await _fill(ctx, plan, attempts, parallel=order == "parallel")
    except _Broken:
        return Answer("", status="unknown")
    chains = await together(summarise_chain(ctx, path) for path in _paths(plan, solved))
    return await synthesise(ctx, question.text, _note(ctx, chains))


async def _robust(question: Question, ctx: Context, recall: Attempt, *, parallel: bool, k: int, read: bool) -> Answer:
    """Documents before memory, answers held against them, and no answer rather than a guess."""

    async def look_up(asked: str, node: Node) -> Answer:
        passages = await ctx.search(asked, k=k, node=node)
        for prompt in ("read", "read_or_not_found"):  # who may say NOT FOUND says it too often: only the second time
            said = await answer_from(ctx, asked, passages, prompt=prompt, node=node, titles=True)
            answer = grounded(said, asked, passages) if said.known else said
            ctx.decide("grounded", answer.known, node=node, passages=list(answer.support))
            if answer.known:
                break
        return answer

    plan = await decompose_tree(ctx, question.text, demonstrations=nearest(question.text), mend_leaks=True)
    attempts: tuple[Attempt, ...] = (look_up, recall) if read else (recall,)
    solved = await _fill(ctx, plan, attempts, parallel=parallel, build_on_nothing=False)
    if not all(one.answer.known for one in solved.values()):
        return Answer("", status="unknown")
    chains = [" ".join(f"{asked} {answer}." for _, asked, answer in path) for path in _paths(plan, solved)]
    answer = await synthesise(ctx, question.text, _note(ctx, chains), prompt="conclude", reasoned=True)
    return answer if answer.known else replace(answer, text="")


async def _fill(
    ctx: Context, plan: Plan, attempts: Sequence[Attempt], *, parallel: bool, build_on_nothing: bool = True
) -> dict[int, _Solved]:
    """Answer every node by the first attempt that succeeds, and with `build_on_nothing` also what rests on none."""

    async def solve(node: Node, done: Mapping[int, _Solved]) -> _Solved:
        asked = _complete(ctx, node, done)
        ctx.begin_node(node, asked)
        answer, iterations = Answer("", status="unknown"), 0
        if build_on_nothing or all(done[ref].answer.known for ref in node.refs):
            for attempt in attempts:
                iterations += 1
                answer = await attempt(asked, node)
                if answer.known:
                    break
        ctx.end_node(node, answer, iterations=iterations)
        ctx.propose(answer, order=node.id)
        return _Solved(asked, answer)

    return await in_order(plan, solve, parallel=parallel)


def _complete(ctx: Context, node: Node, done: Mapping[int, _Solved]) -> str:
    """The node's question with answers in place of references; one without an answer is described."""
    texts = {}
    for ref in node.refs:
        answer = done[ref].answer
        if not answer.known:
            ctx.trace.add("plan_issue", kind="ref_unanswered", node=node.id, detail=f"#query{ref} has no answer")
        texts[ref] = answer.text if answer.known else f'the answer to "{done[ref].asked}"'
    return resolve(node.question, texts)


def _paths(plan: Plan, solved: Mapping[int, _Solved]) -> list[list[tuple[int, str, str]]]:
    """What was asked and answered along every path from the top to a leaf."""
    return [[(node.id, solved[node.id].asked, solved[node.id].answer.text) for node in path] for path in plan.paths()]


def _note(ctx: Context, chains: Iterable[str]) -> list[str]:
    """The knowledge chains, each once, and in the trace."""
    texts = list(dict.fromkeys(chains))
    for text in texts:
        ctx.trace.add("chain", text=text)
    return texts
