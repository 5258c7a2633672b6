"""Work at once: what a failure ends, and what a spent budget does not."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest

from hoptree.core.errors import BudgetSpent
from hoptree.engine.schedule import in_order, in_turns, rare_collections, together
from hoptree.text.question_tree import Node, Plan


def test_a_failure_cancels_the_others_and_is_raised_as_itself() -> None:
    ended: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def broken() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        asyncio.run(together([slow(), broken()]))
    assert ended == ["cancelled"]


def test_a_spent_budget_lets_what_is_under_way_finish() -> None:
    ended: list[str] = []

    async def paid() -> None:
        await asyncio.sleep(0.02)
        ended.append("paid")

    async def refused() -> None:
        raise BudgetSpent("calls", 1)

    with pytest.raises(BudgetSpent):
        asyncio.run(together([refused(), paid()]))
    assert ended == ["paid"]


def test_what_rests_on_a_node_without_budget_is_not_begun() -> None:
    plan = Plan((Node(1, "a"), Node(2, "b #query1", refs=(1,)), Node(3, "c")))
    begun: list[int] = []

    async def solve(node: Node, done: Mapping[int, str]) -> str:
        begun.append(node.id)
        if node.id == 1:
            raise BudgetSpent("calls", 1)
        await asyncio.sleep(0.01)
        return "x"

    with pytest.raises(BudgetSpent):
        asyncio.run(in_order(plan, solve, parallel=True))
    assert begun == [1, 3]


@pytest.mark.parametrize("parallel", [True, False])
def test_results_are_in_the_order_of_the_plan_whichever_comes_first(parallel: bool) -> None:
    plan = Plan((Node(1, "a"), Node(2, "b"), Node(3, "c #query1", refs=(1,))))
    second = asyncio.Event()

    async def solve(node: Node, done: Mapping[int, str]) -> str:
        if node.id == 1 and parallel:
            await second.wait()
        second.set()
        return node.question

    assert list(asyncio.run(in_order(plan, solve, parallel=parallel))) == [1, 2, 3]


@pytest.fixture
def usual() -> Iterator[tuple[int, int, int]]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield 700, 10, 10
    gc.set_threshold(*before)


def test_runs_that_overlap_leave_the_collector_as_it_was(usual: tuple[int, int, int]) -> None:
    first, second = ExitStack(), ExitStack()
    first.enter_context(rare_collections())
    rare = gc.get_threshold()
    assert rare > usual
    second.enter_context(rare_collections())
    first.close()
    assert gc.get_threshold() == rare, "one is still running"
    second.close()
    assert gc.get_threshold() == usual


def test_a_run_within_a_run_and_one_that_fails(usual: tuple[int, int, int]) -> None:
    with pytest.raises(KeyError), rare_collections(), rare_collections():
        raise KeyError
    assert gc.get_threshold() == usual
    with rare_collections():
        assert gc.get_threshold() > usual
    assert gc.get_threshold() == usual


def test_others_run_between_two_items() -> None:
    order: list[str | int] = []

    async def other() -> None:
        for _ in range(2):
            order.append("other")
            await asyncio.sleep(0)

    async def work() -> list[int]:
        task = asyncio.create_task(other())
        results = await in_turns(lambda item: order.append(item) or item * item, [1, 2, 3])  # type: ignore[func-returns-value]
        await task
        return results

    assert asyncio.run(work()) == [1, 4, 9]
    assert order == [1, "other", 2, "other", 3]
