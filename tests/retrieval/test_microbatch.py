"""Calls that arrive together are answered together, and none of them suffers from another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tests.held import PATIENCE

from hoptree.retrieval.encoder import Window


class Doubler:
    def __init__(self, *, fail_on: int | None = None) -> None:
        self.batches: list[list[int]] = []
        self.fail_on = fail_on

    async def __call__(self, items: Sequence[int]) -> list[int]:
        self.batches.append(list(items))
        await asyncio.sleep(0.005)
        if self.fail_on in items:
            raise ValueError("refused")
        return [item * 2 for item in items]


def test_calls_at_once_become_one_call_and_each_gets_its_own_result() -> None:
    call = Doubler()

    async def run() -> list[int]:
        window = Window(call)
        return await asyncio.gather(*(window(item) for item in range(10)))

    assert asyncio.run(run()) == [item * 2 for item in range(10)]
    assert call.batches == [list(range(10))]


def test_a_full_batch_does_not_wait_for_the_window_to_close() -> None:
    call = Doubler()

    async def run() -> list[int]:
        window = Window(call, seconds=60, most=4)
        return await asyncio.wait_for(asyncio.gather(*(window(item) for item in range(8))), PATIENCE)

    assert asyncio.run(run()) == [item * 2 for item in range(8)]
    assert [len(batch) for batch in call.batches] == [4, 4]


def test_an_error_reaches_everyone_of_its_batch_and_nobody_else() -> None:
    call = Doubler(fail_on=1)

    async def run() -> list[int | BaseException]:
        window = Window(call, most=2)
        return await asyncio.gather(*(window(item) for item in range(4)), return_exceptions=True)

    first, second, *rest = asyncio.run(run())
    assert isinstance(first, ValueError) and isinstance(second, ValueError)
    assert rest == [4, 6]


@pytest.mark.parametrize("patience", [0.0, 0.004])
def test_who_stops_waiting_leaves_the_others_their_results(patience: float) -> None:
    """Before the batch is sent, and while it is under way."""
    call = Doubler()

    async def run() -> list[int]:
        window = Window(call, seconds=0.002)
        tasks = [asyncio.create_task(window(item)) for item in range(3)]
        await asyncio.sleep(patience)
        tasks[0].cancel()
        return await asyncio.gather(*tasks[1:])

    assert asyncio.run(run()) == [2, 4]


def test_too_few_results_are_an_error_for_all() -> None:
    async def short(items: Sequence[int]) -> list[int]:
        return list(items)[:-1]

    async def run() -> list[int | BaseException]:
        window = Window(short)
        return await asyncio.gather(*(window(item) for item in (1, 2)), return_exceptions=True)

    assert all(isinstance(result, ValueError) for result in asyncio.run(run()))


def test_one_window_serves_one_event_loop_after_another() -> None:
    window = Window(Doubler())

    async def left_behind() -> None:
        task = asyncio.create_task(window(1))
        await asyncio.sleep(0)
        task.cancel()

    async def run() -> int:
        return await asyncio.wait_for(window(21), PATIENCE)

    asyncio.run(left_behind())
    assert [asyncio.run(run()), asyncio.run(run())] == [42, 42]
