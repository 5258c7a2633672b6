"""TreeQA: a tree of hypotheses, validated against a knowledge graph and text, and rebuilt where they are refuted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from hoptree.errors import ConfigError
from hoptree.methods.registry import method
from hoptree.methods.treeqa_evidence import PRESETS, Sources
from hoptree.methods.treeqa_nodes import Branch, Outcome, Processing
from hoptree.methods.treeqa_walk import Traversal, Walk, hang, written
from hoptree.runtime.context import Context
from hoptree.runtime.schedule import together
from hoptree.steps.answer import direct_answer, synthesise
from hoptree.steps.build import build_recursively, build_tree, complete
from hoptree.steps.evidence_box import EvidenceBox
from hoptree.steps.logic_tree import Claim, LogicTree
from hoptree.tree import Issue, Node
from hoptree.values import Answer, Question

__all__ = ["treeqa"]


@method(
    "treeqa",
    title="Logic tree of validated hypotheses",
    paper="TreeQA",
    needs=("corpus", "graph"),
    iterative=True,
    dynamic=True,
    strategy="Hypotheses that evidence refutes or leaves open",
    query="Sub-questions with their hypotheses, then new clues",
    roles=("decompose", "link", "verify", "answer"),
)
async def treeqa(
    question: Question,
    ctx: Context,
    *,
    max_attempts: int = 2,
    reason: Literal["inline", "separate"] = "inline",
    query: Literal["dual", "question"] = "dual",
    traversal: Traversal = "serial",
    evidence: Literal["hybrid", "graph", "text"] = "hybrid",
    preset: Literal["paper", "code"] = "paper",
    correct: bool = True,
    recursive: bool = False,
) -> Answer:
    """Guess the answers of a tree of sub-questions, hold each against graph and text, and rebuild what is refuted.

    `max_attempts` are validations of a node; between them the model is asked for a new clue. `reason` has the conflict
    told with the verdict or in a call of its own, `query` searches with the hypothesis or without it, as the paper's
    text and its algorithms differ there. `traversal` validates node by node, the nodes of a level at once, or all nodes
    at once, where those below a refuted one are done again; the tree is the same. `evidence` is where to look, `preset`
    how many entities, relations and passages are kept (3, 3, 3 or 2, 1, 2). With `correct` off the answer is the draft
    that comes with the tree, the paper's ablation. `recursive` builds the tree node by node (Algorithm 1).
    """
    if max_attempts < 1:
        raise ConfigError("A hypothesis cannot be validated 0 times.", "Set max_attempts=1 or more, or correct=off.")
    sources = Sources(ctx, evidence, PRESETS[preset])
    if correct:
        sources.require()
    tree = await _build(ctx, question.text, recursive=recursive)
    root = Branch(Node(0, question.text, depth=0), tree.draft, hang(tree.children, Node(0, "", depth=0), first=1))
    _announce(ctx, root, tree)
    draft = Answer(tree.draft, tree.draft, "answered" if tree.draft else "unknown", "internal")
    if not correct:
        ctx.end_node(root.node, draft, hypothesis=tree.draft)
        return draft
    ctx.propose(replace(draft, source="fallback"), order=0)  # for a budget that ends before anything is concluded
    process = Processing(ctx, question.text, sources, max_attempts=max_attempts, reason=reason, query=query)
    walk = Walk(ctx, process, root.children)
    await walk.go(traversal)
    answer = await synthesise(ctx, question.text, list(_told(ctx, walk.tops, walk.outcomes)), prompt="final")
    support = dict.fromkeys(one.id for outcome in walk.outcomes.values() for one in outcome.verdict.cited.passages)
    answer = replace(answer, support=tuple(support))
    ctx.end_node(root.node, answer, hypothesis=tree.draft, fixes=walk.fixes, validations=walk.validations)
    return answer if answer.known else replace(answer, text="")


async def _build(ctx: Context, question: str, *, recursive: bool) -> LogicTree:
    """The tree with a hypothesis for every node; one without any node is the question itself, answered from memory."""
    tree = await build_recursively(ctx, question) if recursive else await build_tree(ctx, question)
    if not tree.children:
        ctx.warn("build_failed", "The model's tree could not be read; the question was validated as one piece.")
        issue = Issue("build_failed", 0, "no tree in the reply; the question is its own node")
        tree = replace(tree, children=(Claim(question, tree.draft),), issues=(*tree.issues, issue))
    missing = [one.question for top in tree.children for one in top.all() if not one.hypothesis]
    if missing:
        guesses = await together(direct_answer(ctx, one) for one in dict.fromkeys(missing))
        known = {one: guess.text for one, guess in zip(dict.fromkeys(missing), guesses, strict=True) if guess.known}
        issue = Issue("hypothesis_empty", 0, f"{len(missing)} hypotheses were asked for one by one")
        tree = replace(complete(tree, known), issues=(*tree.issues, issue))
    if not tree.draft and tree.children[0].question == question:
        tree = replace(tree, draft=tree.children[0].hypothesis)
    return tree


def _announce(ctx: Context, root: Branch, tree: LogicTree) -> None:
    ctx.trace.add(
        "plan",
        nodes=[written(branch) for branch in (root, *root.below())],
        issues=[{"kind": issue.kind, "node": issue.node, "detail": issue.detail} for issue in tree.issues],
    )


def _told(ctx: Context, branches: list[Branch], outcomes: dict[int, Outcome], indent: str = "") -> Iterator[str]:
    """The golden tree in words: what was asked, what is the answer, how sure that is, and what it rests on."""
    for branch in branches:
        outcome = outcomes[branch.node.id]
        cited = outcome.verdict.cited
        yield f"{indent}- {branch.node.question}"
        yield f"{indent}  Answer: {branch.hypothesis or 'unknown'} ({_sure(outcome)})"
        texts, facts = EvidenceBox(cited.passages, cited.facts).shown(ctx)
        for there, shown in ((cited.passages, texts), (cited.facts, facts)):
            yield from (f"{indent}  {line}" for line in shown.splitlines() if there)
        yield from _told(ctx, branch.children, outcomes, indent + "  ")


def _sure(outcome: Outcome) -> str:
    if outcome.rebuilt:
        return "corrected by evidence"
    if outcome.label == "refuted":
        return f"refuted by evidence: {outcome.verdict.reason}"
    return "supported by evidence" if outcome.label == "supported" else "not verified"
