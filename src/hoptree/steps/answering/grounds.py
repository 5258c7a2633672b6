"""Whether the passages shown as evidence hold the answer, of methods that write it rather than read it off."""

from __future__ import annotations

from dataclasses import replace

from hoptree.runtime.result import Result
from hoptree.steps.hypotheses.evidence_box import EvidenceBox
from hoptree.steps.hypotheses.substitution import parts_of

__all__ = ["with_grounds"]

_NONE_HOLDS = "what was read does not hold the answer: it is a guess that documents do not support"


def with_grounds(result: Result) -> Result:
    """The result without passages that are no evidence: none of them holds the answer, nor all its names together.

    Passages do not say yes or no, and the answer of a tree may follow from what its nodes cite without standing there:
    these are left as they are.
    """
    if not result.answer or not result.evidence or result.tree:
        return result
    read, parts = EvidenceBox(result.evidence), parts_of(result.answer)
    if read.supporting(result.answer) or (parts and all(map(read.supporting, parts))):
        return result
    return replace(result, evidence=(), warnings=(*result.warnings, _NONE_HOLDS))
