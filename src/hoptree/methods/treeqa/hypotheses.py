"""TreeQA's prompts: build and rebuild the logic tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hoptree.engine.context import Context
from hoptree.engine.events import PlanRepaired
from hoptree.engine.prompts import prompt_for
from hoptree.engine.schedule import together
from hoptree.methods.steps import logic_tree
from hoptree.methods.steps.answer import direct_answer, note_reply
from hoptree.methods.steps.decompose import ask_twice
from hoptree.methods.steps.evidence_box import EvidenceBox, Verdict
from hoptree.methods.steps.logic_tree import MAX_DEPTH, MAX_NODES, Claim, LogicTree
from hoptree.text.comparison import agree, same
from hoptree.text.grounding import parts_of
from hoptree.text.loose_json import read_json
from hoptree.text.parse import question_key, read_questions, says_unknown
from hoptree.text.question_tree import Issue, Node

_BUILD_TOKENS, _EXPAND_TOKENS, _REBUILD_TOKENS = 2048, 384, 1024
_EXTRA_LEVELS = 1  # levels that a rebuilt tree may have more than the one it replaces


async def build_tree(ctx: Context, question: str, *, recursive: bool) -> LogicTree:
    """BuildLogicTree: a tree with hypotheses and a draft (Algorithm 1), the question itself at least."""
    if recursive:
        tree = await _build_recursively(ctx, question)
    else:
        prompt = prompt_for(ctx.method, "build").fill(question=question)
        *_, tree = await ask_twice(ctx, "build", prompt, lambda value: _read(value, question), tokens=_BUILD_TOKENS)
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
    """Fill in missing hypotheses, by the questions they answer."""
    return tuple(
        Claim(claim.question, claim.hypothesis or known.get(claim.question, ""), _complete(claim.children, known))
        for claim in claims
    )


def _read(value: object, question: str) -> tuple[LogicTree, str]:
    tree = logic_tree.read_tree(value, question)
    return tree, "" if tree.children else "it holds no sub-question"


@dataclass(slots=True)
class _Growing:
    """A node whose hypothesis and sub-questions are being asked for."""

    question: str
    depth: int
    above: frozenset[str]
    hypothesis: str = ""
    children: list[_Growing] = field(default_factory=list)

    def claim(self) -> Claim:
        return Claim(self.question, self.hypothesis, tuple(child.claim() for child in self.children))


async def _build_recursively(ctx: Context, question: str) -> LogicTree:
    """Expand node by node, a level at once, until nothing is left (Algorithm 1)."""
    root = _Growing(question, 0, frozenset())
    issues: list[Issue] = []
    level, count = [root], 0
    while level:
        replies = await together(_expand(ctx, node.question) for node in level)
        for node, (hypothesis, questions) in zip(level, replies, strict=True):
            node.hypothesis = hypothesis
            above = node.above | {question_key(node.question)}
            new = [asked for asked in questions if question_key(asked) not in above] if node.depth < MAX_DEPTH else []
            if len(new) > MAX_NODES - count:
                issues.append(Issue("cap_nodes", 0, f"{len(new) - MAX_NODES + count} nodes beyond {MAX_NODES} dropped"))
            node.children = [_Growing(asked, node.depth + 1, above) for asked in new[: MAX_NODES - count]]
            count += len(node.children)
        level = [child for node in level for child in node.children]
    return LogicTree(root.claim().children, root.hypothesis, tuple(issues))


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
    text_of = logic_tree.text_of
    texts = [text_of(item) for item in listed] if isinstance(listed, list) else read_questions(text_of(listed))
    return next(filter(None, hypotheses), ""), list(dict.fromkeys(filter(None, texts)))


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What replaces a refuted node, with issues, and whether evidence says so."""

    claim: Claim
    issues: tuple[str, ...] = ()
    borne_out: bool = True


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
    borne_out = True
    if claim is None:
        kinds.append("rebuild_unreadable")
        claim = Claim(refuted.question, correction)
    elif question_key(claim.hypothesis) == question_key(refuted.hypothesis):
        kinds.append("rebuild_noop")
        claim = replace(claim, hypothesis=correction, children=())
    else:
        borne_out = _borne_out(claim, refuted, verdict, box)
        kinds += [] if borne_out else ["rebuild_unsaid"]
    for kind in kinds:
        ctx.emit(PlanRepaired(kind=kind, node=node.id, detail=f"in the tree rebuilt for: {refuted.question}"))
    return Rebuilt(claim, tuple(kinds), borne_out) if claim.hypothesis else None


def _borne_out(claim: Claim, refuted: Claim, verdict: Verdict, box: EvidenceBox) -> bool:
    """Return whether evidence or verdict says the new hypothesis."""
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
