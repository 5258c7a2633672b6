"""Rebuilding what rests on a refuted hypothesis."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.steps.hypotheses.agreement import agree, same
from hoptree.steps.hypotheses.evidence_box import EvidenceBox
from hoptree.steps.hypotheses.logic_tree import MAX_DEPTH, Claim, read_subtree
from hoptree.steps.hypotheses.substitution import parts_of
from hoptree.steps.hypotheses.verify import Verdict
from hoptree.steps.reading.parse import question_key, read_json, says_unknown
from hoptree.tree import Issue, Node

__all__ = ["Rebuilt", "rebuild"]

MAX_TOKENS = 1024
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
        reply = (await ctx.generate("rebuild", prompt, role="decompose", max_tokens=MAX_TOKENS, node=node)).text
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
