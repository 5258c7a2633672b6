"""TreeQA's tree in words: for the trace when it is made, and for the prompt that draws the conclusion."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from hoptree.methods.treeqa.nodes import Branch, Outcome
from hoptree.runtime.context import Context
from hoptree.steps.hypotheses.agreement import agree
from hoptree.steps.hypotheses.evidence_box import Cited, EvidenceBox
from hoptree.steps.reading.parse import looks_unanswered
from hoptree.values import Answer

__all__ = ["MODEL_SAYS", "told", "unmarked"]

MODEL_SAYS = "the model says"
"""Beyond the paper, what evidence says is what code finds there."""
_SUPPORTED, _CORRECTED, _REFUTED = "supported by evidence", "corrected by evidence", "refuted by evidence"
_UNVERIFIED = "not verified"
_FOLLOWS = "as it follows from what was corrected below"
_MOOT = "it is asked about what turned out wrong"
_MARKS = "|".join((_SUPPORTED, _CORRECTED, _REFUTED, _UNVERIFIED, _FOLLOWS, _MOOT))
_MARK = re.compile(rf"\s*[(\[](?:{_MARKS})(?:[:;].*)?[)\]]?\W*\Z", re.IGNORECASE)
"""How sure an answer is, as it stands behind it in the tree."""


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
        sure = _MOOT if moot else _sure(outcome, branch.hypothesis, says)
        yield f"{indent}- {branch.node.question}"
        yield f"{indent}  Answer: {branch.hypothesis or 'unknown'} ({sure})"
        passages, facts = EvidenceBox(cited.passages if texts else (), cited.facts).shown(ctx)
        for there, shown in ((cited.passages if texts else (), passages), (cited.facts, facts)):
            yield from (f"{indent}  {line}" for line in shown.splitlines() if there)
        below = branch.children
        yield from told(ctx, below, outcomes, texts=texts, says=says, resting=resting, indent=indent + "  ")


def unmarked(answer: Answer) -> Answer:
    """An answer that was read in a tree, without what the tree says of how sure it is: small models copy that."""
    text = _MARK.sub("", answer.text)
    if text == answer.text:
        return answer
    said = "\n".join(_MARK.sub("", line) for line in answer.raw.splitlines()) or text
    return replace(answer, text=text, status="unknown" if looks_unanswered(said) else "answered")


def _sure(outcome: Outcome, answer: str, says: str) -> str:
    said = outcome.verdict.correction or outcome.verdict.reason
    if outcome.rebuilt and outcome.label == "refuted":
        if outcome.rebuilt.borne_out:
            return _CORRECTED
        return f"{_UNVERIFIED}; {says}: {said}" if said and not agree(said, answer) else _UNVERIFIED
    if outcome.stays:
        return f"{_UNVERIFIED}: it was called wrong, and nothing else was given"
    if outcome.label == "refuted":
        return f"{_REFUTED}: {outcome.verdict.reason}".removesuffix(": ")
    if outcome.aligned:
        return _FOLLOWS
    return _SUPPORTED if outcome.label == "supported" else _UNVERIFIED
