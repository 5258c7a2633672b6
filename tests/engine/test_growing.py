"""Trees that grow: numbers that say where a node stands, and results that hold every branch."""

from __future__ import annotations

from hoptree.core.values import Answer
from hoptree.engine.calls import Calls
from hoptree.engine.context import Context
from hoptree.engine.result import read_result
from hoptree.engine.schedule import grow, plant
from hoptree.engine.trace import Trace
from hoptree.methods.ra_isf import _spent_under
from hoptree.models.scripted import ScriptedModel


def context() -> Context:
    return Context(method="m", model=ScriptedModel(rules=[]), calls=Calls(None), trace=Trace("r"))


def test_a_number_says_where_a_node_stands() -> None:
    ctx = context()
    root = plant(ctx, "a?")
    first, second = grow(ctx, root, ["b?", "c?"])
    below = grow(ctx, second, ["d?"])
    assert [(node.id, node.parent, node.depth) for node in (root, first, second, *below)] == [
        (0, None, 0),
        (1, 0, 1),
        (2, 0, 1),
        (21, 2, 2),
    ]


def test_branches_grow_in_any_order_into_the_same_tree() -> None:
    trees = []
    for order in ((0, 1), (1, 0)):
        ctx = context()
        children = grow(ctx, plant(ctx, "a?"), ["b?", "c?"])
        for place in order:
            (leaf,) = grow(ctx, children[place], [f"{place}?"])
            ctx.end_node(leaf, Answer(f"{place}", source="internal"), why="so")
        trees.append(read_result(ctx.trace.events).tree)
    assert trees[0] == trees[1]
    (root,) = trees[0]
    assert [child.children[0].answer for child in root.children] == ["0", "1"]
    assert root.children[0].children[0].why == "so"


def test_a_new_tree_takes_the_place_of_the_old_one() -> None:
    ctx = context()
    grow(ctx, plant(ctx, "a?"), ["b?"])
    plant(ctx, "c?")
    assert [(node.question, node.children) for node in read_result(ctx.trace.events).tree] == [("c?", [])]


def test_no_sub_questions_are_no_event() -> None:
    ctx = context()
    assert grow(ctx, plant(ctx, "a?"), []) == () and len(ctx.trace.events) == 1


def test_a_subtree_pays_for_itself_alone() -> None:
    ctx = context()
    root = plant(ctx, "a?")
    first, second = grow(ctx, root, ["b?", "c?"])
    (below,) = grow(ctx, first, ["d?"])
    for node in (root, first, below, second):
        ctx.trace.add("llm", node=node.id, prompt_tokens=10, completion_tokens=node.id)
    ctx.trace.add("retrieve", node=below.id)
    assert _spent_under(ctx, first) == {"calls": 2, "retrievals": 1, "tokens": 20 + 1 + 11}
    assert _spent_under(ctx, second) == {"calls": 1, "retrievals": 0, "tokens": 12}
    assert _spent_under(ctx, root)["calls"] == 4
