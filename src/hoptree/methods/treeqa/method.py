"""TreeQA: a tree of hypotheses, validated against a knowledge graph and text, and rebuilt where they are refuted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from hoptree.core.errors import ConfigError
from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import method
from hoptree.engine.schedule import both, together
from hoptree.graph.linking.mention_models import parse_linker, shared_mention_model
from hoptree.methods.steps.answer import direct_answer, synthesise
from hoptree.methods.steps.logic_tree import Claim, LogicTree
from hoptree.methods.steps.relations import BySharedEncoder
from hoptree.methods.treeqa.hypotheses import build_recursively, build_tree, complete
from hoptree.methods.treeqa.nodes import PRESETS, Branch, Processing, Sources, told, unmarked
from hoptree.methods.treeqa.robust import Careful, align_ancestors, revise_siblings
from hoptree.methods.treeqa.robust_lists import Listed, conclude, intersect, read_own, told_as_guess
from hoptree.methods.treeqa.walk import MAX_VALIDATIONS, Traversal, Walk, hang, written
from hoptree.text.question_tree import Issue, Node

_ENCODER = "minilm"
_DRAFT = "the answer is the draft, which nothing was held against"


def _dense(options: Mapping[str, Any]) -> bool:
    """Whether an encoder says which relations matter; where no graph is asked, none does."""
    return bool(options["relations"] == "dense" and options["correct"] and options["evidence"] != "text")


def _uses(options: Mapping[str, Any]) -> dict[str, str]:
    return {"encoder": BySharedEncoder(_ENCODER).identity} if _dense(options) else {}


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
    beyond=("robust",),
    uses=_uses,
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
    linker: str = "",
    relations: Literal["llm", "dense"] = "llm",
    correct: bool = True,
    recursive: bool = False,
    robust: bool = False,
) -> Answer:
    """Guess the answers of a tree of sub-questions, hold each against graph and text, and rebuild what is refuted.

    `max_attempts` are validations of a node; between them the model is asked for a new clue. `reason` has the conflict
    told with the verdict or in a call of its own, `query` searches with the hypothesis or without it, as the paper's
    text and its algorithms differ there. `traversal` validates node by node, the nodes of a level at once (which spends
    what repair may cost in another order), or all nodes at once, where those below a refuted one are done again and the
    tree is the same as node by node. `evidence` is where to look, `preset` how many entities, relations and passages
    are kept (3, 3, 3 or 2, 1, 2) and nothing else. Names are looked for by the words of a query and by what the model
    reads out of it; a `linker` (gliner:FOLDER or relik:FOLDER) marks them in the place of the words. The model says
    which `relations` matter, or the encoder minilm does (dense). With `correct` off the answer is the draft that comes
    with the tree, the paper's ablation, where `robust` has no effect. `recursive` builds the tree node by node
    (Algorithm 1).

    `robust` goes beyond the paper: what fulfils several conditions is found by intersecting candidates; texts and
    facts are heard apart and weighed where they differ; evidence is searched for without the hypothesis too, and
    what it mentions is followed, with one more validation, before a clue is asked for; a correction counts only where
    evidence has it beside a name of its question; a refuted name is replaced in what is below before anything is
    rebuilt, in siblings that name it too, and what is then asked anew is answered from evidence; unverified nodes
    above are brought in line; comparisons are made in code; and the last word has the surest of four readings, three
    of passages and one of the tree, which is read if evidence bears it out and those of passages differ. An answer
    that the passages read do not hold, or that is put together from a tree with unverified nodes, is called a guess,
    in a warning and at the root of the tree. `reason` and `query` have no say in it, `relations` none in what is
    followed. What evidence holds is told by words in one piece: a name of which words are left out, or cut to initials,
    is not found there. Texts and facts are judged in a call each, and in a third where they differ, which all count as
    one validation.
    """
    if correct and max_attempts < 1:
        raise ConfigError("A hypothesis cannot be validated 0 times.", "Set max_attempts=1 or more, or correct=off.")
    dense = _dense({"relations": relations, "correct": correct, "evidence": evidence})
    ranking = BySharedEncoder(_ENCODER) if dense else None
    if linker:
        parse_linker(linker)
    reader = shared_mention_model(linker) if linker and correct else None
    sources = Sources(ctx, evidence, PRESETS[preset], reader=reader, ranking=ranking)
    if correct:
        sources.require()
    elif robust:
        ctx.warn("no_effect", "With correct=off the answer is the draft: robust=on changes nothing.")
    careful = Careful(ctx, question.text, sources, max_attempts=max_attempts, evidence=evidence) if robust else None
    own: list[Answer] = []
    listed = Listed()
    if careful and correct:
        listed = await intersect(ctx, question.text, careful, most=MAX_VALIDATIONS)
        if listed.answer:
            return listed.answer
        tree, own = await both(
            _build(ctx, question.text, recursive=recursive, guess=False), read_own(ctx, question.text, evidence)
        )
    else:
        tree = await _build(ctx, question.text, recursive=recursive)
    root = Branch(Node(0, question.text, depth=0), tree.draft, hang(tree.children, Node(0, "", depth=0), first=1))
    _announce(ctx, root, tree)
    draft = Answer(tree.draft, tree.draft, "answered" if tree.draft else "unknown", "internal")
    if not correct:
        ctx.end_node(root.node, draft, hypothesis=tree.draft)
        return draft
    # For a budget that ends before anything is concluded.
    ctx.propose(replace(draft, source="fallback"), order=0, told=_DRAFT)
    paper = Processing(ctx, question.text, sources, max_attempts=max_attempts, reason=reason, query=query)
    walk = Walk(ctx, careful or paper, root.children)
    walk.validations = listed.validations  # one cap for both
    await walk.go(traversal)
    if careful:
        await revise_siblings(ctx, walk, question.text)
        await align_ancestors(ctx, walk, question.text)
        answer = await conclude(ctx, question.text, walk, own)
    else:
        found = list(told(ctx, walk.tops, walk.outcomes))
        answer = unmarked(await synthesise(ctx, question.text, found, prompt="final"))
        cited = dict.fromkeys(one.id for outcome in walk.outcomes.values() for one in outcome.verdict.cited.passages)
        answer = replace(answer, support=tuple(dict.fromkeys([*cited, *answer.support])))
        answer = told_as_guess(ctx, walk, answer)
    # What is cited was cited for other answers than a guess.
    shown = replace(answer, support=()) if answer.source == "fallback" else answer
    ctx.end_node(root.node, shown, hypothesis=tree.draft, fixes=walk.fixes, validations=walk.validations)
    return answer


async def _build(ctx: Context, question: str, *, recursive: bool, guess: bool = True) -> LogicTree:
    """The tree with a hypothesis for every node; one without any node is the question itself, answered from memory.

    Without `guess`, nodes that came without a hypothesis stay so.
    """
    tree = await build_recursively(ctx, question) if recursive else await build_tree(ctx, question)
    if not tree.children:
        ctx.warn("build_failed", "The model's tree could not be read; the question was validated as one piece.")
        issue = Issue("build_failed", 0, "no tree in the reply; the question is its own node")
        tree = replace(tree, children=(Claim(question, tree.draft),), issues=(*tree.issues, issue))
    missing = [one.question for top in tree.children for one in top.all() if not one.hypothesis]
    if missing and guess:
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
