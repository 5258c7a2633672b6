"""TreeQA's tree: build it with hypotheses, and rebuild what is refuted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hoptree.engine.context import Context
from hoptree.engine.events import PlanRepaired
from hoptree.engine.prompts import prompt_for
from hoptree.engine.schedule import plan_row, together
from hoptree.methods.steps import logic_tree
from hoptree.methods.steps.answer import direct_answer, note_reply
from hoptree.methods.steps.decompose import ask_twice
from hoptree.methods.steps.evidence_box import EvidenceBox, Verdict
from hoptree.methods.steps.logic_tree import MAX_DEPTH, MAX_NODES, Claim, LogicTree, first_claims, text_of
from hoptree.text.comparison import agree, same
from hoptree.text.grounding import parts_of
from hoptree.text.loose_json import read_json
from hoptree.text.parse import question_key, read_questions, says_unknown
from hoptree.text.question_tree import Issue, Node

_BUILD_TOKENS, _EXPAND_TOKENS, _REBUILD_TOKENS = 2048, 384, 1024
_EXTRA_LEVELS = 1  # levels that a rebuilt tree may have more than the one it replaces
_CHILD_IDS = 100  # ids reserved below a rebuilt node: more than there are nodes
Key = tuple[int, Claim]  # the outcome of a node also depends on the claims below it, which a cap may cut


@dataclass(slots=True)
class Branch:
    """A node with its current hypothesis and the branches below it."""

    node: Node
    hypothesis: str
    children: list[Branch] = field(default_factory=list)

    @property
    def claim(self) -> Claim:
        return Claim(self.node.question, self.hypothesis, tuple(child.claim for child in self.children))

    @property
    def key(self) -> Key:
        return self.node.id, self.claim

    def as_plan_node(self) -> dict[str, Any]:
        return {**plan_row(self.node), "hypothesis": self.hypothesis}


def to_branches(claims: Iterable[Claim], parent: Node, *, first: int) -> list[Branch]:
    """Turn claims into branches under a node, numbered in pre-order."""
    branches = []
    for claim in claims:
        branch = Branch(Node(first, claim.question, parent.id, parent.depth + 1), claim.hypothesis)
        branch.children = to_branches(claim.children, branch.node, first=first + 1)
        branches.append(branch)
        first += claim.size
    return branches


def branches_below(branch: Branch, claims: tuple[Claim, ...], room: int) -> list[Branch]:
    """Turn the first claims into branches below a rebuilt node."""
    return to_branches(first_claims(claims, room), branch.node, first=_CHILD_IDS * branch.node.id + 1)


def flatten(branches: Iterable[Branch]) -> list[Branch]:
    """Return all branches, each before those below it."""
    return [below for branch in branches for below in (branch, *flatten(branch.children))]


async def build_tree(ctx: Context, question: str, *, recursive: bool) -> LogicTree:
    """BuildLogicTree: ask for a tree with hypotheses and a draft (Algorithm 1).

    Without a readable tree, the question itself is its only node.
    """
    if recursive:
        tree = await _build_recursively(ctx, question)
    else:
        prompt = prompt_for(ctx.method, "build").fill(question=question)

        def read(value: object) -> tuple[LogicTree, str]:
            tree = logic_tree.read_tree(value, question)
            return tree, "" if tree.children else "it holds no sub-question"

        *_, tree = await ask_twice(ctx, "build", prompt, read, tokens=_BUILD_TOKENS)
    if not tree.children:
        ctx.warn("build_failed", "The model's tree could not be read; the question was validated as one piece.")
        issue = Issue("build_failed", 0, "no tree in the reply; the question is its own node")
        tree = replace(tree, children=(Claim(question, tree.draft),), issues=(*tree.issues, issue))
    missing = [claim.question for top in tree.children for claim in top.all() if not claim.hypothesis]
    if missing:
        asked = list(dict.fromkeys(missing))
        answers = await together(direct_answer(ctx, question) for question in asked)
        known = {question: answer.text for question, answer in zip(asked, answers, strict=True) if answer.known}
        issue = Issue("hypothesis_empty", 0, f"{len(missing)} hypotheses were asked for one by one")
        tree = replace(tree, children=_complete(tree.children, known), issues=(*tree.issues, issue))
    if not tree.draft and tree.children[0].question == question:
        tree = replace(tree, draft=tree.children[0].hypothesis)
    return tree


def _complete(claims: tuple[Claim, ...], known: Mapping[str, str]) -> tuple[Claim, ...]:
    """Fill in missing hypotheses by their questions."""
    return tuple(
        Claim(claim.question, claim.hypothesis or known.get(claim.question, ""), _complete(claim.children, known))
        for claim in claims
    )


async def _build_recursively(ctx: Context, question: str) -> LogicTree:
    """Expand node by node, a level at once, until nothing is left (Algorithm 1)."""
    root, count = Branch(Node(0, question, depth=0), ""), 0
    issues: list[Issue] = []
    level: list[tuple[Branch, frozenset[str]]] = [(root, frozenset())]  # each with the questions above it
    while level:
        replies = await together(_expand(ctx, branch.node.question) for branch, _ in level)
        below: list[tuple[Branch, frozenset[str]]] = []
        for (branch, before), (hypothesis, questions) in zip(level, replies, strict=True):
            branch.hypothesis, depth = hypothesis, branch.node.depth
            above = before | {question_key(branch.node.question)}
            new = [asked for asked in questions if question_key(asked) not in above] if depth < MAX_DEPTH else []
            if len(new) > MAX_NODES - count:
                issues.append(Issue("cap_nodes", 0, f"{len(new) - MAX_NODES + count} nodes beyond {MAX_NODES} dropped"))
            branch.children = [Branch(Node(0, asked, depth=depth + 1), "") for asked in new[: MAX_NODES - count]]
            count += len(branch.children)
            below += [(child, above) for child in branch.children]
        level = below
    return LogicTree(root.claim.children, root.hypothesis, tuple(issues))


async def _expand(ctx: Context, question: str) -> tuple[str, Sequence[str]]:
    """Ask for the hypothesis of a question and the sub-questions below it."""
    prompt = prompt_for(ctx.method, "expand").fill(question=question)
    reading = read_json((await ctx.generate("expand", prompt, role="decompose", max_tokens=_EXPAND_TOKENS)).text)
    note_reply(ctx, "expand", reading.error, reading.repairs)
    value = reading.value
    if not isinstance(value, Mapping):
        return "", ()
    hypotheses = (logic_tree.answer_of(item, question) for name, item in value.items() if "hypo" in name.casefold())
    listed: object = next((item for name, item in value.items() if "sub" in name.casefold() or name == "children"), [])
    texts = [text_of(item) for item in listed] if isinstance(listed, list) else read_questions(text_of(listed))
    return next(filter(None, hypotheses), ""), list(dict.fromkeys(filter(None, texts)))


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The claim that replaces a refuted one, issues, and whether evidence supports it."""

    claim: Claim
    issues: tuple[str, ...] = ()
    supported: bool = True


async def rebuild(
    ctx: Context, question: str, refuted: Claim, verdict: Verdict, box: EvidenceBox, *, node: Node
) -> Rebuilt | None:
    """RebuildSubtree: ask for the sub-tree anew, or take the correction."""
    texts, facts = box.shown(ctx)
    prompt = prompt_for(ctx.method, "rebuild").fill(
        whole=question,
        subtree=refuted.as_json(),
        reason=verdict.reason or "The evidence contradicts the hypothesis.",
        correction=verdict.correction or "(see the reason)",
        texts=texts,
        facts=facts,
    )
    levels = min(refuted.levels + _EXTRA_LEVELS, MAX_DEPTH - node.depth + 1)

    def read(value: object) -> tuple[tuple[Claim | None, list[str]], str]:
        claim, issues = logic_tree.read_subtree(value, refuted, levels=levels)
        return (claim, [issue.kind for issue in issues]), "" if claim else "a node needs both of its texts"

    *_, (claim, kinds) = await ask_twice(ctx, "rebuild", prompt, read, tokens=_REBUILD_TOKENS, node=node)
    correction = verdict.correction or ("" if _tells_nothing(verdict.reason, refuted) else verdict.reason)
    if same(correction, refuted.hypothesis):
        correction = ""
    supported = True
    if claim is None:
        kinds.append("rebuild_unreadable")
        claim = Claim(refuted.question, correction)
    elif question_key(claim.hypothesis) == question_key(refuted.hypothesis):
        kinds.append("rebuild_noop")
        claim = replace(claim, hypothesis=correction, children=())
    else:
        supported = _is_supported(claim, refuted, verdict, box)
        kinds += [] if supported else ["rebuild_unsaid"]
    for kind in kinds:
        ctx.emit(PlanRepaired(kind=kind, node=node.id, detail=f"in the tree rebuilt for: {refuted.question}"))
    return Rebuilt(claim, tuple(kinds), supported) if claim.hypothesis else None


def _is_supported(claim: Claim, refuted: Claim, verdict: Verdict, box: EvidenceBox) -> bool:
    """Return whether the evidence or the verdict states the new hypothesis."""
    if verdict.correction and _says(claim.hypothesis, verdict.correction):
        return True
    if verdict.correction and question_key(claim.question) == question_key(refuted.question):
        return False
    in_reason = not verdict.correction and _says(claim.hypothesis, verdict.reason)
    return in_reason or bool(box.supporting(claim.hypothesis, claim.question))


def _tells_nothing(reason: str, refuted: Claim) -> bool:
    """Return whether a reason only says that nothing is known."""
    known = f" {question_key(f'{refuted.question} {refuted.hypothesis}')} "
    named = map(question_key, parts_of(reason.partition(" ")[2]))
    return says_unknown(reason) and all(f" {name} " in known for name in named)


def _says(hypothesis: str, correction: str) -> bool:
    """Return whether all names and dates of a hypothesis are in a correction."""
    parts = parts_of(hypothesis)
    return agree(hypothesis, correction) or (
        bool(parts) and all(any(agree(part, other) for other in parts_of(correction)) for part in parts)
    )
