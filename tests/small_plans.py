"""A question, and helpers to check plans for it."""

from __future__ import annotations

from hoptree.text.question_tree import MAX_DEPTH, MAX_NODES, Plan, references

__all__ = ["ROOT", "assert_can_be_carried_out", "kinds", "questions"]

ROOT = "Where was the director of the film Whiplash born?"


def questions(plan: Plan) -> list[str]:
    return [node.question for node in plan.nodes]


def kinds(plan: Plan) -> list[str]:
    return [issue.kind for issue in plan.issues]


def assert_can_be_carried_out(plan: Plan) -> None:
    ids = [node.id for node in plan.nodes]
    by_id = {node.id: node for node in plan.nodes}
    assert len(by_id) == len(ids) <= MAX_NODES
    seen: set[int] = set()
    for node in plan.nodes:
        assert node.question.strip()
        assert node.parent is None or node.parent in seen, "a parent comes before its children"
        assert node.depth == (1 if node.parent is None else by_id[node.parent].depth + 1) <= MAX_DEPTH
        assert node.refs == references(node.question)
        assert all(ref in by_id and ref != node.id for ref in node.refs)
        seen.add(node.id)
    order = plan.order()
    assert sorted(node.id for node in order) == sorted(ids), "nothing is left out, as a cycle would"
    done: set[int] = set()
    for node in order:
        assert done.issuperset(node.refs)
        done.add(node.id)
