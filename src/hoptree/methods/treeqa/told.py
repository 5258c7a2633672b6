"""TreeQA's tree in words: for the trace when it is made, and for the prompt that draws the conclusion."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from hoptree.methods.treeqa.nodes import Branch, Outcome
from hoptree.runtime.context import Context
from hoptree.steps.hypotheses.agreement import agree
from hoptree.steps.hypotheses.evidence_box import Cited, EvidenceBox

__all__ = ["MODEL_SAYS", "told"]

MODEL_SAYS = "the model says"
"""Beyond the paper, what evidence says is what code finds there."""


def told(
    ctx: Context,
    branches: Sequence[Branch],
    outcomes: Mapping[int, Outcome],
    *,
    texts: bool = True,
    says: str = "evidence says",
    resting: Collection[int] = (),
    indent: str = "",
) -> Iterator[str]:
    """The golden tree: what was asked, what is the answer, how sure that is, and what it rests on.

    Without `texts`, passages are left out; the facts stay. `says` introduces what a verdict gives for right where that
    was not borne out. What is cited is not told where it says something else: of such a node, which it only refuted
    before, and of the nodes `resting` on what is wrong.
    """
    for branch in branches:
        number = branch.node.id
        outcome, moot = outcomes[number], number in resting
        unsaid = outcome.rebuilt is not None and not outcome.rebuilt.borne_out
        cited = Cited() if moot or unsaid else outcome.verdict.cited
        sure = "it is asked about what turned out wrong" if moot else _sure(outcome, branch.hypothesis, says)
        yield f"{indent}- {branch.node.question}"
        yield f"{indent}  Answer: {branch.hypothesis or 'unknown'} ({sure})"
        passages, facts = EvidenceBox(cited.passages if texts else (), cited.facts).shown(ctx)
        for there, shown in ((cited.passages if texts else (), passages), (cited.facts, facts)):
            yield from (f"{indent}  {line}" for line in shown.splitlines() if there)
        below = branch.children
        yield from told(ctx, below, outcomes, texts=texts, says=says, resting=resting, indent=indent + "  ")


def _sure(outcome: Outcome, answer: str, says: str) -> str:
    said = outcome.verdict.correction or outcome.verdict.reason
    if outcome.rebuilt and outcome.label == "refuted":
        if outcome.rebuilt.borne_out:
            return "corrected by evidence"
        return f"not verified; {says}: {said}" if said and not agree(said, answer) else "not verified"
    if outcome.stays:
        return "not verified: it was called wrong, and nothing else was given"
    if outcome.label == "refuted":
        return f"refuted by evidence: {outcome.verdict.reason}".removesuffix(": ")
    if outcome.aligned:
        return "as it follows from what was corrected below"
    return "supported by evidence" if outcome.label == "supported" else "not verified"
