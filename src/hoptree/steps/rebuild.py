"""Rebuilding what rests on a refuted hypothesis."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.steps.evidence_box import EvidenceBox
from hoptree.steps.logic_tree import MAX_DEPTH, Claim, read_subtree
from hoptree.steps.parse import question_key, read_json
from hoptree.steps.verify import Verdict
from hoptree.tree import Issue, Node

__all__ = ["Rebuilt", "rebuild"]

MAX_TOKENS = 1024
_DEEPER = 1
"""Levels that a rebuilt tree may have more than the one it replaces."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What takes the place of a refuted node and all below it, and what had to be repaired."""

    claim: Claim
    issues: tuple[str, ...] = ()


async def rebuild(
    ctx: Context, whole: str, refuted: Claim, verdict: Verdict, box: EvidenceBox, *, node: Node
) -> Rebuilt:
    """Ask for the sub-tree anew, given why its hypothesis is wrong; once more if the reply holds none.

    Where that fails too, or the refuted hypothesis comes again, the node has what the reason says, and no children.
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
    return _settled(ctx, refuted, claim, verdict, issues, node)


def _settled(
    ctx: Context, refuted: Claim, claim: Claim | None, verdict: Verdict, issues: tuple[Issue, ...], node: Node
) -> Rebuilt:
    kinds = [issue.kind for issue in issues]
    right = verdict.correction or verdict.reason
    if claim is None:
        kinds.append("rebuild_unreadable")
        claim = Claim(refuted.question, right)
    elif question_key(claim.hypothesis) == question_key(refuted.hypothesis):
        kinds.append("rebuild_noop")
        claim = replace(claim, hypothesis=right, children=())
    for kind in kinds:
        ctx.trace.add("plan_issue", kind=kind, node=node.id, detail=f"in the tree rebuilt for: {refuted.question}")
    return Rebuilt(claim, tuple(kinds))
