"""hop's parts of a question: answered from passages, from parts of their own or by recall, and put together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Answer, Passage
from hoptree.engine.context import Context
from hoptree.engine.events import Decision
from hoptree.engine.prompts import prompt_for
from hoptree.engine.schedule import in_order
from hoptree.methods.hop.word_plans import plan_by_words
from hoptree.methods.steps.answer import answer_from, confident_answer, note_reply
from hoptree.methods.steps.decompose import decompose_tree
from hoptree.methods.steps.demonstrations import fixed_demonstrations, nearest_demonstrations
from hoptree.methods.steps.evidence import show_passages
from hoptree.methods.steps.verify import same
from hoptree.retrieval.retriever import TITLE
from hoptree.text.comparison import read_yes_no
from hoptree.text.grounding import explain_type_mismatch, grounded
from hoptree.text.parse import question_key
from hoptree.text.quantities import countries
from hoptree.text.question_tree import Node, Plan, resolve

_CHECK_TOKENS = 8
_ONE_OR_TWO = lazy_re(r"\b([12])\b")
_REFERENCE_PAGES = 2
"""References of a part whose answers' own pages are read."""
_SHARED_PASSAGES = 1
"""Passages that the main question found, which name what a part is about."""
_NESTED_IDS = 100
"""The ids of parts of parts, which are not split once more, begin here."""
_UNSURE_CONFIDENCE = (0.25, 0.75)
"""Between these, the model's confidence says neither that it is right nor that it is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartChecked(Decision):
    """Whether passages bear out the answer to a part; None where the reply is neither yes nor no."""

    kind: ClassVar[str] = "checked"
    value: bool | None
    answer: str
    passages: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairChecked(Decision):
    """The place of the one of two answers that passages bear out; None where the reply names neither or both."""

    kind: ClassVar[str] = "which"
    value: int | None
    answers: list[str]
    passages: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deepened(Decision):
    """The answer that the parts of a part came to, "" where something of it is not supported."""

    kind: ClassVar[str] = "deepened"
    value: str
    parts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchesIntersected(Decision):
    """The names that all lists share."""

    kind: ClassVar[str] = "intersected"
    value: list[str]
    of: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCounted(Decision):
    """How many names a list has."""

    kind: ClassVar[str] = "counted"
    value: int
    of: str


async def bears_out(
    ctx: Context, question: str, answer: str, passages: Sequence[Passage], *, node: Node | None = None
) -> bool | None:
    """Ask whether passages bear an answer out; None where the reply is neither yes nor no."""
    documents = show_passages(ctx, passages, titles=True)
    prompt = prompt_for(ctx.method, "check").fill(documents=documents, question=question, answer=answer)
    holds = read_yes_no((await ctx.generate("check", prompt, role="verify", max_tokens=_CHECK_TOKENS, node=node)).text)
    note_reply(ctx, "check", "" if holds is not None else "neither yes nor no")
    ctx.emit(PartChecked(value=holds, answer=answer, passages=[passage.id for passage in passages]), node=node)
    return holds


async def which_of_two(
    ctx: Context, question: str, answers: tuple[str, str], passages: Sequence[Passage]
) -> int | None:
    """Ask which answer passages bear out, 0 or 1; None where the reply names neither or both."""
    documents = show_passages(ctx, passages, titles=True)
    prompt = prompt_for(ctx.method, "which").fill(
        documents=documents, question=question, first=answers[0], second=answers[1]
    )
    reply = await ctx.generate("which", prompt, role="verify", max_tokens=_CHECK_TOKENS)
    named = set(_ONE_OR_TWO.findall(reply.text))
    place = int(named.pop()) - 1 if len(named) == 1 else None
    note_reply(ctx, "which", "" if place is not None else "neither of the two numbers")
    ctx.emit(PairChecked(value=place, answers=list(answers), passages=[passage.id for passage in passages]))
    return place


@dataclass(frozen=True, slots=True)
class PartOptions:
    """The options of hop that its parts share."""

    k: int
    own: bool
    check: bool
    deepen: bool
    worded: bool
    plain: bool


@dataclass(frozen=True, slots=True)
class Solved:
    """What a part finally asked, its answer, and whether something that was read bears it out."""

    asked: str
    answer: Answer
    supported: bool = False

    @property
    def as_reference(self) -> str:
        return self.answer.text if self.answer.known else f'the answer to "{self.asked}"'


class Parts:
    """Solves the nodes of a plan, and of the plans of its nodes; `seen` is every passage that was found."""

    def __init__(self, ctx: Context, main_passages: tuple[Passage, ...], options: PartOptions) -> None:
        self._ctx, self._main_passages, self._options = ctx, main_passages, options
        self._logprobs = "logprobs" in ctx.model_for("answer").capabilities
        self._guesses: dict[int, Answer] = {}
        self.seen: dict[str, Passage] = {passage.id: passage for passage in main_passages}

    async def solve(self, plan: Plan, node: Node, done: Mapping[int, Solved]) -> Solved:
        """Answer a node; what rests on an unsupported answer is unsupported, too."""
        references = [done[ref] for ref in node.refs]
        asked = resolve(node.question, {ref: done[ref].as_reference for ref in node.refs})
        self._ctx.begin_node(node, asked)
        is_bridge = any(node.id in other.refs for other in plan.nodes)
        complete = all(part.answer.known for part in references)
        solved = await self._read(asked, node, references, is_bridge) or await self._fall_back(asked, node, complete)
        if not all(part.supported for part in references):
            solved = replace(solved, supported=False)
        self._ctx.end_node(node, solved.answer, supported=solved.supported)
        return solved

    async def _read(self, asked: str, node: Node, references: Sequence[Solved], is_bridge: bool) -> Solved | None:
        """Read, then read what another query finds; None where neither gives a supported answer."""
        plain, read, mismatch = self._options.plain, set[str](), False
        # Models overuse NOT FOUND: it is allowed the second time only. Adapters have not learnt it.
        second = "read" if plain else "read_or_not_found"
        # The pages of the references may be written in the words of their questions.
        for prompt, query in (("read", asked), (second, " ".join([asked, *(part.asked for part in references)]))):
            passages = await self._gather(query, asked, references, node)
            if not passages or (not mismatch and {passage.id for passage in passages} <= read):
                continue  # another reading of the same passages says the same
            read = {passage.id for passage in passages}
            reading = await answer_from(
                self._ctx, asked, passages, prompt=prompt, node=node, titles=not plain, logprobs=self._logprobs
            )
            answer = grounded(reading, asked, passages) if reading.known else reading
            if mismatch := bool(explain_type_mismatch(asked, answer.text)):
                continue  # a date to "where" is no guess either
            refuted = answer.known and is_bridge and await self._refuted(asked, answer, passages, node)
            if answer.known and not refuted:
                return Solved(asked, answer, True)
            if reading.known and not refuted:
                self._guesses.setdefault(node.id, reading)
        return None

    async def _fall_back(self, asked: str, node: Node, complete: bool) -> Solved:
        """Split the part, then recall; a guess is the last resort, and never supported.

        Only a `complete` question is split: another one lacks an answer that was looked for.
        """
        if self._options.deepen and complete and node.id < _NESTED_IDS and (deeper := await self._split(asked, node)):
            return deeper
        if self._options.own and (recalled := await confident_answer(self._ctx, asked, node=node)).known:
            return Solved(asked, recalled)
        guess = self._guesses.get(node.id, Answer("", status="unknown"))
        return Solved(asked, replace(guess, source="fallback", support=()))

    async def _split(self, asked: str, node: Node) -> Solved | None:
        """Return what the chain of its own parts ends with, where all of it is supported; None where it has none."""
        plan = plan_by_words(self._ctx, asked, under=node) if self._options.worded else None
        if plan is None:
            shots = fixed_demonstrations() if self._options.plain else nearest_demonstrations(asked)
            plan = await decompose_tree(self._ctx, asked, demonstrations=shots, mend_leaks=True, under=node)
        if len(plan.nodes) < 2 or len(plan.paths()) > 1:
            return None
        solved = await in_order(plan, lambda part, done: self.solve(plan, part, done), parallel=True)
        last = solved[plan.nodes[-1].id]
        self._ctx.emit(Deepened(value=last.answer.text if last.supported else "", parts=len(plan.nodes)), node=node)
        return Solved(asked, last.answer, True) if all(part.supported for part in solved.values()) else None

    async def _refuted(self, asked: str, answer: Answer, passages: tuple[Passage, ...], node: Node) -> bool:
        """Return whether a check speaks against an answer that others rest on, if the model was half sure of it."""
        low, high = _UNSURE_CONFIDENCE
        if not self._options.check or answer.confidence is None or not low <= answer.confidence <= high:
            return False
        cited = tuple(passage for passage in passages if passage.id in answer.support)
        return await bears_out(self._ctx, asked, answer.text, cited or passages, node=node) is False

    async def _gather(self, query: str, asked: str, references: Sequence[Solved], node: Node) -> tuple[Passage, ...]:
        """Return pages of the answers it refers to, what the query finds, and what the main question found of it."""
        pages: list[Passage] = []
        for part in references[:_REFERENCE_PAGES]:
            if part.answer.known:
                where = {TITLE: part.answer.text}
                pages += await self._ctx.search(f"{asked} {part.answer.text}", k=1, where=where, node=node)
        searched = await self._ctx.search(query, k=self._options.k, node=node)
        named = [one for one in self._main_passages if f" {question_key(one.title)} " in f" {question_key(asked)} "]
        passages = {passage.id: passage for passage in (*pages, *searched, *named[:_SHARED_PASSAGES])}
        self.seen |= passages
        return tuple(passages.values())


_SEPARATOR = lazy_re(r"(?:[;\n]|,(?!\s*(?:Jr|Sr|I{1,3})\b))(?:[^\S\n]*and(?=\s))?|(?<=\s)and(?=\s)")
_ASKS_FOR_SEVERAL = lazy_re(
    r"\W*(?:(?:in|on|at|for|from|of|by|with|to)\s+)?(?:(?:which|what)\s+(?:(?!(?:is|was|does|did|has)\b)[\w'’-]+\s+){0,3}?"
    r"(?:[a-z]+[^\Wsu]s|people|men|women|children)\b|(?:who|what|which)\s+(?:are|were)\b|who\s+(?!(?:is|was|has)\b)[a-z]+|"
    r"(?:list|name)\s)",
    re.IGNORECASE,
)
_MAX_COMMON_NOUN_WORDS = 3
_MAX_LISTED_NAMES = 40


def intersect_branches(ctx: Context, plan: Plan, answers: Mapping[int, Answer]) -> Answer | None:
    """Return the names that the ends of all branches list, in the words of the first.

    None where there is one branch, a branch has no answer, or no name is in all of them: then they are no lists of the
    same kind of thing, and have to be read.
    """
    ends = [answers[path[-1].id] for path in plan.paths()]
    if len(ends) < 2 or not all(end.known for end in ends):
        return None
    first, *others = (_split_list(end.text) for end in ends)
    shared = [name for name in first if all(any(same(name, other) for other in names) for names in others)]
    ctx.emit(BranchesIntersected(value=shared, of=[end.text for end in ends]))
    if not shared:
        return None
    support = dict.fromkeys(passage_id for end in ends for passage_id in end.support)
    return Answer(", ".join(shared), source="synthesis", support=tuple(support))


def count_listed(ctx: Context, plan: Plan, answers: Mapping[int, Answer]) -> Answer | None:
    """Count the things that the end of the only branch lists.

    None where it asks for no list, lists fewer than two, or holds a number; "Liverpool, England" is one place.
    """
    ends = [path[-1] for path in plan.paths()]
    if len(ends) != 1 or not answers[ends[0].id].known:
        return None
    answer = answers[ends[0].id]
    names = _split_list(answer.text)
    is_list = _ASKS_FOR_SEVERAL.match(ends[0].question) and len(names) > 1 and not any(map(str.isdigit, answer.text))
    if not is_list or not _are_names(names):
        return None
    ctx.emit(ListCounted(value=len(names), of=answer.text))
    return Answer(str(len(names)), source="synthesis", support=answer.support)


def _are_names(names: Sequence[str]) -> bool:
    """Return whether each is a name of its own: none says where another one is, and none is a piece of a sentence."""
    are_countries = [name.casefold() in countries().by_name for name in names]
    if any(are_countries) and not all(are_countries):
        return False
    proper = [not name[0].islower() for name in names]
    return all(proper) or (not any(proper) and all(len(name.split()) <= _MAX_COMMON_NOUN_WORDS for name in names))


def _split_list(text: str) -> list[str]:
    """Split a list into its names, each once."""
    names = [" ".join(name.split()).strip(" .") for name in _SEPARATOR.split(text)[:_MAX_LISTED_NAMES]]
    return list(dict.fromkeys(name for name in names if name))
