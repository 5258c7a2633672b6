"""Work that is done once: asked for again, at the same time, after a failure, and by somebody who gave up."""

from __future__ import annotations

import asyncio

import pytest
from tests.timing import TIMEOUT_S

from hoptree.core.errors import BudgetSpent
from hoptree.engine.schedule import SingleFlight, together


class Work:
    """Counts how often it is done."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.begun = 0
        self._failure = failure

    async def __call__(self) -> int:
        self.begun += 1
        await asyncio.sleep(0.01)
        if self._failure:
            raise self._failure
        return self.begun


def test_asked_for_again_and_at_the_same_time_it_is_done_once() -> None:
    async def run() -> tuple[list[int], int]:
        once, work = SingleFlight(), Work()
        values = await together(once("a", work) for _ in range(3))
        return [*values, await once("a", work)], work.begun

    assert asyncio.run(run()) == ([1, 1, 1, 1], 1)


def test_other_keys_are_other_work() -> None:
    async def run() -> int:
        once, work = SingleFlight(), Work()
        await together(once(key, work) for key in ("a", "b", ("a", "b")))
        return work.begun

    assert asyncio.run(run()) == 3


@pytest.mark.parametrize("failure", [ValueError("no"), BudgetSpent("calls", 3)])
def test_a_failure_is_shared(failure: Exception) -> None:
    async def run() -> int:
        once, work = SingleFlight(), Work(failure)
        errors = await asyncio.gather(once("a", work), once("a", work), return_exceptions=True)
        assert list(errors) == [failure, failure]
        return work.begun

    assert asyncio.run(run()) == 1


def test_who_gives_up_waiting_does_not_end_the_work() -> None:
    async def run() -> int:
        once, work = SingleFlight(), Work()
        first = asyncio.create_task(once("a", work))
        second = asyncio.create_task(once("a", work))
        await asyncio.sleep(0)
        second.cancel()
        return await first

    assert asyncio.run(run()) == 1


def test_if_the_first_is_cancelled_the_next_one_does_the_work_for_all_who_wait() -> None:
    async def run() -> tuple[bool, list[int], int]:
        once, work = SingleFlight(), Work()
        first, *others = (asyncio.create_task(once("a", work)) for _ in range(3))
        await asyncio.sleep(0)
        first.cancel()
        values = await asyncio.wait_for(asyncio.gather(*others), timeout=TIMEOUT_S)
        return first.cancelled(), [*values, await once("a", work)], work.begun

    assert asyncio.run(run()) == (True, [2, 2, 2], 2)


def test_who_is_cancelled_together_with_the_first_does_not_do_the_work() -> None:
    async def run() -> tuple[list[bool], int]:
        once, work = SingleFlight(), Work()
        both = [asyncio.create_task(once("a", work)) for _ in range(2)]
        await asyncio.sleep(0)
        for task in both:
            task.cancel()
        await asyncio.wait(both, timeout=TIMEOUT_S)
        return [task.cancelled() for task in both], work.begun

    assert asyncio.run(run()) == ([True, True], 1)
