"""TAIKC: a tree of sub-questions, each answered from confident knowledge or else from documents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import method
from hoptree.engine.schedule import both, in_order, together
from hoptree.methods.steps.answer import answer_from, confident_answer, direct_answer, holding, synthesise
from hoptree.methods.steps.both import both_hold
from hoptree.methods.steps.choose import surest
from hoptree.methods.steps.combine import summarise_chain
from hoptree.methods.steps.compare import compare_branches
from hoptree.methods.steps.decompose import decompose_tree
from hoptree.methods.steps.demonstrations import fixed, nearest
from hoptree.methods.steps.multi_read import CITED, GLANCES, glances, read_with_chains
from hoptree.text.grounding import grounded
from hoptree.text.parse import question_key
from hoptree.text.question_tree import Node, Plan, resolve

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
    roles=("decompose", "know", "answer", "summarise"),
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
    their answers held against them, chains kept word for word, comparisons made in code, what is asked of both of two
    things checked of each alone, and of four last readings (three of what the question itself finds, one of the chains
    with all that was cited) the surest one.
    With `continuation` off, it gives no answer rather than one that rests on a guess, and so makes neither that check
    nor those readings. `titles` has no effect on it.
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
        careful = _Careful(question.text, ctx, recall, k=k, read=source != "internal", guess=continuation)
        return await careful.answer(parallel=order == "parallel")

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
        solved = await _fill(ctx, question.text, plan, attempts, parallel=order == "parallel")
    except _Broken:
        return Answer("", status="unknown")
    chains = await together(summarise_chain(ctx, path) for path in _paths(plan, solved))
    answer = await synthesise(ctx, question.text, _note(ctx, chains))
    return replace(answer, status="answered")  # the paper takes what is said for the answer, also that there is none


class _Careful:
    """TAIKC beyond its paper: documents before memory, comparisons in code, and the surest of four last readings."""

    def __init__(self, question: str, ctx: Context, recall: Attempt, *, k: int, read: bool, guess: bool) -> None:
        self._question, self._ctx, self._recall = question, ctx, recall
        self._k, self._read, self._guess = k, read, guess
        self._sure = "logprobs" in ctx.model_for("answer").capabilities
        self._own: tuple[Passage, ...] = ()
        self._seen: dict[str, Passage] = {}
        self._read_from: dict[int, tuple[str, ...]] = {}

    async def answer(self, *, parallel: bool) -> Answer:
        ctx, question = self._ctx, self._question
        if self._guess and self._read and (checked := await both_hold(ctx, question, self._search)):
            return checked
        planning = decompose_tree(ctx, question, demonstrations=nearest(question), mend_leaks=True)
        plan, own = await both(planning, self._read_own())
        attempts: tuple[Attempt, ...] = (self._look_up, self._recall) if self._read else (self._recall,)
        solved = await _fill(ctx, question, plan, attempts, parallel=parallel, build_on_nothing=self._guess)
        answers = {node: one.answer for node, one in solved.items()}
        if not self._guess and not all(answer.known for answer in answers.values()):
            return Answer("", status="unknown")
        asked = {node: one.asked for node, one in solved.items()}
        if compared := compare_branches(ctx, question, plan, asked, answers):
            return compared
        chains = _note(ctx, (" ".join(f"{said} {found}." for _, said, found in path) for path in _paths(plan, solved)))
        if not (self._guess and self._read):
            return await synthesise(ctx, question, chains, prompt="conclude", reasoned=True)
        last = await self._read_all(chains, {node.id: answers[node.id] for node in plan.nodes})
        return surest(ctx, [*own, last], when="final", named=(*GLANCES, "the chains and what they cite"))

    async def _search(self, asked: str, node: Node | None = None) -> tuple[Passage, ...]:
        passages = await self._ctx.search(asked, k=self._k, node=node)
        self._seen |= {passage.id: passage for passage in passages}
        return passages

    async def _read_own(self) -> list[Answer]:
        """The answers in what the question itself finds; asked for only where a guess may be made."""
        if not (self._guess and self._read):
            return []
        self._own = await self._search(self._question)
        return await glances(self._ctx, self._question, self._own)

    async def _look_up(self, asked: str, node: Node) -> Answer:
        passages = await self._search(asked, node)
        for prompt in ("read", "read_or_not_found"):  # who may say NOT FOUND says it too often: only the second time
            said = await answer_from(self._ctx, asked, passages, prompt=prompt, node=node, titles=True)
            answer = grounded(said, asked, passages) if said.known else said
            self._ctx.decide("grounded", answer.known, node=node, passages=list(answer.support))
            self._read_from[node.id] = answer.support or said.support
            if answer.known:
                return answer
        return replace(said, source="fallback", support=()) if self._guess else answer

    async def _read_all(self, chains: Sequence[str], answers: Mapping[int, Answer]) -> Answer:
        """The answer in the chains, in what they were read from, and in what the question itself finds."""
        cited = [name for node in answers for name in self._read_from.get(node, ())[:CITED]]
        answer, passages = await read_with_chains(
            self._ctx,
            self._question,
            chains,
            cited=cited,
            own=self._own,
            seen=self._seen,
            k=self._k,
            logprobs=self._sure,
        )
        behind = (name for found in answers.values() for name in found.support)
        return replace(answer, support=tuple(dict.fromkeys([*behind, *holding(answer.text, passages)])))


async def _fill(
    ctx: Context,
    question: str,
    plan: Plan,
    attempts: Sequence[Attempt],
    *,
    parallel: bool,
    build_on_nothing: bool = True,
) -> dict[int, _Solved]:
    """Answer every node by the first attempt that succeeds, and with `build_on_nothing` also what rests on none.

    For the case that the budget ends, only a node that asks the question itself is proposed.
    """

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
        if question_key(asked) == question_key(question):
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
