"""Running independent work at once, and a plan's nodes as soon as their references are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar, cast

from hoptree.errors import BudgetSpent
from hoptree.tree import Node, Plan

__all__ = ["both", "in_order", "together"]

T = TypeVar("T")
U = TypeVar("U")


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Await all at once; the first failure cancels the others and is raised as itself, not in a group.

    A spent budget cancels nothing: calls under way are paid for and finish, and nothing new is begun anywhere.
    """
    spent: list[BudgetSpent] = []

    async def until_spent(one: Coroutine[Any, Any, T]) -> T | None:
        try:
            return await one
        except BudgetSpent as error:
            spent.append(error)
            return None

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(until_spent(one)) for one in work]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    if spent:
        raise spent[0]
    return [cast(T, task.result()) for task in tasks]


async def both(one: Coroutine[Any, Any, T], other: Coroutine[Any, Any, U]) -> tuple[T, U]:
    """Await two different things at once, as `together` does."""
    first, second = await together((cast(Coroutine[Any, Any, Any], one), cast(Coroutine[Any, Any, Any], other)))
    return first, second


async def in_order(
    plan: Plan, solve: Callable[[Node, Mapping[int, T]], Awaitable[T]], *, parallel: bool
) -> dict[int, T]:
    """Solve every node after those it refers to, one by one or as early as possible; the results are the same."""
    done: dict[int, T] = {}
    if not parallel:
        for node in plan.order():
            done[node.id] = await solve(node, done)
        return done
    ended = {node.id: asyncio.Event() for node in plan.nodes}

    async def when_ready(node: Node) -> None:
        for ref in node.refs:
            await ended[ref].wait()
        try:
            if all(ref in done for ref in node.refs):  # else the budget ended before what it needs was known
                done[node.id] = await solve(node, done)
        finally:
            ended[node.id].set()

    await together(when_ready(node) for node in plan.nodes)
    return done
