"""RA-ISF: self-knowledge, then relevant passages, then sub-questions, recursively."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hoptree.core.errors import ConfigError
from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.prompts import number_lines, prompt_for, show_texts
from hoptree.engine.registry import method
from hoptree.engine.schedule import SingleFlight, grow, plant, together
from hoptree.engine.trace import ExternalCall, ModelCalled, Retrieved, events_of
from hoptree.methods.steps.answer import answer_from, combine_answers, direct_answer, note_reply
from hoptree.methods.steps.decompose import drop_asked, split_question
from hoptree.text.parse import question_key, says_unknown
from hoptree.text.parse_dialogue import SelfKnowledge, read_self_knowledge
from hoptree.text.parse_labels import judges_relevance, read_choice, read_numbers, read_relevance
from hoptree.text.question_tree import Node

DepthRule = Literal["faithful", "prune"]


@method(
    "ra_isf",
    title="Retrieval-augmented iterative self-feedback",
    paper="RA-ISF",
    needs=("corpus",),
    iterative=True,
    dynamic=True,
    strategy="Self-knowledge and passage relevance",
    query="The question, then sub-questions decomposed from it",
    deviating_options={
        "max_sub_questions": "small models list many, and each may be split again: calls grow with its power",
        "depth_rule=prune": "sub-questions below the last level are unknown whatever they are",
        "link_siblings": "sub-questions refer to answers before them, which Algorithm 1 does not pass on",
        "fallthrough": "relevant passages need not hold the answer",
        "unfiltered": "it tells what judging relevance brings",
    },
    bounds={"max_sub_questions": (1, math.inf), "query_length": (1, math.inf)},
    roles=("know", "relevance", "decompose", "answer"),
    shared_prompts=("direct", "read"),
)
async def ra_isf(
    question: Question,
    ctx: Context,
    *,
    depth: int = 3,
    depth_rule: DepthRule = "faithful",
    k: int = 5,
    query_length: int = 64,
    relevance: Literal["each", "listwise"] = "each",
    max_sub_questions: int | None = None,
    link_siblings: bool = False,
    fallthrough: bool = False,
    no_self_knowledge: bool = False,
    no_relevance: bool = False,
    unfiltered: bool = False,
    no_decomposition: bool = False,
    titles: bool = False,
) -> Answer:
    """Answer what the model knows, look up what it does not, and decompose what passages do not answer.

    `depth` is the paper's D_th. Under the `faithful` rule a question at that depth is still decomposed, into
    sub-questions that are unknown; `prune` does not decompose it. `relevance=listwise` judges all passages in one call,
    and whether they suffice. A search takes the last `query_length` words of a question, as the paper's retriever takes
    64 tokens. All sub-questions of a reply are asked, unless `max_sub_questions` caps them. `link_siblings` asks
    sub-questions one after another, each with the answers before it; `fallthrough` decomposes a question whose relevant
    passages do not answer it. `no_self_knowledge`, `no_relevance` (nothing is looked up) and `no_decomposition` are the
    paper's ablations; `unfiltered` reads all passages. `titles` shows passages with their titles to those who judge and
    read them.
    """
    if no_relevance and unfiltered:
        raise ConfigError(
            "no_relevance looks nothing up, unfiltered reads all that is found.", "Set one of the two, not both."
        )
    if not no_relevance:
        ctx.require_corpus()
    if no_decomposition:
        depth, depth_rule = 0, "prune"
    algorithm = _Algorithm1(
        ctx=ctx, depth=depth, prune=depth_rule == "prune", linked=link_siblings, k=k,
        max_sub_questions=max_sub_questions, query_length=query_length, listwise=relevance == "listwise",
        asks_memory=not no_self_knowledge, retrieves=not no_relevance, judges_relevance=not unfiltered,
        fallthrough=fallthrough, titles=titles,
    )  # fmt: skip
    return await algorithm.solve(plant(ctx, question.text), question.text)


_Branch = Literal["self-knowledge", "passages", "sub-questions", "none"]  # how a question was answered
_Pairs = Sequence[tuple[str, Answer]]  # sub-questions and their answers
_UNKNOWN = Answer("", status="unknown")
_KNOW_TOKENS, _RELEVANCE_TOKENS, _LISTWISE_TOKENS = 128, 16, 128


@dataclass(frozen=True, slots=True)
class _Lookup:
    """The answer to a `node` from memory or passages; if not `final`, it is split."""

    answer: Answer
    final: bool
    branch: _Branch
    why: str
    node: int
    judgements: Mapping[str, object]


@decision("know")
class KnowledgeJudged(Decision):
    """Whether the model says that it knows; `answer` is the answer in the same reply."""

    value: bool
    raw: str
    answer: str = ""


@decision("relevance")
class RelevanceJudged(Decision):
    """How many passages are relevant; `judged` are pairs of id and verdict."""

    value: int
    how: str
    judged: list[list[Any]] = field(default_factory=list)


async def judge_knowledge(ctx: Context, question: str, *, node: Node | None = None) -> SelfKnowledge:
    """M_know: ask whether the model knows the answer, which may follow its "yes"."""
    prompt = prompt_for(ctx.method, "know").fill(question=question)
    reply = await ctx.generate("know", prompt, role="know", max_tokens=_KNOW_TOKENS, node=node)
    knowing = read_self_knowledge(reply.text, question)
    readable = knowing.known or says_unknown(reply.text) or read_choice(reply.text, ("Yes", "No")) == "No"
    note_reply(ctx, "know", "" if readable else "neither yes nor no")
    ctx.emit(KnowledgeJudged(value=knowing.known, raw=reply.text, answer=knowing.answer), node=node)
    return knowing


async def _recall(ctx: Context, question: str, node: Node) -> Answer | None:
    """Answer from the model's knowledge if M_know says yes."""
    knowing = await judge_knowledge(ctx, question, node=node)
    if not knowing.known:
        return None
    if knowing.answer:
        # "Yes" is the whole answer to the main question; for a sub-question, the words after it may help its parent.
        text = "Yes" if node.depth == 0 and knowing.answer.startswith(("Yes. ", "Yes, ")) else knowing.answer
        return Answer(text, knowing.answer, source="internal")
    return await direct_answer(ctx, question, node=node)


async def judge_passages(
    ctx: Context,
    question: str,
    passages: Sequence[Passage],
    *,
    listwise: bool = False,
    titles: bool = False,
    node: Node | None = None,
) -> tuple[Passage, ...]:
    """M_rel: return the relevant passages, by a call each or one for all (`listwise`)."""
    shown = show_texts(ctx, passages, titles=titles)
    if not passages:
        verdicts = []
    elif listwise:
        verdicts = await _judge_all(ctx, question, shown, node)
    else:
        verdicts = await together(_judge(ctx, question, text, node) for text in shown)
    judged = [[passage.id, verdict] for passage, verdict in zip(passages, verdicts, strict=True)]
    how = "listwise" if listwise else "each"
    ctx.emit(RelevanceJudged(value=sum(verdicts), how=how, judged=judged), node=node)
    return tuple(passage for passage, verdict in zip(passages, verdicts, strict=True) if verdict)


async def _judge(ctx: Context, question: str, passage: str, node: Node | None) -> bool:
    prompt = prompt_for(ctx.method, "relevance").fill(passage=passage, question=question)
    reply = await ctx.generate("relevance", prompt, role="relevance", max_tokens=_RELEVANCE_TOKENS, node=node)
    note_reply(ctx, "relevance", "" if judges_relevance(reply.text) else "neither relevant nor irrelevant")
    return read_relevance(reply.text)


async def _judge_all(ctx: Context, question: str, passages: Sequence[str], node: Node | None) -> list[bool]:
    prompt = prompt_for(ctx.method, "relevance_list").fill(passages=number_lines(passages), question=question)
    reply = await ctx.generate("relevance", prompt, role="relevance", max_tokens=_LISTWISE_TOKENS, node=node)
    relevant = read_numbers(reply.text, len(passages))
    note_reply(ctx, "relevance", "" if relevant or judges_relevance(reply.text) else "no number of a passage")
    return [number in relevant for number in range(1, len(passages) + 1)]


@dataclass(slots=True, kw_only=True)
class _Algorithm1:
    """Algorithm 1; looks up, decomposes and concludes each distinct question once.

    Only work without recursion is shared: so two branches cannot wait for each other, and the answer to a question does
    not depend on which of its nodes was reached first.
    """

    ctx: Context
    depth: int
    prune: bool
    linked: bool
    max_sub_questions: int | None
    k: int
    query_length: int
    listwise: bool
    asks_memory: bool
    retrieves: bool
    judges_relevance: bool
    fallthrough: bool
    titles: bool
    _once: SingleFlight = field(default_factory=SingleFlight)

    async def solve(self, node: Node, asked: str, above: tuple[str, ...] = ()) -> Answer:
        """Problem-solving(q_t, iter): `iter` is the depth, `above` the questions above it."""
        self.ctx.begin_node(node, asked)
        if node.depth > self.depth:  # lines 2 to 4
            return self._end(node, _UNKNOWN, "none", f"deeper than {self.depth}")
        key = question_key(asked)
        lookup = await self._once(("look", key), lambda: self._look_up(asked, node))  # 5 to 15
        if lookup.final:
            return self._end(node, lookup.answer, lookup.branch, lookup.why, lookup)
        if self.prune and node.depth == self.depth:
            return self._end(node, lookup.answer, lookup.branch, f"{lookup.why}; not split any further", lookup)
        above += (asked, node.question)
        children = grow(self.ctx, node, await self._decompose(node, asked, above))  # 16
        if not children:
            return self._end(node, lookup.answer, lookup.branch, f"{lookup.why}; no new sub-question", lookup)
        pairs = await self._solve_all(children, above)  # 17 to 19
        sub_answers = tuple((question_key(sub), answer.text if answer.known else None) for sub, answer in pairs)
        concluding = ("conclude", key, sub_answers)
        answer, concluded_by = await self._once(concluding, lambda: self._conclude(asked, node, pairs))  # 20
        unknown = sum(not sub.known for _, sub in pairs)
        why = f"{lookup.why}; {len(pairs)} sub-question{'s' if len(pairs) > 1 else ''}, {unknown} unknown"
        return self._end(
            node, answer, "sub-questions", why, lookup, sub_questions=len(pairs), concluded_by=concluded_by
        )

    async def _look_up(self, asked: str, node: Node) -> _Lookup:
        """Ask memory, then the relevant passages (lines 5 to 15)."""

        def make_lookup(answer: Answer, final: bool, branch: _Branch, why: str) -> _Lookup:
            return _Lookup(answer, final, branch, why, node.id, _judgements(self.ctx, node))

        own = await _recall(self.ctx, asked, node) if self.asks_memory else None  # lines 5 to 8
        if own is not None:
            return make_lookup(own, True, "self-knowledge", "the model says that it knows")
        relevant, why = await self._retrieve(asked, node)  # 9 to 12
        if not relevant:
            return make_lookup(_UNKNOWN, False, "none", why)
        answer = await answer_from(self.ctx, asked, relevant, node=node, titles=self.titles)  # 13 to 15
        if self.fallthrough and not answer.known:
            return make_lookup(answer, False, "none", f"{why}, without the answer")
        return make_lookup(answer, True, "passages", why)

    async def _retrieve(self, question: str, node: Node) -> tuple[tuple[Passage, ...], str]:
        """Return the relevant passages of a search, and their number in words."""
        if not self.retrieves:
            return (), "nothing is looked up"
        query = (
            " ".join(words[-self.query_length :]) if len(words := question.split()) > self.query_length else question
        )
        passages = await self.ctx.search(query, k=self.k, node=node)
        if not self.judges_relevance:
            return passages, f"{len(passages)} passages read" if passages else "nothing was found"
        shown = {"listwise": self.listwise, "titles": self.titles}
        relevant = await judge_passages(self.ctx, question, passages, **shown, node=node)
        return relevant, f"{len(relevant)} of {len(passages)} passages relevant" if passages else "nothing was found"

    async def _decompose(self, node: Node, asked: str, above: tuple[str, ...]) -> tuple[str, ...]:
        """M_decom: return the sub-questions that were not asked above."""
        ctx, linked = self.ctx, self.linked
        key = ("split", question_key(asked))
        questions = await self._once(key, lambda: split_question(ctx, asked, linked=linked, node=node))
        return drop_asked(ctx, questions, set(map(question_key, above)), most=self.max_sub_questions, node=node)

    async def _conclude(self, asked: str, node: Node, pairs: _Pairs) -> tuple[Answer, int]:
        """Return the answer from sub-questions, and the node that it was made for."""
        return await combine_answers(self.ctx, asked, pairs, node=node), node.id

    async def _solve_all(self, children: tuple[Node, ...], above: tuple[str, ...]) -> _Pairs:
        """Solve siblings at once, or one after another, each with the previous answers."""
        if not self.linked:
            answers = await together(self.solve(child, child.question, above) for child in children)
            return [(child.question, answer) for child, answer in zip(children, answers, strict=True)]
        pairs: list[tuple[str, Answer]] = []
        for child in children:
            known = "; ".join(f"{asked} {answer.text}" for asked, answer in pairs if answer.known)
            asked = f"{child.question} ({known})" if known else child.question
            pairs.append((child.question, await self.solve(child, asked, above)))
        return pairs

    def _end(
        self, node: Node, answer: Answer, branch: _Branch, why: str, lookup: _Lookup | None = None, **of_parts: int
    ) -> Answer:
        """Record the module that answered a node, why, and the data of the paper's tables."""
        self.ctx.end_node(
            node,
            answer,
            depth=node.depth,
            branch=branch,
            why=why,
            unknown=not answer.known,
            **{"sub_questions": 0, **of_parts},
            looked_by=lookup.node if lookup else node.id,
            spent=_spent_under(self.ctx, node),
            **(lookup.judgements if lookup else {}),
        )
        if node.depth == 0:
            self.ctx.propose(answer, order=0)
        return answer


def _spent_under(ctx: Context, node: Node) -> dict[str, int]:
    """Return what a node and all below it have cost so far."""
    start = "" if node.id == 0 else str(node.id)
    mine = [
        event
        for event in ctx.trace.events
        if isinstance(event, ExternalCall) and event.node is not None and str(event.node).startswith(start)
    ]
    replies = [event for event in mine if isinstance(event, ModelCalled)]
    return {
        "calls": len(replies),
        "retrievals": sum(isinstance(event, Retrieved) for event in mine),
        "tokens": sum(reply.prompt_tokens + reply.completion_tokens for reply in replies),
    }


def _judgements(ctx: Context, node: Node) -> dict[str, object]:
    """Return the modules' judgements of a node: self-knowledge, and each passage."""
    record: dict[str, object] = {}
    for event in events_of(ctx.trace.events, node.id):
        if isinstance(event, KnowledgeJudged):
            record |= {"know": event.value, "know_raw": event.raw}
        elif isinstance(event, RelevanceJudged):
            record |= {"relevance": event.judged}
    return record
