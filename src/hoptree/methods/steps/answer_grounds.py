"""Whether the passages shown as evidence hold the answer, of methods that write it rather than read it off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hoptree.core.values import Answer, Passage
from hoptree.engine.result import Result, TreeNode
from hoptree.methods.steps.evidence_box import EvidenceBox
from hoptree.methods.steps.logic_tree import parts_of
from hoptree.text.comparison import read_yes_no

NONE_HOLDS = "what was read does not hold the answer: it is a guess that documents do not support"


def called_guess(answer: Answer, passages: Sequence[Passage]) -> Answer:
    """The answer that was read in passages, if one of them holds it or all do together; else the same as a guess."""
    if not answer.known or _hold(answer.text, passages):
        return answer
    return replace(answer, source="fallback", support=())


def with_grounds(result: Result) -> Result:
    """The result without passages that are no evidence: none of them holds the answer, nor all its names together.

    Passages do not say yes or no, and the answer of a tree may follow from what its nodes cite without standing there:
    these are left as they are. A node of a tree that read its answer in none of what it cites has guessed it, but where
    a verdict tells what evidence said.
    """
    if not result.answer or not result.evidence:
        return result
    if result.tree:
        passages = {passage.id: passage for passage in result.evidence}
        return replace(result, tree=tuple(_judged(node, passages) for node in result.tree))
    if _hold(result.answer, result.evidence):
        return result
    return replace(result, evidence=(), warnings=(*result.warnings, NONE_HOLDS))


def _judged(node: TreeNode, passages: Mapping[str, Passage]) -> TreeNode:
    below = [_judged(child, passages) for child in node.children]
    read = tuple(passages[name] for name in node.evidence if name in passages)
    if node.source != "external" or node.verdict or node.facts or not read or _hold(node.answer, read):
        return replace(node, children=below)
    return replace(node, children=below, source="fallback", evidence=())


def _hold(answer: str, passages: Sequence[Passage]) -> bool:
    """Whether a passage holds an answer, or all its names stand somewhere among them; yes and no stand nowhere."""
    read, parts = EvidenceBox(tuple(passages)), parts_of(answer)
    whole = bool(read.supporting(answer)) or read_yes_no(answer) is not None
    return whole or (bool(parts) and all(map(read.supporting, parts)))
