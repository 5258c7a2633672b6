"""Trees that grow while a question is answered: the question is node 0, and a node may get sub-questions at any time.

Node n's sub-questions are 10n + 1, 10n + 2 and so on (the first of the fourth is 41), so that a node's number says
where it stands, and does not depend on which of two branches was faster.
"""

from __future__ import annotations

from collections.abc import Sequence

from hoptree.runtime.context import Context
from hoptree.tree import Node

__all__ = ["MAX_CHILDREN", "grow", "plant", "spent_under"]

MAX_CHILDREN = 9


def plant(ctx: Context, question: str) -> Node:
    """The question itself as the tree's first node, and a tree that holds nothing else."""
    root = Node(0, question, depth=0)
    ctx.trace.add("plan", nodes=[_written(root)], issues=[])
    return root


def grow(ctx: Context, node: Node, questions: Sequence[str]) -> tuple[Node, ...]:
    """Hang sub-questions under a node, and tell of them."""
    assert len(questions) <= MAX_CHILDREN, "a number has one digit a level"
    children = tuple(
        Node(10 * node.id + place, question, node.id, node.depth + 1) for place, question in enumerate(questions, 1)
    )
    if children:
        ctx.trace.add("plan", under=node.id, nodes=[_written(child) for child in children], issues=[])
    return children


def spent_under(ctx: Context, node: Node) -> dict[str, int]:
    """What a node and all below it have cost so far."""
    start = "" if node.id == 0 else str(node.id)
    mine = [event for event in ctx.trace.events if "node" in event and str(event["node"]).startswith(start)]
    calls = [event for event in mine if event["event"] == "llm"]
    return {
        "calls": len(calls),
        "retrievals": sum(event["event"] == "retrieve" for event in mine),
        "tokens": sum(call["prompt_tokens"] + call["completion_tokens"] for call in calls),
    }


def _written(node: Node) -> dict[str, object]:
    return {"id": node.id, "question": node.question, "parent": node.parent, "refs": []}
