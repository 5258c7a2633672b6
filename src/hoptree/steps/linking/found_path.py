"""A question whose answer was found along a path of facts: the one node of its tree, which tells that path."""

from __future__ import annotations

from dataclasses import replace

from hoptree.comparing.names import read_yes_no
from hoptree.runtime.context import Context
from hoptree.runtime.growing import plant
from hoptree.steps.hypotheses.evidence_box import EvidenceBox
from hoptree.tree import Node
from hoptree.values import Answer

__all__ = ["begin_path", "end_path"]


def begin_path(ctx: Context, question: str) -> Node:
    """The question as a node that is being worked on."""
    root = plant(ctx, question)
    ctx.begin_node(root, question)
    return root


def end_path(ctx: Context, root: Node, answer: Answer, found: EvidenceBox) -> Answer:
    """The answer with what it was found by: all facts on the way, and the passages that hold it.

    One that stands in none of them is a guess; yes and no stand nowhere, and follow from all. Where nothing was found,
    the answer is as it comes.
    """
    if not found or not answer.known:
        ctx.end_node(root, answer)
        return answer
    held = found.supporting(answer.text)
    if not held and read_yes_no(answer.text) is None:
        answer = replace(answer, source="fallback", support=())
        ctx.end_node(root, answer, why="nothing on the way holds it")
        return answer
    passages = dict.fromkeys(passage.id for passage in found.passages if passage.id in held)
    answer = replace(answer, source="external", support=tuple(passages))
    ctx.end_node(root, answer, facts=[list(fact.triple) for fact in found.facts])
    return answer
