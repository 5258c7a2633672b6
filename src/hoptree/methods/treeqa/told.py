"""TreeQA's tree in words: for the trace when it is made, and for the prompt that draws the conclusion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hoptree.methods.treeqa.nodes import Branch, Outcome
from hoptree.runtime.context import Context
from hoptree.steps.hypotheses.evidence_box import EvidenceBox

__all__ = ["told"]


def told(
    ctx: Context, branches: Sequence[Branch], outcomes: Mapping[int, Outcome], *, texts: bool = True, indent: str = ""
) -> Iterator[str]:
    """The golden tree: what was asked, what is the answer, how sure that is, and what it rests on.

    Without `texts`, passages are left out; the facts stay.
    """
    for branch in branches:
        outcome = outcomes[branch.node.id]
        cited = outcome.verdict.cited
        yield f"{indent}- {branch.node.question}"
        yield f"{indent}  Answer: {branch.hypothesis or 'unknown'} ({_sure(outcome)})"
        passages, facts = EvidenceBox(cited.passages if texts else (), cited.facts).shown(ctx)
        for there, shown in ((cited.passages if texts else (), passages), (cited.facts, facts)):
            yield from (f"{indent}  {line}" for line in shown.splitlines() if there)
        yield from told(ctx, branch.children, outcomes, texts=texts, indent=indent + "  ")


def _sure(outcome: Outcome) -> str:
    said = outcome.verdict.correction or outcome.verdict.reason
    if outcome.rebuilt:
        if outcome.rebuilt.borne_out:
            return "corrected by evidence"
        return f"not verified; evidence says: {said}" if said else "not verified"
    if outcome.stays:
        return "not verified: it was called wrong, and nothing else was given"
    if outcome.label == "refuted":
        return f"refuted by evidence: {outcome.verdict.reason}".removesuffix(": ")
    if outcome.aligned:
        return "as it follows from what was corrected below"
    return "supported by evidence" if outcome.label == "supported" else "not verified"
