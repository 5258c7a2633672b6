"""Run independent work at once, the same work once, and a plan's nodes as soon as their references are answered."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hoptree.core.errors import BudgetSpent
from hoptree.engine.events import Planned
from hoptree.engine.trace import ModelCalled, Retrieved, WorldCall
from hoptree.text.question_tree import Node, Plan

if TYPE_CHECKING:
    from hoptree.engine.context import Context

T = TypeVar("T")
U = TypeVar("U")


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Await all at once; the first failure cancels the others and is raised bare.

    A spent budget cancels nothing: calls under way are paid for and finish, and nothing new is begun anywhere.
    """
    coroutines = list(work)
    if len(coroutines) == 1:  # nothing to wait for beside it
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


_RARE = (20_000, 20, 100)
_rare_lock = threading.Lock()
_rare_uses: list[tuple[int, int, int]] = []  # the thresholds at the beginning of each use that has not ended


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage a thirtieth as often: what questions leave behind holds few cycles, and looking costs 6 %.

    Runs overlap and end in any order; after the last of them the thresholds are those from before the first.
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
    """Await two different things at once, as `together` does."""
    first, second = await together((cast(Coroutine[Any, Any, Any], left), cast(Coroutine[Any, Any, Any], right)))
    return first, second


async def in_order(
    plan: Plan, solve: Callable[[Node, Mapping[int, T]], Awaitable[T]], *, parallel: bool
) -> dict[int, T]:
    """Solve every node after those it refers to, one by one or as early as possible.

    The results are the same, and in the same order, whichever comes first: prompts are written from them.
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
            if all(ref in done for ref in node.refs):  # else the budget ended before what it needs was known
                done[node.id] = await solve(node, done)
        finally:
            ended[node.id].set()

    await together(when_ready(node) for node in plan.nodes)
    return {node.id: done[node.id] for node in plan.order()}


class SingleFlight:
    """Does the work of each key once: whoever asks for work in progress waits for it, and shares its failure too.

    Results are kept for later calls unless `keep` is false. If the caller that does the work is cancelled, the next of
    those who wait does it. Work that waits for other work under the same `SingleFlight` must not come back to itself.
    """

    def __init__(self, *, keep: bool = True) -> None:
        self._keep = keep
        self._flights: dict[Hashable, asyncio.Future[Any]] = {}

    async def __call__(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        """Return the result of the work with this key."""
        return (await self.share(key, work))[0]

    async def share(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """Return the result, and whether it is that of another caller's work."""
        while (flight := self._flights.get(key)) is not None:
            await asyncio.wait((flight,))  # a caller that gives up waiting does not end the work for the others
            if not flight.cancelled():
                return flight.result(), True
        flight = self._flights[key] = asyncio.get_running_loop().create_future()
        try:
            result = await work()
        except Exception as error:
            flight.set_exception(error)
            flight.exception()  # mark as retrieved: it is raised here, whether or not anybody joined
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
    """The question itself as the tree's first node, and a tree that holds nothing else."""
    root = Node(0, question, depth=0)
    ctx.emit(Planned(nodes=[_written(root)]))
    return root


def grow(ctx: Context, node: Node, questions: Sequence[str]) -> tuple[Node, ...]:
    """Hang sub-questions under a node, and tell of them."""
    assert len(questions) <= MAX_CHILDREN, "a number has one digit a level"
    children = tuple(
        Node(10 * node.id + place, question, node.id, node.depth + 1) for place, question in enumerate(questions, 1)
    )
    if children:
        ctx.emit(Planned(under=node.id, nodes=[_written(child) for child in children]))
    return children


def spent_under(ctx: Context, node: Node) -> dict[str, int]:
    """What a node and all below it have cost so far."""
    start = "" if node.id == 0 else str(node.id)
    mine = [
        event
        for event in ctx.trace.events
        if isinstance(event, WorldCall) and event.node is not None and str(event.node).startswith(start)
    ]
    replies = [event for event in mine if isinstance(event, ModelCalled)]
    return {
        "calls": len(replies),
        "retrievals": sum(isinstance(event, Retrieved) for event in mine),
        "tokens": sum(reply.prompt_tokens + reply.completion_tokens for reply in replies),
    }


def _written(node: Node) -> dict[str, object]:
    return {"id": node.id, "question": node.question, "parent": node.parent, "refs": []}
