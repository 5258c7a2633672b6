"""Answering one part of a question: from passages, then from parts of its own, and last by what the model recalls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hoptree.retrieval.filters import TITLE
from hoptree.runtime.context import Context
from hoptree.runtime.schedule import in_order
from hoptree.steps.answering.answer import answer_from, confident_answer
from hoptree.steps.answering.ground import grounded
from hoptree.steps.judging.checking import bears_out
from hoptree.steps.planning.decompose import decompose_tree
from hoptree.steps.planning.demonstrations import fixed, nearest
from hoptree.steps.planning.worded import plan_by_words
from hoptree.steps.reading.answer_kinds import other_kind
from hoptree.steps.reading.parse import question_key
from hoptree.tree import Node, Plan, resolve
from hoptree.values import Answer, Passage

__all__ = ["Parts", "Solved"]

_NEIGHBOURS = 2
"""Passages of the pages that answers to earlier parts have."""
_POOLED = 1
"""Passages that the whole question found, which name what a part is about."""
_DEEP = 100
"""The numbers of parts of parts, which are not split once more, begin here."""
_RISKY = (0.25, 0.75)
"""Between these, the model's confidence says neither that it is right nor that it is wrong."""


@dataclass(frozen=True, slots=True)
class Solved:
    """What a part finally asked, its answer, and whether something that was read bears it out."""

    asked: str
    answer: Answer
    supported: bool = False


class Parts:
    """Solves the nodes of a plan, and of the plans of its nodes; `seen` is every passage that was found."""

    def __init__(
        self,
        ctx: Context,
        pool: tuple[Passage, ...],
        *,
        k: int,
        check: bool,
        own: bool,
        deepen: bool,
        worded: bool,
        plain: bool,
    ) -> None:
        self._ctx, self._pool = ctx, pool
        self._k, self._check, self._own, self._deepen = k, check, own, deepen
        self._worded, self._plain = worded, plain
        self._tells = "logprobs" in ctx.model_for("answer").capabilities
        self._guesses: dict[int, Answer] = {}
        self.seen: dict[str, Passage] = {passage.id: passage for passage in pool}

    async def solve(self, plan: Plan, node: Node, done: Mapping[int, Solved]) -> Solved:
        """Answer a node; what rests on an answer that nothing bears out is not borne out either."""
        asked = resolve(node.question, {ref: _text(done[ref]) for ref in node.refs})
        self._ctx.begin_node(node, asked)
        rests = any(node.id in other.refs for other in plan.nodes)
        whole = all(done[ref].answer.known for ref in node.refs)
        found = await self._look_up(asked, node, done, rests) or await self._fall_back(asked, node, whole)
        if not all(done[ref].supported for ref in node.refs):
            found = replace(found, supported=False)  # what it rests on stands nowhere
        self._ctx.end_node(node, found.answer, supported=found.supported)
        return found

    async def _look_up(self, asked: str, node: Node, done: Mapping[int, Solved], rests: bool) -> Solved | None:
        """Read, then read what another query finds; None where neither bears an answer out."""
        read: tuple[Passage, ...] = ()
        unfit = False
        # Who may say NOT FOUND says it too often: only the second time. Adapters have not learnt to.
        second = "read" if self._plain else "read_or_not_found"
        for prompt, query in (("read", asked), (second, self._other(asked, done, node))):
            passages = await self._gather(query, asked, done, node)
            if not passages or (not unfit and {one.id for one in passages} <= {one.id for one in read}):
                continue  # another reading of the same passages says the same
            read = passages
            said = await answer_from(
                self._ctx, asked, passages, prompt=prompt, node=node, titles=not self._plain, logprobs=self._tells
            )
            answer = grounded(said, asked, passages) if said.known else said
            if unfit := bool(other_kind(asked, answer.text)):
                continue  # a date to "where" is no guess either
            refuted = answer.known and rests and await self._refuted(asked, answer, passages, node)
            if answer.known and not refuted:
                return Solved(asked, answer, True)
            if said.known and not refuted:
                self._guesses.setdefault(node.id, said)
        return None

    async def _fall_back(self, asked: str, node: Node, whole: bool) -> Solved:
        """Parts of the part, then what the model recalls; a guess is the last resort, and never supported.

        Only a `whole` question has parts of its own: one that rests on nothing lacks an answer that was looked for.
        """
        if self._deepen and whole and node.id < _DEEP and (deeper := await self._split(asked, node)):
            return deeper
        if self._own and (recalled := await confident_answer(self._ctx, asked, node=node)).known:
            return Solved(asked, recalled)
        guess = self._guesses.get(node.id, Answer("", status="unknown"))
        return Solved(asked, replace(guess, source="fallback", support=()))

    async def _split(self, asked: str, node: Node) -> Solved | None:
        """What the chain of its own parts ends with, where that is borne out; None where it has none."""
        plan = plan_by_words(self._ctx, asked, under=node) if self._worded else None
        if plan is None:
            shots = fixed() if self._plain else nearest(asked)
            plan = await decompose_tree(self._ctx, asked, demonstrations=shots, mend_leaks=True, under=node)
        if len(plan.nodes) < 2 or len(plan.paths()) > 1:
            return None
        solved = await in_order(plan, lambda part, done: self.solve(plan, part, done), parallel=True)
        last = solved[plan.nodes[-1].id]
        self._ctx.decide("deepened", last.answer.text if last.supported else "", node=node, parts=len(plan.nodes))
        return Solved(asked, last.answer, True) if all(one.supported for one in solved.values()) else None

    async def _refuted(self, asked: str, answer: Answer, passages: tuple[Passage, ...], node: Node) -> bool:
        """Whether a check speaks against an answer that others rest on, and that the model was half sure of."""
        low, high = _RISKY
        if not self._check or answer.confidence is None or not low <= answer.confidence <= high:
            return False
        held = tuple(passage for passage in passages if passage.id in answer.support)
        return await bears_out(self._ctx, asked, answer.text, held or passages, node=node) is False

    def _other(self, asked: str, done: Mapping[int, Solved], node: Node) -> str:
        """Another query for the same: with what the parts before it asked, in whose words its page may speak."""
        return " ".join([asked, *(done[ref].asked for ref in node.refs)])

    async def _gather(self, query: str, asked: str, done: Mapping[int, Solved], node: Node) -> tuple[Passage, ...]:
        """Pages of the answers it refers to, what the query finds, and what the whole question had found of it."""
        pages: list[Passage] = []
        for ref in node.refs[:_NEIGHBOURS]:
            if done[ref].answer.known:
                where = {TITLE: done[ref].answer.text}
                pages += await self._ctx.search(f"{asked} {done[ref].answer.text}", k=1, where=where, node=node)
        found = await self._ctx.search(query, k=self._k, node=node)
        named = [one for one in self._pool if f" {question_key(one.title)} " in f" {question_key(asked)} "]
        together = {one.id: one for one in (*pages, *found, *named[:_POOLED])}
        self.seen |= together
        return tuple(together.values())


def _text(one: Solved) -> str:
    return one.answer.text if one.answer.known else f'the answer to "{one.asked}"'
