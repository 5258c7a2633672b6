"""Answering one part of a question: from passages, then from parts of its own, and last by what the model recalls."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hoptree.core.values import Answer, Passage
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.engine.schedule import in_order
from hoptree.methods.hop.word_plans import plan_by_words
from hoptree.methods.steps.agreement import same
from hoptree.methods.steps.answer import answer_from, confident_answer
from hoptree.methods.steps.decompose import decompose_tree
from hoptree.methods.steps.demonstrations import fixed, nearest
from hoptree.methods.steps.evidence import show_passages
from hoptree.methods.steps.reply_notes import note_reply
from hoptree.retrieval.retriever import TITLE
from hoptree.text.answer_types import explain_type_mismatch
from hoptree.text.comparison import read_yes_no
from hoptree.text.countries import COUNTRY_OF
from hoptree.text.grounding import grounded
from hoptree.text.parse import question_key
from hoptree.text.question_tree import Node, Plan, resolve

MAX_TOKENS = 8
_NUMBER = re.compile(r"\b([12])\b")


async def bears_out(
    ctx: Context, question: str, answer: str, passages: Sequence[Passage], *, node: Node | None = None
) -> bool | None:
    """Whether the passages bear the answer out; None where the reply is neither yes nor no."""
    documents = show_passages(ctx, passages, titles=True)
    prompt = prompt_for(ctx.method, "check").fill(documents=documents, question=question, answer=answer)
    said = (await ctx.generate("check", prompt, role="verify", max_tokens=MAX_TOKENS, node=node)).text
    holds = read_yes_no(said)
    note_reply(ctx, "check", "" if holds is not None else "neither yes nor no")
    ctx.decide("checked", holds, node=node, answer=answer, passages=[passage.id for passage in passages])
    return holds


async def borne_out_of_two(
    ctx: Context, question: str, answers: tuple[str, str], passages: Sequence[Passage]
) -> int | None:
    """The place of the answer that the passages bear out; None where the reply names neither or both."""
    documents = show_passages(ctx, passages, titles=True)
    prompt = prompt_for(ctx.method, "which").fill(
        documents=documents, question=question, first=answers[0], second=answers[1]
    )
    said = (await ctx.generate("which", prompt, role="verify", max_tokens=MAX_TOKENS)).text
    named = set(_NUMBER.findall(said))
    place = int(named.pop()) - 1 if len(named) == 1 else None
    note_reply(ctx, "which", "" if place is not None else "neither of the two numbers")
    ctx.decide("which", place, answers=list(answers), passages=[passage.id for passage in passages])
    return place


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
            if unfit := bool(explain_type_mismatch(asked, answer.text)):
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


_BETWEEN = re.compile(r"(?:[;\n]|,(?!\s*(?:Jr|Sr|I{1,3})\b))(?:[^\S\n]*and(?=\s))?|(?<=\s)and(?=\s)")
_LISTS = re.compile(
    r"\W*(?:(?:in|on|at|for|from|of|by|with|to)\s+)?(?:(?:which|what)\s+(?:(?!(?:is|was|does|did|has)\b)[\w'’-]+\s+){0,3}?"
    r"(?:[a-z]+[^\Wsu]s|people|men|women|children)\b|(?:who|what|which)\s+(?:are|were)\b|who\s+(?!(?:is|was|has)\b)[a-z]+|"
    r"(?:list|name)\s)",
    re.IGNORECASE,
)
"""A question for several things."""
_FEW_WORDS = 3
_MOST = 40
"""Names of a list; what is longer was not meant as one."""


def intersect_branches(ctx: Context, plan: Plan, answers: Mapping[int, Answer]) -> Answer | None:
    """The names that the ends of all branches list, in the words of the first.

    None where there is one branch, a branch has no answer, or no name is in all of them: then they are no lists of the
    same kind of thing, and have to be read.
    """
    ends = [path[-1] for path in plan.paths()]
    if len(ends) < 2 or any(not answers[end.id].known for end in ends):
        return None
    first, *others = (_listed(answers[end.id].text) for end in ends)
    shared = [name for name in first if all(any(same(name, other) for other in names) for names in others)]
    ctx.decide("intersected", shared, of=[answers[end.id].text for end in ends])
    if not shared:
        return None
    support = dict.fromkeys(name for end in ends for name in answers[end.id].support)
    return Answer(", ".join(shared), source="synthesis", support=tuple(support))


def count_listed(ctx: Context, plan: Plan, answers: Mapping[int, Answer]) -> Answer | None:
    """How many things the end of the only branch lists.

    None where it asks for no list, lists fewer than two, or tells a number; "Liverpool, England" is one place.
    """
    ends = [path[-1] for path in plan.paths()]
    if len(ends) != 1 or not answers[ends[0].id].known:
        return None
    answer = answers[ends[0].id]
    names = _listed(answer.text)
    if not _LISTS.match(ends[0].question) or len(names) < 2 or any(map(str.isdigit, answer.text)):
        return None
    if not _are_names(names):
        return None
    ctx.decide("counted", len(names), of=answer.text)
    return Answer(str(len(names)), source="synthesis", support=answer.support)


def _are_names(names: Sequence[str]) -> bool:
    """Whether each is a name of its own: none tells where another one is, and none is a piece of a sentence."""
    countries = [name.casefold() in COUNTRY_OF for name in names]
    if any(countries) and not all(countries):
        return False
    proper = [not name[0].islower() for name in names]
    return all(proper) or (not any(proper) and all(len(name.split()) <= _FEW_WORDS for name in names))


def _listed(text: str) -> list[str]:
    """The names of a list, each once."""
    names = [" ".join(name.split()).strip(" .") for name in _BETWEEN.split(text)[:_MOST]]
    return list(dict.fromkeys(name for name in names if name))
