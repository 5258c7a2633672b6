"""Parts of methods that are worth asking for by themselves: a search, a plan, a claim held against evidence."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.engine import Engine
from hoptree.engine.registry import Method, find_method
from hoptree.engine.result import Result
from hoptree.engine.trace import Listener
from hoptree.methods.steps.decompose import decompose_tree
from hoptree.methods.steps.demonstrations import fixed, nearest
from hoptree.methods.steps.evidence_box import EvidenceBox
from hoptree.methods.steps.mentions import Kinds
from hoptree.methods.steps.verify import Verdict, validate
from hoptree.methods.treeqa.hypotheses import new_clue
from hoptree.methods.treeqa.sources import PRESETS, Sources
from hoptree.text.comparison import read_yes_no
from hoptree.text.question_tree import Node, Plan

_PLANS, _CHECKS = "taikc", "treeqa"
"""The methods whose prompts split a question, and hold an answer against evidence."""
_ATTEMPTS = 2
"""Validations of a claim; between them the model is asked what else to search for."""

Do = Callable[[Question, Context], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Searched:
    """The passages that a search found."""

    result: Result
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Planned:
    """The sub-questions of a question."""

    result: Result
    plan: Plan | None


@dataclass(frozen=True, slots=True)
class Checked:
    """What evidence says of a claim; `passages` are all that were looked at."""

    result: Result
    verdict: Verdict
    passages: tuple[Passage, ...]


async def find_passages(engine: Engine, query: str, k: int, listeners: tuple[Listener, ...]) -> Searched:
    """The best passages of the engine's corpus, as a method would get them."""
    found: list[Passage] = []

    async def search(asked: Question, ctx: Context) -> Answer:
        found.extend(await ctx.search(asked.text, k=k))
        return Answer("", status="unknown", support=tuple(passage.id for passage in found))

    return Searched(await _doing(engine, "oner", search).ask(query, listeners=listeners), tuple(found))


async def make_plan_for(engine: Engine, question: str, listeners: tuple[Listener, ...]) -> Planned:
    """The tree of sub-questions that TAIKC would go through, with nothing of it answered."""
    careful = engine.method.name == _PLANS and bool(engine.options.get("robust"))
    made: list[Plan] = []

    async def plan(asked: Question, ctx: Context) -> Answer:
        shown = nearest(asked.text) if careful else fixed()
        made.append(await decompose_tree(ctx, asked.text, demonstrations=shown, mend_leaks=careful))
        return Answer("", status="unknown")

    result = await _doing(engine, _PLANS, plan).ask(question, listeners=listeners)
    return Planned(result, made[0] if made else None)


async def check_claim(engine: Engine, claim: str, question: str, listeners: tuple[Listener, ...]) -> Checked:
    """Hold a claim against the corpus and the graph as TreeQA does with a hypothesis.

    With a `question`, the claim is an answer to it; without one it is a statement of its own.
    """
    kinds: Kinds = "text" if engine.graph is None else "graph" if engine.retriever is None else "hybrid"
    asked, answer = (question, claim) if question else (f"Is it true that {claim.rstrip(' .')}?", "Yes")
    seen: list[tuple[Verdict, EvidenceBox]] = []

    async def check(whole: Question, ctx: Context) -> Answer:
        node = Node(1, asked)
        ctx.trace.add(
            "plan", nodes=[{"id": 1, "question": asked, "parent": None, "refs": [], "hypothesis": claim}], issues=[]
        )
        ctx.begin_node(node, asked)
        sources = Sources(ctx, kinds, PRESETS["paper"])
        query, box = whole.text, EvidenceBox()
        for attempt in range(1, _ATTEMPTS + 1):
            box = (await sources.retrieve(query, node)).over(box)
            verdict = _standing(await validate(ctx, asked, answer, box, attempt=attempt, node=node))
            seen.append((verdict, box))
            if verdict.label != "unknown" or attempt == _ATTEMPTS:
                break
            query = await new_clue(ctx, asked, answer, box, node=node)
            if not query:
                break
        support = tuple(passage.id for passage in verdict.cited.passages)
        said = Answer(verdict.label, source="external" if support or verdict.cited.facts else "none", support=support)
        ctx.end_node(node, said, hypothesis=claim, verdict=verdict.label, why=verdict.reason)
        return said

    statement = f"{question} {claim}" if question else claim
    result = await _doing(engine, _CHECKS, check).ask(statement, listeners=listeners)
    verdict, box = seen[-1] if seen else (Verdict(), EvidenceBox())
    return Checked(result, verdict if question else _of_statement(verdict), box.passages)


def _standing(verdict: Verdict) -> Verdict:
    """A verdict that rests on nothing but what is not there settles nothing."""
    if verdict.cited.fabricated and not (verdict.cited.passages or verdict.cited.facts):
        return Verdict(reason="it is said to rest on what is not there")
    return verdict


def _of_statement(verdict: Verdict) -> Verdict:
    """Whether a statement is so is no correction of it."""
    return replace(verdict, correction="") if read_yes_no(verdict.correction) is not None else verdict


def _doing(engine: Engine, prompts: str, do: Do) -> Engine:
    """The same model, corpus, graph, cache, limits and listeners, doing only this; the engine itself closes them."""
    whole = find_method(prompts)
    part = copy.copy(engine)
    part.method = Method(whole.name, whole.title, do, options=(), needs=whole.needs, roles=whole.roles)
    part.options = {}
    return part
