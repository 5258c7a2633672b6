"""Operations behind the MCP tools, and their results as values and text."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

from hoptree.core.values import Answer, Passage, Question, Source, Usage
from hoptree.engine.context import Context
from hoptree.engine.engine import Engine
from hoptree.engine.events import Planned
from hoptree.engine.registry import Method, find_method
from hoptree.engine.result import Result, TreeNode
from hoptree.engine.trace import Listener
from hoptree.integrations.engine_thread import Quoted, answer_text, join_text, quote, quoted_sentence, readable_ids
from hoptree.methods.steps.decompose import decompose_tree, fixed_demonstrations
from hoptree.methods.steps.evidence_box import EvidenceBox, Verdict, new_clue, validate
from hoptree.methods.steps.mentions import PRESETS, EvidenceKinds, Sources
from hoptree.models.model import Model
from hoptree.server.reply_schemas import AskReply
from hoptree.text.parse import read_yes_no
from hoptree.text.question_tree import Node

_PLANNER, _CHECKER = "taikc", "treeqa"
"""The methods whose prompts decompose a question, and check an answer against evidence."""
_MAX_ATTEMPTS = 2  # validations of a claim; before the second the model names another search


@dataclass(frozen=True, slots=True)
class CheckedClaim:
    """The verdict on a claim; `passages` are all that were read for it."""

    result: Result
    verdict: Verdict
    passages: tuple[Passage, ...]


async def search_passages(
    engine: Engine, query: str, k: int, listeners: tuple[Listener, ...]
) -> tuple[Result, tuple[Passage, ...]]:
    """Return the best passages of the engine's corpus, as a method would get them."""
    passages: list[Passage] = []

    async def search(question: Question, ctx: Context) -> Answer:
        passages.extend(await ctx.search(question.text, k=k))
        return Answer("", status="unknown", support=tuple(passage.id for passage in passages))

    return await _engine_running(engine, "oner", search).ask(query, listeners=listeners), tuple(passages)


async def plan_question(
    engine: Engine, question: str, listeners: tuple[Listener, ...]
) -> tuple[Result, tuple[Node, ...]]:
    """Return the sub-questions of TAIKC's plan, without answers."""
    nodes: list[Node] = []

    async def plan(asked: Question, ctx: Context) -> Answer:
        tree = await decompose_tree(ctx, asked.text, demonstrations=fixed_demonstrations())
        nodes.extend(tree.nodes)
        return Answer("", status="unknown")

    return await _engine_running(engine, _PLANNER, plan).ask(question, listeners=listeners), tuple(nodes)


async def check_claim(engine: Engine, claim: str, question: str, listeners: tuple[Listener, ...]) -> CheckedClaim:
    """Check a claim, or an answer to a question, as TreeQA does a hypothesis."""
    kinds: EvidenceKinds = "text" if engine.graph is None else "graph" if engine.retriever is None else "hybrid"
    asked, answer = (question, claim) if question else (f"Is it true that {claim.rstrip(' .')}?", "Yes")
    verdict, box = Verdict(), EvidenceBox()

    async def check(statement: Question, ctx: Context) -> Answer:
        nonlocal verdict, box
        node = Node(1, asked)
        plan = [{"id": 1, "question": asked, "parent": None, "refs": [], "hypothesis": claim}]
        ctx.trace.emit(Planned(nodes=plan))
        ctx.begin_node(node, asked)
        sources = Sources(ctx, kinds, PRESETS["paper"])
        query = statement.text
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            box = (await sources.retrieve(query, node)).over(box)
            verdict = await validate(ctx, asked, answer, box, attempt=attempt, node=node)
            if verdict.cited.fabricated and not (verdict.cited.passages or verdict.cited.facts):
                verdict = Verdict(reason="it is said to rest on what is not there")
            if verdict.label != "unknown" or attempt == _MAX_ATTEMPTS:
                break
            query = await new_clue(ctx, asked, answer, box, node=node)
            if not query:
                break
        support = tuple(passage.id for passage in verdict.cited.passages)
        source: Source = "external" if support or verdict.cited.facts else "none"
        conclusion = Answer(verdict.label, source=source, support=support)
        ctx.end_node(node, conclusion, hypothesis=claim, verdict=verdict.label, why=verdict.reason)
        return conclusion

    statement = f"{question} {claim}" if question else claim
    result = await _engine_running(engine, _CHECKER, check).ask(statement, listeners=listeners)
    if not question and read_yes_no(verdict.correction) is not None:
        verdict = replace(verdict, correction="")  # "no" does not correct a statement
    return CheckedClaim(result, verdict, box.passages)


def _engine_running(
    engine: Engine, prompts_of: str, operation: Callable[[Question, Context], Awaitable[Answer]]
) -> Engine:
    """Return a copy of the engine that runs one operation as its method."""
    method = find_method(prompts_of)
    part = copy.copy(engine)
    part.method = Method(method.name, method.title, operation, options=(), needs=method.needs, roles=method.roles)
    part.options = {}
    return part


@dataclass(frozen=True, slots=True)
class Spent:
    """The cost of a call; tokens include cached replies, `cost` is what was paid."""

    llm_calls: int
    prompt_tokens: int
    completion_tokens: int
    retrievals: int
    cost: float
    seconds: float

    @classmethod
    def of(cls, usage: Usage) -> Spent:
        return cls(*(getattr(usage, part.name) for part in fields(cls)))


# The SDK takes slots for defaults, so the values that tools return have none.
@dataclass(frozen=True)
class SearchReply:
    """Passages, best first."""

    passages: list[Quoted]
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class SubQuestion:
    """A sub-question; `#queryN` in it stands for the answer of sub-question N."""

    id: int
    question: str
    parent: int | None
    needs: list[int]


@dataclass(frozen=True)
class PlanReply:
    """The sub-questions of a question, parents before children."""

    sub_questions: list[SubQuestion]
    warnings: list[str]
    usage: Spent


@dataclass(frozen=True)
class ClaimReply:
    """The verdict on a claim: supported, refuted or unknown.

    `correction` is the correct statement if the evidence has it, `facts` are the cited facts of the graph, `looked_at`
    is the number of passages that were read.
    """

    verdict: Literal["supported", "refuted", "unknown"]
    reason: str
    correction: str
    evidence: list[Quoted]
    facts: list[str]
    looked_at: int
    warnings: list[str]
    usage: Spent


def render_answer(result: Result, model: Model) -> tuple[AskReply, str]:
    """Return the object of `ask --json`, with passages as quoted, and the text.

    Left out is `writing`, which has sentences of documents outside of passages.
    """
    passages = [*dict.fromkeys((*result.shown, *result.consulted))]
    quoted, left_out = quote(passages, model)
    shown = quoted[: len(result.shown)]
    as_quoted = {passage.id: _as_quoted(passage, each) for passage, each in zip(passages, quoted, strict=True)}
    public = replace(
        result,
        sentence=quoted_sentence(result, shown),
        # Only the last part of the spec: it may be a path on this machine.
        model=result.model.partition("?")[0].rstrip("/").rpartition("/")[2],
        tree=tuple(_with_readable_ids(node, passages) for node in result.tree),
        evidence=tuple(as_quoted[passage.id] for passage in result.evidence),
        consulted=tuple(as_quoted[passage.id] for passage in result.consulted),
        warnings=tuple(_unique(*result.warnings, *left_out)),
        writing=None,
    )
    return public.as_dict(), answer_text(result, shown, public.warnings)


def _as_quoted(passage: Passage, quoted: Quoted) -> Passage:
    where = (quoted.document, passage.start, passage.end)
    return Passage(quoted.id, quoted.title, quoted.text, passage.score, *where, metadata=tuple(quoted.metadata.items()))


def render_search(result: Result, passages: Sequence[Passage], model: Model) -> tuple[SearchReply, str]:
    """Return the results of a search as a value and as text."""
    quoted, left_out = quote(passages, model)
    reply = SearchReply(quoted, _unique(*result.warnings, *left_out))
    heading = f"{len(quoted)} passage{'' if len(quoted) == 1 else 's'} found, best first."
    return reply, join_text([heading if quoted else "Nothing was found."], quoted, reply.warnings)


def render_plan(result: Result, nodes: Sequence[Node]) -> tuple[PlanReply, str]:
    """Return a plan as a value and as text."""
    sub_questions = [SubQuestion(node.id, node.question, node.parent, list(node.refs)) for node in nodes]
    reply = PlanReply(sub_questions, list(result.warnings), Spent.of(result.usage))
    lines = [f"{'  ' * (node.depth - 1)}{node.id}. {node.question}" for node in nodes]
    return reply, join_text(lines, (), reply.warnings)


def render_claim(checked: CheckedClaim, model: Model) -> tuple[ClaimReply, str]:
    """Return a verdict as a value and as text."""
    verdict, looked_at = checked.verdict, len(checked.passages)
    evidence, left_out = quote(verdict.cited.passages, model)
    reply = ClaimReply(
        verdict=verdict.label,
        reason=verdict.reason,
        correction=verdict.correction,
        evidence=evidence,
        facts=[fact.text for fact in verdict.cited.facts],
        looked_at=looked_at,
        warnings=_unique(*checked.result.warnings, *left_out),
        usage=Spent.of(checked.result.usage),
    )
    lines = [f"Verdict: {reply.verdict}"]
    if reply.reason:
        lines.append(f"Why: {reply.reason}")
    if reply.correction:
        lines.append(f"It should be: {reply.correction}")
    lines += [f"Fact: {fact}" for fact in reply.facts]
    if reply.verdict == "unknown":
        looked = (
            "1 passage was looked at; it does" if looked_at == 1 else f"{looked_at} passages were looked at; they do"
        )
        lines.append(f"{looked} not settle it.")
    return reply, join_text(lines, evidence, reply.warnings)


def _with_readable_ids(node: TreeNode, passages: Sequence[Passage]) -> TreeNode:
    children = [_with_readable_ids(child, passages) for child in node.children]
    return replace(node, evidence=tuple(readable_ids(node.evidence, passages)), children=children)


def _unique(*warnings: str) -> list[str]:
    return list(dict.fromkeys(warnings))
