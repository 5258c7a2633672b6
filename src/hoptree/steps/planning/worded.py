"""Plans that a question's own words tell: a small planner copies its examples, or asks for other facts than were asked.

Comparisons have a branch for each thing compared, and things that are described inside one another a chain.
"""

from __future__ import annotations

from collections.abc import Sequence

from hoptree.comparing import parts_of
from hoptree.runtime.context import Context
from hoptree.steps.planning.nesting import chain_of
from hoptree.steps.planning.telling import tell_plan
from hoptree.tree import Node, Plan, hang

__all__ = ["plan_by_words"]


def plan_by_words(ctx: Context, question: str, *, under: Node | None = None) -> Plan | None:
    """The plan that the words tell, beneath a node if the question is that node's; None where they tell none."""
    chains = parts_of(question) or tuple(filter(None, (chain_of(question),)))
    if not chains:
        return None
    nodes: list[Node] = []
    for chain in chains:
        nodes += _branch(chain, len(nodes))
    plan = hang(Plan(tuple(nodes)), under) if under else Plan(tuple(nodes))
    tell_plan(ctx, plan, under=under)
    return plan


def _branch(chain: Sequence[str], after: int) -> list[Node]:
    """Questions of which each needs the answer to the one before, numbered from `after` on."""
    first, *later = chain
    nodes = [Node(after + 1, first)]
    for asked in later:
        above = nodes[-1]
        told = asked.replace("{}", f"#query{above.id}")
        nodes.append(Node(above.id + 1, told, above.id, above.depth + 1, (above.id,)))
    return nodes
