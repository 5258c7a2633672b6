"""A plan as the trace tells of it, whoever made it."""

from __future__ import annotations

from hoptree.runtime.context import Context
from hoptree.tree import Node, Plan

__all__ = ["tell_plan"]


def tell_plan(ctx: Context, plan: Plan, *, under: Node | None = None) -> None:
    """Write a plan down, and what was wrong with it; `under` is the node of another plan that it hangs under."""
    ctx.trace.add(
        "plan",
        **({"under": under.id} if under else {}),
        nodes=[{"id": n.id, "question": n.question, "parent": n.parent, "refs": list(n.refs)} for n in plan.nodes],
        issues=[{"kind": i.kind, "node": i.node, "detail": i.detail} for i in plan.issues],
    )
