"""Concurrency: tasks together, single flight, and the nodes of a plan."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hoptree.core.errors import BudgetSpent
from hoptree.engine.events import Event, Planned
from hoptree.engine.trace import ModelCalled, Retrieved
from hoptree.text.question_tree import Node, Plan

if TYPE_CHECKING:
    from hoptree.engine.context import Context

T = TypeVar("T")
U = TypeVar("U")


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Await all concurrently; the first failure cancels the others and is raised.

    A spent budget cancels nothing: calls in progress are paid for, so they finish, and no new call can start.
    """
    coroutines = list(work)
    if len(coroutines) == 1:  # spares the task group
        return [await coroutines[0]]
    spent: list[BudgetSpent] = []

    async def until_spent(coroutine: Coroutine[Any, Any, T]) -> T | None:
        try:
            return await coroutine
        except BudgetSpent as error:
            spent.append(error)
            return None

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(until_spent(coroutine)) for coroutine in coroutines]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    if spent:
        raise spent[0]
    return [cast(T, task.result()) for task in tasks]


async def in_turns(work: Callable[[T], U], items: Iterable[T]) -> list[U]:
    """Call a function for each item; between two calls the event loop serves others."""
    results: list[U] = []
    for item in items:
        if results:
            await asyncio.sleep(0)
        results.append(work(item))
    return results


_MAX_LOOP_CHARS = 20_000


async def fold_events(fold: Callable[[Sequence[Event]], T], events: Sequence[Event]) -> T:
    """Return `fold(events)`; events of much text are folded in a thread."""
    replies = sum(len(event.reply) for event in events if isinstance(event, ModelCalled))
    searches = (event.passages for event in events if isinstance(event, Retrieved))
    chars = replies + sum(len(passage["text"]) for passages in searches for passage in passages)
    return fold(events) if chars <= _MAX_LOOP_CHARS else await asyncio.to_thread(fold, tuple(events))


_RARE = (20_000, 20, 100)
_rare_lock = threading.Lock()
_rare_uses: list[tuple[int, int, int]] = []  # the original thresholds, once for each use that has not ended


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage a thirtieth as often.

    Questions leave few cycles, and collections cost 6 % of the time. Uses may overlap and end in any order; the end of
    the last one restores the thresholds.
    """
    with _rare_lock:
        _rare_uses.append(_rare_uses[0] if _rare_uses else gc.get_threshold())
        gc.set_threshold(*_RARE)
    try:
        yield
    finally:
        with _rare_lock:
            before = _rare_uses.pop()
            if not _rare_uses:
                gc.set_threshold(*before)


async def both(left: Coroutine[Any, Any, T], right: Coroutine[Any, Any, U]) -> tuple[T, U]:
    """Await two coroutines of different types, as `together` does."""
    first, second = await together((cast(Coroutine[Any, Any, Any], left), cast(Coroutine[Any, Any, Any], right)))
    return first, second


async def in_order(
    plan: Plan, solve: Callable[[Node, Mapping[int, T]], Awaitable[T]], *, parallel: bool
) -> dict[int, T]:
    """Solve every node after those it refers to, one by one or as early as possible.

    The results come in the plan's order either way, since prompts are made from them.
    """
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
            if all(ref in done for ref in node.refs):  # else the budget ended before a reference was answered
                done[node.id] = await solve(node, done)
        finally:
            ended[node.id].set()

    await together(when_ready(node) for node in plan.nodes)
    return {node.id: done[node.id] for node in plan.order()}


class SingleFlight:
    """Does the work of each key once; other callers wait for its result or failure.

    Results are kept for later calls unless `keep` is false. If the working caller is cancelled, the next waiting one
    does the work. Work must not wait for its own key, not even through other keys.
    """

    def __init__(self, *, keep: bool = True) -> None:
        self._keep = keep
        self._flights: dict[Hashable, asyncio.Future[Any]] = {}

    async def __call__(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        """Return the result of the work with this key."""
        return (await self.share(key, work))[0]

    async def share(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """Return the result, and whether another caller did the work."""
        while (flight := self._flights.get(key)) is not None:
            await asyncio.wait((flight,))  # unlike `await flight`, cancelling this does not cancel the flight
            if not flight.cancelled():
                return flight.result(), True
        flight = self._flights[key] = asyncio.get_running_loop().create_future()
        try:
            result = await work()
        except Exception as error:
            flight.set_exception(error)
            flight.exception()  # mark as retrieved: it is raised here, even if no other caller waits
            if not self._keep:
                del self._flights[key]
            raise
        except BaseException:
            del self._flights[key]
            flight.cancel()
            raise
        flight.set_result(result)
        if not self._keep:
            del self._flights[key]
        return result, False


MAX_CHILDREN = 9


def plant(ctx: Context, question: str) -> Node:
    """Start a tree whose only node is the question itself, and record it."""
    root = Node(0, question, depth=0)
    ctx.emit(Planned(nodes=[plan_row(root)]))
    return root


def grow(ctx: Context, node: Node, questions: Sequence[str]) -> tuple[Node, ...]:
    """Add sub-questions under a node, and record them."""
    assert len(questions) <= MAX_CHILDREN, "an id has one digit a level"
    children = tuple(
        Node(10 * node.id + place, question, node.id, node.depth + 1) for place, question in enumerate(questions, 1)
    )
    if children:
        ctx.emit(Planned(under=node.id, nodes=[plan_row(child) for child in children]))
    return children


def plan_row(node: Node) -> dict[str, Any]:
    """Return a node as `Planned` records it."""
    return {"id": node.id, "question": node.question, "parent": node.parent, "refs": list(node.refs)}
