"""TAIKC: a tree of sub-questions, each answered from confident knowledge or else from documents."""

from __future__ import annotations

from collections.abc import Mapping
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
    their answers held against them, chains kept word for word, a reasoned conclusion, no answer rather than a guess.
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
            return replace(answer, status="answered")
        sure = answer.confidence is not None and answer.confidence >= tau
        ctx.decide("probability", sure, node=node, signal=answer.confidence, threshold=tau)
        return answer if sure else replace(answer, status="refused")

    async def look_up(asked: str, node: Node) -> Answer:
        """Retrieve and read; a robust reader's answer must stand in the passages, else it looks a second time."""
        passages = await ctx.search(asked, k=k, node=node)
        if not robust:
            return await answer_from(ctx, asked, passages, node=node, titles=titles)
        for prompt in ("read", "read_or_not_found"):
            read = await answer_from(ctx, asked, passages, prompt=prompt, node=node, titles=True)
            answer = grounded(read, asked, passages) if read.known else read
            ctx.decide("grounded", answer.known, node=node, passages=list(answer.support))
            if answer.known:
                break
        return answer

    async def go_on(asked: str, node: Node) -> Answer:
        """Reasoning continuation: a guess keeps the chain whole."""
        if not continuation:
            raise _Broken
        return replace(await direct_answer(ctx, asked, node=node), status="answered", source="fallback")

    documents_first, as_in_the_paper = (look_up, recall), (recall, look_up, go_on)
    attempts = (recall,) if source == "internal" else documents_first if robust else as_in_the_paper

    async def solve(node: Node, done: Mapping[int, _Solved]) -> _Solved:
        asked = _complete(ctx, plan, node, done)
        ctx.begin_node(node, asked)
        iterations = 0
        for attempt in attempts:
            iterations += 1
            answer = await attempt(asked, node)
            if answer.known:
                break
        ctx.end_node(node, answer, iterations=iterations)
        ctx.best = answer if answer.known else ctx.best
        return _Solved(asked, answer)

    shots = nearest(question.text) if robust else fixed()
    plan = await decompose_tree(ctx, question.text, demonstrations=shots, mend_leaks=robust)
    try:
        solved = await in_order(plan, solve, parallel=order == "parallel")
    except _Broken:
        return Answer("", status="unknown")
    if robust and not all(one.answer.known for one in solved.values()):
        return Answer("", status="unknown")
    chains = await _chains(ctx, plan, solved, summed_up=not robust)
    return await synthesise(ctx, question.text, chains, prompt="conclude" if robust else "read", reasoned=robust)


def _complete(ctx: Context, plan: Plan, node: Node, done: Mapping[int, _Solved]) -> str:
    """The node's question with answers in place of references; one without an answer is described."""
    texts = {}
    for ref in node.refs:
        answer = done[ref].answer
        if not answer.known:
            ctx.trace.add("plan_issue", kind="ref_unanswered", node=node.id, detail=f"#query{ref} has no answer")
        texts[ref] = answer.text if answer.known else f'the answer to "{done[ref].asked}"'
    return resolve(node.question, texts)


async def _chains(ctx: Context, plan: Plan, solved: Mapping[int, _Solved], *, summed_up: bool) -> list[str]:
    """One knowledge chain a path from the top to a leaf, each said once: as a sentence, or as the pairs themselves."""

    async def chain(path: tuple[Node, ...]) -> str:
        pairs = [(node.id, solved[node.id].asked, solved[node.id].answer.text) for node in path]
        if summed_up:
            return await summarise_chain(ctx, pairs)
        return " ".join(f"{asked} {answer}." for _, asked, answer in pairs)

    texts = list(dict.fromkeys(await together(chain(path) for path in plan.paths())))
    for text in texts:
        ctx.trace.add("chain", text=text)
    return texts
