"""What RA-ISF does with one question before it is split, and after its parts are answered: by the paper, and beyond it.

The paper takes the first module that has an answer. Beyond it all that was found is weighed: by its own Tables 6 and 7,
self-knowledge is the weakest of its exits (42.3 exact matches of 100 on HotpotQA, against 45.2 and 49.9).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from hoptree.core.singleflight import Once
from hoptree.core.values import Answer, Passage
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.engine.schedule import both, together
from hoptree.methods.steps.answer import answer_from, direct_answer, holding, least_probability
from hoptree.methods.steps.choose import surest
from hoptree.methods.steps.combine import combine_answers
from hoptree.methods.steps.compare import compare_pairs, compares, compares_again
from hoptree.methods.steps.evidence import show_passages
from hoptree.methods.steps.reply_notes import note_reply
from hoptree.methods.steps.route import read_way
from hoptree.text.grounding import covers, grounded
from hoptree.text.parse import SelfKnowledge, question_key, read_self_knowledge, says_unknown
from hoptree.text.parse_relevance import judges_relevance, read_numbers, read_relevance
from hoptree.text.question_tree import Node

MAX_TOKENS = 16
LISTWISE_TOKENS = 128


async def judge_passages(
    ctx: Context,
    question: str,
    passages: Sequence[Passage],
    *,
    listwise: bool = False,
    titles: bool = False,
    node: Node | None = None,
) -> tuple[Passage, ...]:
    """The passages the model calls relevant, in their order.

    One call a passage, all at once; with `listwise` one call for all, which also asks whether they are sufficient and
    so lets fewer through.
    """
    if not passages:
        verdicts = []
    elif listwise:
        verdicts = await _judge_all(ctx, question, passages, titles, node)
    else:
        verdicts = await together(_judge(ctx, question, passage, titles, node) for passage in passages)
    judged = [[passage.id, verdict] for passage, verdict in zip(passages, verdicts, strict=True)]
    ctx.decide("relevance", sum(verdicts), node=node, how="listwise" if listwise else "each", judged=judged)
    return tuple(passage for passage, verdict in zip(passages, verdicts, strict=True) if verdict)


async def _judge(ctx: Context, question: str, passage: Passage, titles: bool, node: Node | None) -> bool:
    shown = show_passages(ctx, [passage], titles=titles).removeprefix("passage: ")
    prompt = prompt_for(ctx.method, "relevance").fill(passage=shown, question=question)
    reply = await ctx.generate("relevance", prompt, role="relevance", max_tokens=MAX_TOKENS, node=node)
    note_reply(ctx, "relevance", "" if judges_relevance(reply.text) else "neither relevant nor irrelevant")
    return read_relevance(reply.text)


async def _judge_all(
    ctx: Context, question: str, passages: Sequence[Passage], titles: bool, node: Node | None
) -> list[bool]:
    shown = (show_passages(ctx, [passage], titles=titles).removeprefix("passage: ") for passage in passages)
    lines = "\n".join(f"[{number}] {text}" for number, text in enumerate(shown, 1))
    prompt = prompt_for(ctx.method, "relevance_list").fill(passages=lines, question=question)
    reply = await ctx.generate("relevance", prompt, role="relevance", max_tokens=LISTWISE_TOKENS, node=node)
    named = read_numbers(reply.text, len(passages))
    note_reply(ctx, "relevance", "" if named or judges_relevance(reply.text) else "no number of a passage")
    return [number in named for number in range(1, len(passages) + 1)]


MAX_TOKENS_KNOW = 128
_VERDICTS = ("Yes", "No")


async def judge_knowledge(
    ctx: Context, question: str, *, node: Node | None = None, logprobs: bool = False
) -> SelfKnowledge:
    """Whether the model says that it knows the answer; one that goes on after its "yes" has given it already.

    With `logprobs`, what it gave has a confidence: the least probability among the reply's tokens.
    """
    prompt = prompt_for(ctx.method, "know").fill(question=question)
    reply = await ctx.generate(
        "know", prompt, role="know", max_tokens=MAX_TOKENS_KNOW, node=node, top_logprobs=1 if logprobs else 0
    )
    knowing = read_self_knowledge(reply.text, question)
    read = knowing.known or says_unknown(reply.text) or read_way(reply.text, _VERDICTS) == "No"
    note_reply(ctx, "know", "" if read else "neither yes nor no")
    ctx.decide("know", knowing.known, node=node, raw=reply.text, answer=knowing.answer)
    return replace(knowing, confidence=least_probability(reply)) if logprobs else knowing


Branch = Literal["self-knowledge", "passages", "sub-questions", "guess", "none"]
Pairs = Sequence[tuple[str, Answer]]
"""Sub-questions and their answers."""
UNKNOWN = Answer("", status="unknown")
_BRANCHES: dict[str, Branch] = {
    "internal": "self-knowledge",
    "external": "passages",
    "fallback": "guess",
    "synthesis": "sub-questions",
}
_NOTHING = "nothing is looked up"
_CITED = 2
"""Passages a sub-answer brings to the reading that combines."""
_FURTHER = 3
"""Passages a reading sees beyond the k of one search."""
_LEAST = 3
"""Passages a reading sees at least: what a second step needs is easily judged irrelevant to the first."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The options that say which modules there are."""

    k: int
    listwise: bool
    know: bool
    search: bool
    judge: bool
    fallthrough: bool
    titles: bool


@dataclass(frozen=True, slots=True)
class Looked:
    """What memory and passages gave for a question; one that is not `settled` is split, if it may be.

    `node` is the one that looked, `passages` are what is carried down to its sub-questions. `judged_by` is the node
    that asked for self-knowledge and relevance, where that is another one.
    """

    answer: Answer
    settled: bool
    branch: Branch
    why: str
    node: int
    passages: tuple[Passage, ...] = ()
    judged_by: int | None = None


class Modules(Protocol):
    """What a question goes through on its way down, and on its way up."""

    async def look(self, asked: str, node: Node, carried: tuple[Passage, ...]) -> Looked: ...

    def asks_again(self, question: str, above: Sequence[str]) -> bool:
        """Whether a sub-question comes to what a question above it asks, in other words."""
        ...

    async def conclude(self, asked: str, node: Node, looked: Looked, pairs: Pairs) -> Answer: ...


class Paper:
    """Algorithm 1, lines 5 to 15 and line 20."""

    def __init__(self, ctx: Context, setting: Setting) -> None:
        self._ctx, self._set = ctx, setting

    async def look(self, asked: str, node: Node, carried: tuple[Passage, ...]) -> Looked:
        ctx, setting = self._ctx, self._set
        if setting.know:
            own = await recall(ctx, asked, node)
            if own is not None:
                return Looked(own, True, "self-knowledge", "the model says that it knows", node.id)
        if not setting.search:
            return Looked(UNKNOWN, False, "none", _NOTHING, node.id)
        passages, relevant = await find(ctx, asked, node, setting)
        why = _judged(relevant, passages, setting)
        if not relevant:
            return Looked(UNKNOWN, False, "none", why, node.id)
        answer = await answer_from(ctx, asked, relevant, node=node, titles=setting.titles)
        if setting.fallthrough and not answer.known:
            return Looked(answer, False, "none", f"{why}, without the answer", node.id)
        return Looked(answer, True, "passages", why, node.id)

    def asks_again(self, question: str, above: Sequence[str]) -> bool:
        return False

    async def conclude(self, asked: str, node: Node, looked: Looked, pairs: Pairs) -> Answer:
        return await combine_answers(self._ctx, asked, pairs, node=node)


class Careful:
    """Beyond the paper: memory is a candidate beside the passages, and passages that name only a part do not end it.

    A node's answer is the surest (by its least likely token) of: the passages found, those called relevant together
    with those carried down (and with others where these are few), memory where no reading stands in the passages, and
    the sub-answers read with all these. A question that compares is split in any case, but not into comparisons of the
    same things, and what its parts found is compared in code. Memory, search and judgements are asked for once a
    question, whatever came down to it; only the reading differs.
    """

    def __init__(self, ctx: Context, setting: Setting) -> None:
        self._ctx, self._set = ctx, setting
        self._sure = "logprobs" in ctx.model_for("answer").capabilities
        self._seen: dict[str, Passage] = {}
        self._found: dict[int, tuple[Passage, ...]] = {}
        self._once = Once()

    async def look(self, asked: str, node: Node, carried: tuple[Passage, ...]) -> Looked:
        own, found, relevant, judged_by = await self._once(question_key(asked), lambda: self._gather(asked, node))
        self._seen |= {passage.id: passage for passage in found}
        self._found[node.id] = found
        chosen = _once_each((*relevant, *carried))[: self._set.k + _FURTHER]
        shown = _once_each((*chosen, *found))[: max(_LEAST, len(chosen))]
        readings = await both(self._read(asked, node, shown), self._read(asked, node, found, prompt="read_asked_first"))
        standing = [said for said in readings if said.known and grounded(said, asked, (*found, *shown)).known]
        best = surest(self._ctx, standing or readings, node=node, when="read")
        holds = bool(standing)
        # A part that something was read for is settled; only of the whole question all must be there that it names.
        settled = holds and (node.depth > 0 or covers(asked, chosen)) and not compares(asked)
        if not holds:  # it stands in no passage, and so it is a guess, whoever made it
            guess = replace(best, source="fallback", support=())
            best = surest(self._ctx, (guess, own), node=node, when="remembered")
        why = _judged(relevant, found, self._set)
        if shown:
            why += _stands(relevant, holds=holds, lacking=holds and not settled and not compares(asked))
        why += "; to be compared" if compares(asked) else ""
        return Looked(best, settled, _BRANCHES.get(best.source, "none"), why, node.id, tuple(chosen), judged_by)

    def asks_again(self, question: str, above: Sequence[str]) -> bool:
        return compares_again(question, above)

    async def conclude(self, asked: str, node: Node, looked: Looked, pairs: Pairs) -> Answer:
        if compared := compare_pairs(self._ctx, asked, pairs, node=node):
            return compared
        behind = dict.fromkeys(name for _, sub in pairs for name in sub.support)
        cited = [self._seen[name] for _, sub in pairs for name in sub.support[:_CITED]][: self._set.k]
        found = self._found.get(looked.node, ())
        shown = _once_each((*cited, *looked.passages, *found))[: self._set.k + _FURTHER]
        answer = await combine_answers(self._ctx, asked, pairs, passages=shown, node=node, logprobs=self._sure)
        support = dict.fromkeys((*behind, *(holding(answer.text, shown) if answer.known else ())))
        combined = replace(answer, support=tuple(support))
        return surest(self._ctx, (looked.answer, combined), node=node, when="combined")

    async def _gather(self, asked: str, node: Node) -> tuple[Answer, tuple[Passage, ...], tuple[Passage, ...], int]:
        """What does not depend on the passages that came down: memory, what a search finds and what is relevant."""
        own, (found, relevant) = await both(self._recall(asked, node), self._find(asked, node))
        return own, found, relevant, node.id

    async def _recall(self, asked: str, node: Node) -> Answer:
        own = await recall(self._ctx, asked, node, logprobs=self._sure) if self._set.know else None
        return own or UNKNOWN

    async def _find(self, asked: str, node: Node) -> tuple[tuple[Passage, ...], tuple[Passage, ...]]:
        return await find(self._ctx, asked, node, self._set) if self._set.search else ((), ())

    async def _read(self, asked: str, node: Node, passages: Sequence[Passage], prompt: str = "read") -> Answer:
        if not passages:
            return UNKNOWN
        return await answer_from(self._ctx, asked, passages, prompt=prompt, node=node, titles=True, logprobs=self._sure)


async def recall(ctx: Context, asked: str, node: Node, *, logprobs: bool = False) -> Answer | None:
    """The answer of a model that says it knows; what it says in the same breath is not asked for again.

    With `logprobs`, it is asked for again if it was said without them: what has no confidence cannot be weighed.
    """
    told = logprobs and "logprobs" in ctx.model_for("know").capabilities
    knowing = await judge_knowledge(ctx, asked, node=node, logprobs=told)
    if not knowing.known:
        return None
    if knowing.answer and (knowing.confidence is not None or not logprobs):
        # To the question itself a yes is the whole answer; above a part of it, what was said with it may be of use.
        text = "Yes" if node.depth == 0 and knowing.answer.startswith(("Yes. ", "Yes, ")) else knowing.answer
        return Answer(text, knowing.answer, source="internal", confidence=knowing.confidence)
    return await direct_answer(ctx, asked, node=node, logprobs=logprobs)


async def find(
    ctx: Context, asked: str, node: Node, setting: Setting
) -> tuple[tuple[Passage, ...], tuple[Passage, ...]]:
    """What a search finds, and what of it is relevant."""
    passages = await ctx.search(asked, k=setting.k, node=node)
    if not setting.judge:
        return passages, passages
    relevant = await judge_passages(ctx, asked, passages, listwise=setting.listwise, titles=setting.titles, node=node)
    return passages, relevant


def _judged(relevant: Sequence[Passage], passages: Sequence[Passage], setting: Setting) -> str:
    if not setting.search:
        return _NOTHING
    if not passages:
        return "nothing was found"
    return (
        f"{len(relevant)} of {len(passages)} passages relevant" if setting.judge else f"{len(passages)} passages read"
    )


def _stands(relevant: Sequence[Passage], *, holds: bool, lacking: bool) -> str:
    """Whether an answer was read that stands in a passage: those that were called irrelevant are read as well."""
    joined = "and" if holds == bool(relevant) else "but"
    missing = "not all that the question names is there" if relevant else "only relevant passages settle the question"
    lacks = f"; {missing}" if lacking else ""
    return f", {joined} {'an' if holds else 'no'} answer stands in what was read{lacks}"


def _once_each(passages: Iterable[Passage]) -> list[Passage]:
    return list({passage.id: passage for passage in passages}.values())
