"""Single operations of methods that are useful by themselves: a search, a plan, a check of a claim."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from hoptree.core.values import Answer, Passage, Question, Source
from hoptree.engine.context import Context
from hoptree.engine.engine import Engine
from hoptree.engine.events import Planned
from hoptree.engine.registry import Method, find_method
from hoptree.engine.result import Result
from hoptree.engine.trace import Listener
from hoptree.methods.steps.decompose import decompose_tree
from hoptree.methods.steps.demonstrations import fixed_demonstrations, nearest_demonstrations
from hoptree.methods.steps.evidence_box import EvidenceBox
from hoptree.methods.steps.mentions import EvidenceKinds
from hoptree.methods.steps.verify import Verdict, validate
from hoptree.methods.treeqa.hypotheses import new_clue
from hoptree.methods.treeqa.sources import PRESETS, Sources
from hoptree.text.comparison import read_yes_no
from hoptree.text.question_tree import Node

_PLANNER, _CHECKER = "taikc", "treeqa"
"""The methods whose prompts split a question, and check an answer against evidence."""
_MAX_ATTEMPTS = 2
"""Validations of a claim; between them the model is asked what else to search for."""


@dataclass(frozen=True, slots=True)
class CheckedClaim:
    """What evidence says of a claim; `passages` are all that were looked at."""

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
    """Return the sub-questions that TAIKC would go through, with none of them answered."""
    robust = engine.method.name == _PLANNER and bool(engine.options.get("robust"))
    nodes: list[Node] = []

    async def plan(asked: Question, ctx: Context) -> Answer:
        demonstrations = nearest_demonstrations(asked.text) if robust else fixed_demonstrations()
        tree = await decompose_tree(ctx, asked.text, demonstrations=demonstrations, mend_leaks=robust)
        nodes.extend(tree.nodes)
        return Answer("", status="unknown")

    return await _engine_running(engine, _PLANNER, plan).ask(question, listeners=listeners), tuple(nodes)


async def check_claim(engine: Engine, claim: str, question: str, listeners: tuple[Listener, ...]) -> CheckedClaim:
    """Check a claim against the corpus and the graph as TreeQA does with a hypothesis.

    With a `question`, the claim is an answer to it; without one it is a statement of its own.
    """
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
            verdict = _grounded(await validate(ctx, asked, answer, box, attempt=attempt, node=node))
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


def _grounded(verdict: Verdict) -> Verdict:
    """Turn a verdict that cites only what does not exist into unknown."""
    if verdict.cited.fabricated and not (verdict.cited.passages or verdict.cited.facts):
        return Verdict(reason="it is said to rest on what is not there")
    return verdict


def _engine_running(
    engine: Engine, prompts_of: str, operation: Callable[[Question, Context], Awaitable[Answer]]
) -> Engine:
    """Return an engine with the same sources, cache, limits and listeners that only runs this operation.

    The engine itself closes what they share.
    """
    method = find_method(prompts_of)
    part = copy.copy(engine)
    part.method = Method(method.name, method.title, operation, options=(), needs=method.needs, roles=method.roles)
    part.options = {}
    return part
