"""TAIKC beyond its paper (`robust=on`): documents before memory, comparisons in code, and several last readings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from hoptree.core.values import Answer, Passage
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.schedule import both
from hoptree.methods.steps.answer import MAX_CITED_PASSAGES, answer_from, supporting_ids, synthesise
from hoptree.methods.steps.choose import READINGS, read_several_ways, read_with_chains, surest
from hoptree.methods.steps.compare import both_hold, compare_branches
from hoptree.methods.steps.decompose import decompose_tree, nearest_demonstrations
from hoptree.methods.taikc import Attempt, chain_paths, fill_tree, record_chains
from hoptree.text.grounding import grounded
from hoptree.text.question_tree import Node


@decision("grounded")
class ReadingGrounded(Decision):
    """Whether passages hold what was read in them, and which."""

    value: bool
    passages: list[str] = field(default_factory=list)


class RobustRun:
    """TAIKC beyond its paper: documents before memory, comparisons in code, and the surest of four last readings."""

    def __init__(self, question: str, ctx: Context, recall: Attempt, k: int, *, reads: bool, guesses: bool) -> None:
        self._question, self._ctx, self._recall = question, ctx, recall
        self._k, self._reads, self._guesses = k, reads, guesses
        self._logprobs = "logprobs" in ctx.model_for("answer").capabilities
        self._own_passages: tuple[Passage, ...] = ()
        self._seen: dict[str, Passage] = {}
        self._read_from: dict[int, tuple[str, ...]] = {}

    async def answer(self, *, parallel: bool) -> Answer:
        ctx, question = self._ctx, self._question
        rereads = self._guesses and self._reads
        if rereads and (checked := await both_hold(ctx, question, self._search)):
            return checked
        planning = decompose_tree(ctx, question, demonstrations=nearest_demonstrations(question), mend_leaks=True)
        plan, own_readings = await both(planning, self._read_own(rereads))
        attempts: tuple[Attempt, ...] = (self._read, self._recall) if self._reads else (self._recall,)
        solved = await fill_tree(ctx, question, plan, attempts, parallel=parallel, despite_unknown=self._guesses)
        answers = {node: part.answer for node, part in solved.items()}
        if not self._guesses and not all(answer.known for answer in answers.values()):
            return Answer("", status="unknown")
        asked = {node: part.question for node, part in solved.items()}
        if compared := compare_branches(ctx, question, plan, asked, answers):
            return compared
        chains = record_chains(ctx, (" ".join(f"{q} {a}." for _, q, a in path) for path in chain_paths(plan, solved)))
        if not rereads:
            return await synthesise(ctx, question, chains, prompt="conclude", reasoned=True)
        last = await self._read_all(chains, {node.id: answers[node.id] for node in plan.nodes})
        return surest(ctx, [*own_readings, last], when="final", named=(*READINGS, "the chains and what they cite"))

    async def _search(self, asked: str, node: Node | None = None) -> tuple[Passage, ...]:
        passages = await self._ctx.search(asked, k=self._k, node=node)
        self._seen |= {passage.id: passage for passage in passages}
        return passages

    async def _read_own(self, wanted: bool) -> list[Answer]:
        """Read what the question itself finds."""
        if not wanted:
            return []
        self._own_passages = await self._search(self._question)
        return await read_several_ways(self._ctx, self._question, self._own_passages)

    async def _read(self, asked: str, node: Node) -> Answer:
        passages = await self._search(asked, node)
        for prompt in ("read", "read_or_not_found"):  # models overuse NOT FOUND: it is allowed the second time only
            reading = await answer_from(self._ctx, asked, passages, prompt=prompt, node=node, titles=True)
            answer = grounded(reading, asked, passages) if reading.known else reading
            self._ctx.emit(ReadingGrounded(value=answer.known, passages=list(answer.support)), node=node)
            self._read_from[node.id] = answer.support or reading.support
            if answer.known:
                return answer
        return replace(reading, source="fallback", support=()) if self._guesses else answer

    async def _read_all(self, chains: Sequence[str], answers: Mapping[int, Answer]) -> Answer:
        """Answer from the chains, the passages behind them, and those the question itself finds."""
        cited = [passage_id for node in answers for passage_id in self._read_from.get(node, ())[:MAX_CITED_PASSAGES]]
        answer, passages = await read_with_chains(
            self._ctx,
            self._question,
            chains,
            cited=cited,
            own=self._own_passages,
            seen=self._seen,
            k=self._k,
            logprobs=self._logprobs,
        )
        behind = (passage_id for part in answers.values() for passage_id in part.support)
        return replace(answer, support=tuple(dict.fromkeys([*behind, *supporting_ids(answer.text, passages)])))
