"""Re-plans for training: gold plans with some steps answered."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hoptree.evaluation.metrics import normalise
from hoptree.text.question_tree import Node, Plan, make_plan, references, resolve
from hoptree.training.plans.gold_trees import GoldTree
from hoptree.training.plans.sub_questions import phrase_of

_MAX_MERGED_WORDS = 25
_UNFIT_REFERENCE = re.compile(r"#query\d+['’]s|^#query")
"""References that a name with several words cannot stand for: a possessive, or the first word."""


@dataclass(frozen=True, slots=True)
class Replan:
    """What is known, what was not found, and the plan of what is left."""

    known: str
    missing: str
    plan: Plan


def compact(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON in which a part without children is its question alone."""

    def entry(node: Node) -> Any:
        children = {f"query{child.id}": entry(child) for child in plan.nodes if child.parent == node.id}
        return {"question": node.question, "children": children} if children else node.question

    return {f"query{node.id}": entry(node) for node in plan.nodes if node.parent is None}


def write_plan(plan: Plan, question: str) -> str:
    """Return a plan as a model is to write it; "" if it would be read as another."""
    written = compact(plan)
    read = make_plan(written, question)
    same = [(node.id, node.question, node.parent, node.refs) for node in plan.nodes] == [
        (node.id, node.question, node.parent, node.refs) for node in read.nodes
    ]
    return json.dumps(written, ensure_ascii=False) if same and not read.issues else ""


def replans(tree: GoldTree, question: str) -> list[Replan]:
    """Return all re-plans that can be made of a gold tree whose steps are answered.

    For each step that refers to one before it, both are merged into one question ("Where was the director of X
    born?"), which was asked and not found. Known is nothing that rests on it: everything else of the tree, or only
    what comes before. Where both of its steps are known, nothing is left to be asked.
    """
    rows: list[Replan] = []
    for node in tree.read.nodes:
        if len(node.refs) != 1 or not (merged := merge(tree.steps[node.refs[0]].asked, node.question)):
            continue
        if normalise(merged) == normalise(question):
            continue  # nobody asks for the whole question as a part of it
        first = node.refs[0]
        pending = _not_found(tree, node, merged)
        missing = "\n".join(pending.values())
        before = [other.id for other in tree.read.nodes if other.id not in pending and other.id != first]
        rows.append(_replan(tree, [*before, first], missing))
        if not any(first in tree.read[other].refs for other in before):
            rows.append(_replan(tree, before, missing))
        if len(pending) == 1:
            rows.append(_replan(tree, [other.id for other in tree.read.nodes], missing))
    return rows


def merge(first: str, second: str) -> str:
    """Merge two questions by naming what the first asks for; "" if impossible."""
    phrase, numbers = phrase_of(first), references(second)
    if not phrase or len(numbers) != 1 or _UNFIT_REFERENCE.search(second):
        return ""
    merged = resolve(second, {numbers[0]: phrase})
    return merged if len(merged.split()) <= _MAX_MERGED_WORDS else ""


def _not_found(tree: GoldTree, node: Node, merged: str) -> dict[int, str]:
    """Return the questions asked in vain by node: merged, and dependent ones."""
    asked = {node.id: merged}
    for other in tree.read.order():
        if any(ref in asked for ref in other.refs):
            names = {
                ref: f'the answer to "{asked[ref]}"' if ref in asked else tree.steps[ref].answer for ref in other.refs
            }
            asked[other.id] = resolve(other.question, names)
    return asked


def _replan(tree: GoldTree, known: Sequence[int], missing: str) -> Replan:
    answered = {number: tree.steps[number].answer for number in known}
    steps = [tree.steps[node.id] for node in tree.read.nodes if node.id in answered]
    lines = [f"{step.asked} {step.answer}" for step in steps]
    return Replan("\n".join(lines) or "nothing", missing, _remaining(tree.read, answered))


def _remaining(plan: Plan, answered: Mapping[int, str]) -> Plan:
    """Return the plan of unanswered nodes, with answers filled in."""
    left = [node for node in plan.nodes if node.id not in answered]
    number_of = {node.id: number for number, node in enumerate(left, 1)}
    names = {**answered, **{old: f"#query{new}" for old, new in number_of.items()}}
    nodes = []
    for node in left:
        parent = number_of.get(node.parent) if node.parent is not None else None
        refs = tuple(number_of[ref] for ref in node.refs if ref in number_of)
        nodes.append(Node(number_of[node.id], resolve(node.question, names), parent, refs=refs))
    return Plan(tuple(nodes))
