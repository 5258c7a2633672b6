"""Building the logic tree of a question: in one call, or node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.engine.schedule import together
from hoptree.methods.steps.agreement import agree, same
from hoptree.methods.steps.evidence_box import NOTHING, EvidenceBox
from hoptree.methods.steps.logic_tree import (
    MAX_DEPTH,
    MAX_NODES,
    Claim,
    LogicTree,
    answer_of,
    read_subtree,
    read_tree,
    text_of,
)
from hoptree.methods.steps.reply_notes import note_reply
from hoptree.methods.steps.verify import Verdict
from hoptree.text.grounding import parts_of
from hoptree.text.loose_json import read_json
from hoptree.text.parse import clean_answer, question_key, read_questions, says_unknown
from hoptree.text.question_tree import Issue, Node

MAX_TOKENS = 2048
EXPAND_TOKENS = 384


async def build_tree(ctx: Context, question: str) -> LogicTree:
    """The whole tree with a hypothesis for every node and a draft answer; asked for once more if there is none in it.

    No children mean that the second reply holds none either.
    """
    prompt = prompt_for(ctx.method, "build").fill(question=question)
    tree = LogicTree()
    for _ in range(2):
        reply = (await ctx.generate("build", prompt, role="decompose", max_tokens=MAX_TOKENS)).text
        reading = read_json(reply)
        ctx.trace.add("parse", step="build", ok=reading.ok, repairs=list(reading.repairs), error=reading.error)
        tree = read_tree(reading.value, question)
        if tree.children:
            break
        wrong = f"it is not valid JSON ({reading.error})" if not reading.ok else "it holds no sub-question"
        prompt = prompt.follow_up(reply, f"That cannot be used: {wrong}. Write the whole JSON again, corrected.")
    return tree


@dataclass(slots=True)
class _Growing:
    """A node whose hypothesis and sub-questions are being asked for; the question itself is at depth 0."""

    question: str
    depth: int
    above: frozenset[str]
    hypothesis: str = ""
    children: list[_Growing] = field(default_factory=list)

    def claim(self) -> Claim:
        return Claim(self.question, self.hypothesis, tuple(child.claim() for child in self.children))


async def build_recursively(ctx: Context, question: str) -> LogicTree:
    """Algorithm 1: hypothesis and sub-questions node by node, until a question needs none; all of a level at once."""
    root = _Growing(question, 0, frozenset())
    issues: list[Issue] = []
    level, count = [root], 0
    while level:
        replies = await together(_expand(ctx, one.question) for one in level)
        for one, (hypothesis, questions) in zip(level, replies, strict=True):
            one.hypothesis = hypothesis
            above = one.above | {question_key(one.question)}
            new = [asked for asked in questions if question_key(asked) not in above] if one.depth < MAX_DEPTH else []
            if len(new) > MAX_NODES - count:
                issues.append(Issue("cap_nodes", 0, f"{len(new) - MAX_NODES + count} nodes beyond {MAX_NODES} dropped"))
            one.children = [_Growing(asked, one.depth + 1, above) for asked in new[: MAX_NODES - count]]
            count += len(one.children)
        level = [child for one in level for child in one.children]
    return LogicTree(root.claim().children, root.hypothesis, tuple(issues))


async def _expand(ctx: Context, question: str) -> tuple[str, Sequence[str]]:
    """A hypothesis for one question, and the sub-questions it rests on; none for what one fact answers."""
    prompt = prompt_for(ctx.method, "expand").fill(question=question)
    reply = (await ctx.generate("expand", prompt, role="decompose", max_tokens=EXPAND_TOKENS)).text
    reading = read_json(reply)
    ctx.trace.add("parse", step="expand", ok=reading.ok, repairs=list(reading.repairs), error=reading.error)
    value = reading.value
    if not isinstance(value, Mapping):
        return "", ()
    hypothesis = next(
        (text for name, said in value.items() if "hypo" in name.casefold() and (text := answer_of(said, question))), ""
    )
    listed: object = next((said for name, said in value.items() if "sub" in name.casefold() or name == "children"), [])
    texts = [text_of(item) for item in listed] if isinstance(listed, list) else read_questions(text_of(listed))
    return hypothesis, list(dict.fromkeys(filter(None, texts)))


def complete(tree: LogicTree, hypotheses: Mapping[str, str]) -> LogicTree:
    """The tree with hypotheses where it had none, by the questions they answer."""

    def filled(claim: Claim) -> Claim:
        hypothesis = claim.hypothesis or hypotheses.get(claim.question, "")
        return replace(claim, hypothesis=hypothesis, children=tuple(map(filled, claim.children)))

    return replace(tree, children=tuple(map(filled, tree.children)))


MAX_TOKENS_REBUILD = 1024
_DEEPER = 1
"""Levels that a rebuilt tree may have more than the one it replaces."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What takes the place of a refuted node and all below it, and what had to be repaired.

    `borne_out` is whether the evidence, or what was read in it as right, says what the new hypothesis says: a model may
    write anything there.
    """

    claim: Claim
    issues: tuple[str, ...] = ()
    borne_out: bool = True


async def rebuild(
    ctx: Context, whole: str, refuted: Claim, verdict: Verdict, box: EvidenceBox, *, node: Node
) -> Rebuilt | None:
    """Ask for the sub-tree anew, given why its hypothesis is wrong; once more if the reply holds none.

    Where that fails too, or the refuted hypothesis comes again, the node has what the reason says, and no children.
    None where that is nothing, or the refuted hypothesis once more.
    """
    texts, facts = box.shown(ctx)
    prompt = prompt_for(ctx.method, "rebuild").fill(
        whole=whole,
        subtree=refuted.as_json(),
        reason=verdict.reason or "The evidence contradicts the hypothesis.",
        correction=verdict.correction or "(see the reason)",
        texts=texts,
        facts=facts,
    )
    levels = min(refuted.levels + _DEEPER, MAX_DEPTH - node.depth + 1)
    claim: Claim | None = None
    issues: tuple[Issue, ...] = ()
    for _ in range(2):
        reply = (await ctx.generate("rebuild", prompt, role="decompose", max_tokens=MAX_TOKENS_REBUILD, node=node)).text
        reading = read_json(reply)
        ctx.trace.add("parse", step="rebuild", ok=reading.ok, repairs=list(reading.repairs), error=reading.error)
        claim, issues = read_subtree(reading.value, refuted, levels=levels)
        if claim is not None:
            break
        wrong = f"it is not valid JSON ({reading.error})" if not reading.ok else "a node needs both of its texts"
        prompt = prompt.follow_up(reply, f"That cannot be used: {wrong}. Write the whole JSON again, corrected.")
    return _settled(ctx, refuted, claim, verdict, box, issues, node)


def _settled(
    ctx: Context,
    refuted: Claim,
    claim: Claim | None,
    verdict: Verdict,
    box: EvidenceBox,
    issues: tuple[Issue, ...],
    node: Node,
) -> Rebuilt | None:
    kinds = [issue.kind for issue in issues]
    right = verdict.correction or ("" if _tells_nothing(verdict.reason, refuted) else verdict.reason)
    if same(right, refuted.hypothesis):
        right = ""
    borne_out = True
    if claim is None:
        kinds.append("rebuild_unreadable")
        claim = Claim(refuted.question, right)
    elif question_key(claim.hypothesis) == question_key(refuted.hypothesis):
        kinds.append("rebuild_noop")
        claim = replace(claim, hypothesis=right, children=())
    else:
        borne_out = _borne_out(claim, refuted, verdict, box)
        if not borne_out:
            kinds.append("rebuild_unsaid")
    for kind in kinds:
        ctx.trace.add("plan_issue", kind=kind, node=node.id, detail=f"in the tree rebuilt for: {refuted.question}")
    return Rebuilt(claim, tuple(kinds), borne_out) if claim.hypothesis else None


def _borne_out(claim: Claim, refuted: Claim, verdict: Verdict, box: EvidenceBox) -> bool:
    """Whether a new hypothesis says what was read in the evidence as right; of another question, what is found there.

    Where a reply does not tell what is right, it must stand in its reason, or in the evidence.
    """
    if verdict.correction and _says(claim.hypothesis, verdict.correction):
        return True
    if verdict.correction and question_key(claim.question) == question_key(refuted.question):
        return False
    said = not verdict.correction and _says(claim.hypothesis, verdict.reason)
    return said or bool(box.supporting(claim.hypothesis, claim.question))


def _tells_nothing(reason: str, refuted: Claim) -> bool:
    """Whether a reason says that nothing is known, and names nothing that was not named before."""
    known = f" {question_key(f'{refuted.question} {refuted.hypothesis}')} "
    named = map(question_key, parts_of(reason.partition(" ")[2]))
    return says_unknown(reason) and all(f" {name} " in known for name in named)


def _says(hypothesis: str, right: str) -> bool:
    """Whether two texts agree, or all names and dates of a hypothesis are among those of what is right."""
    parts = parts_of(hypothesis)
    return agree(hypothesis, right) or (
        bool(parts) and all(any(agree(part, one) for one in parts_of(right)) for part in parts)
    )


MAX_TOKENS_CLUE = 128
_MAX_CLUE = 300
_NAMES = ("new_clue", "clue", "newclue", "query", "search")


def read_clue(text: str) -> str:
    """The clue in a reply: the value in its JSON, never the JSON itself; else its first line."""
    value = read_json(text).value
    if isinstance(value, list):
        value = next((item for item in value if item), "")
    if isinstance(value, Mapping):
        folded = {str(key).strip().casefold().replace(" ", "_"): item for key, item in value.items()}
        named = next((folded[name] for name in _NAMES if folded.get(name)), None)
        value = named if named is not None else next(iter(folded.values()), "") if len(folded) == 1 else ""
    if value is not None:
        return text_of(value)[:_MAX_CLUE]
    line = clean_answer(text)
    return "" if line[:1] in ("{", "[") else text_of(line)[:_MAX_CLUE]


async def new_clue(ctx: Context, question: str, hypothesis: str, box: EvidenceBox, *, node: Node | None = None) -> str:
    """Something new to search for, given what was found in vain; "" where the reply holds nothing."""
    texts, facts = box.shown(ctx)
    prompt = prompt_for(ctx.method, "clue").fill(
        question=question, hypothesis=hypothesis or NOTHING, texts=texts, facts=facts
    )
    reply = (await ctx.generate("clue", prompt, role="verify", max_tokens=MAX_TOKENS_CLUE, node=node)).text
    clue = read_clue(reply)
    note_reply(ctx, "clue", "" if clue else "no clue")
    ctx.decide("clue", clue, node=node)
    return clue
