"""RA-ISF's self-knowledge and relevance modules, and what looking a question up comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hoptree.core.values import Answer, Passage
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.prompts import prompt_for
from hoptree.engine.schedule import together
from hoptree.methods.steps.answer import direct_answer, least_probability, note_reply
from hoptree.methods.steps.evidence import number_lines, show_texts
from hoptree.text.parse import SelfKnowledge, read_self_knowledge, says_unknown
from hoptree.text.parse_labels import judges_relevance, read_choice, read_numbers, read_relevance
from hoptree.text.question_tree import Node

Branch = Literal["self-knowledge", "passages", "sub-questions", "guess", "none"]
"""The exit of Algorithm 1 that answered a question; a guess is beyond the paper."""
Pairs = Sequence[tuple[str, Answer]]
"""Sub-questions and their answers."""
UNKNOWN = Answer("", status="unknown")
_KNOW_TOKENS, _RELEVANCE_TOKENS, _LISTWISE_TOKENS = 128, 16, 128


@dataclass(frozen=True, slots=True)
class Setting:
    """The options that say which modules there are, and how they see passages."""

    k: int
    listwise: bool
    know: bool
    search: bool
    judge: bool
    fallthrough: bool
    titles: bool


@dataclass(frozen=True, slots=True)
class Lookup:
    """What memory and passages gave for a question; one that is not `settled` is decomposed, if it may be.

    `node` is the one that was looked up, `passages` are carried down to its sub-questions. `judged_by` is the node that
    asked for self-knowledge and relevance, where that is another one.
    """

    answer: Answer
    settled: bool
    branch: Branch
    why: str
    node: int
    passages: tuple[Passage, ...] = ()
    judged_by: int | None = None


@decision("know")
class KnowledgeJudged(Decision):
    """Whether the model says that it knows; `answer` is what it said in the same reply."""

    value: bool
    raw: str
    answer: str = ""


@decision("relevance")
class RelevanceJudged(Decision):
    """How many passages are relevant; `judged` are pairs of id and verdict."""

    value: int
    how: str
    judged: list[list[Any]] = field(default_factory=list)


async def judge_knowledge(
    ctx: Context, question: str, *, node: Node | None = None, logprobs: bool = False
) -> SelfKnowledge:
    """M_know: ask whether the model knows the answer; a reply that goes on after its "yes" gives it as well.

    With `logprobs`, such an answer has a confidence: the least probability among the reply's tokens.
    """
    prompt = prompt_for(ctx.method, "know").fill(question=question)
    reply = await ctx.generate(
        "know", prompt, role="know", max_tokens=_KNOW_TOKENS, node=node, top_logprobs=1 if logprobs else 0
    )
    knowing = read_self_knowledge(reply.text, question)
    readable = knowing.known or says_unknown(reply.text) or read_choice(reply.text, ("Yes", "No")) == "No"
    note_reply(ctx, "know", "" if readable else "neither yes nor no")
    ctx.emit(KnowledgeJudged(value=knowing.known, raw=reply.text, answer=knowing.answer), node=node)
    return replace(knowing, confidence=least_probability(reply)) if logprobs else knowing


async def recall(ctx: Context, question: str, node: Node, *, logprobs: bool = False) -> Answer | None:
    """Answer from the model's knowledge if M_know says that it has it; asked again only where M_know gave no answer.

    With `logprobs`, it is also asked again where M_know gave an answer without confidence, which cannot be weighed.
    """
    scored = logprobs and "logprobs" in ctx.model_for("know").capabilities
    knowing = await judge_knowledge(ctx, question, node=node, logprobs=scored)
    if not knowing.known:
        return None
    if knowing.answer and (knowing.confidence is not None or not logprobs):
        # "Yes" answers the main question completely; for a sub-question, the words behind it may be of use above.
        text = "Yes" if node.depth == 0 and knowing.answer.startswith(("Yes. ", "Yes, ")) else knowing.answer
        return Answer(text, knowing.answer, source="internal", confidence=knowing.confidence)
    return await direct_answer(ctx, question, node=node, logprobs=logprobs)


async def judge_passages(
    ctx: Context,
    question: str,
    passages: Sequence[Passage],
    *,
    listwise: bool = False,
    titles: bool = False,
    node: Node | None = None,
) -> tuple[Passage, ...]:
    """M_rel: return the passages that the model calls relevant, in their order.

    One call a passage, all at once. With `listwise` it is one call for all of them, which also asks whether they are
    sufficient and so lets fewer through.
    """
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


async def retrieve(
    ctx: Context, question: str, node: Node, setting: Setting
) -> tuple[tuple[Passage, ...], tuple[Passage, ...]]:
    """Return the passages that a search finds, and those of them that are relevant (all, where none is judged)."""
    passages = await ctx.search(question, k=setting.k, node=node)
    if not setting.judge:
        return passages, passages
    relevant = await judge_passages(
        ctx, question, passages, listwise=setting.listwise, titles=setting.titles, node=node
    )
    return passages, relevant


def relevance_summary(relevant: Sequence[Passage], passages: Sequence[Passage], setting: Setting) -> str:
    if not setting.search:
        return "nothing is looked up"
    if not passages:
        return "nothing was found"
    if not setting.judge:
        return f"{len(passages)} passages read"
    return f"{len(relevant)} of {len(passages)} passages relevant"
