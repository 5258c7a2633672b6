"""Queries that arrive together are encoded together, and none of them suffers from another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.timing import TIMEOUT_S

from hoptree.retrieval import encoder as module
from hoptree.retrieval.encoder import QueryWindow


class Doubler:
    """An encoder whose rows are numbers, one fewer than there are queries if it is `short`."""

    def __init__(self, *, fail_on: str = "", short: bool = False) -> None:
        self.batches: list[list[str]] = []
        self.fail_on, self.short = fail_on, short

    async def encode(self, texts: Sequence[str], *, role: str) -> list[int]:
        assert role == "query"
        self.batches.append(list(texts))
        await asyncio.sleep(0.005)
        if self.fail_on in texts:
            raise ValueError("refused")
        return [int(text) * 2 for text in texts][self.short :]


def window_over(encoder: Any) -> Any:
    return QueryWindow(encoder)


def test_calls_at_once_become_one_call_and_each_gets_its_own_result() -> None:
    encoder = Doubler()

    async def run() -> Any:
        window = window_over(encoder)
        return await asyncio.gather(*(window(str(item)) for item in range(10)))

    assert asyncio.run(run()) == [item * 2 for item in range(10)]
    assert encoder.batches == [[str(item) for item in range(10)]]


def test_a_full_batch_does_not_wait_for_the_window_to_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WINDOW_S", 60)
    monkeypatch.setattr(module, "_WINDOW_QUERIES", 4)
    encoder = Doubler()

    async def run() -> Any:
        window = window_over(encoder)
        return await asyncio.wait_for(asyncio.gather(*(window(str(item)) for item in range(8))), TIMEOUT_S)

    assert asyncio.run(run()) == [item * 2 for item in range(8)]
    assert [len(batch) for batch in encoder.batches] == [4, 4]


def test_an_error_reaches_everyone_of_its_batch_and_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WINDOW_QUERIES", 2)

    async def run() -> Any:
        window = window_over(Doubler(fail_on="1"))
        return await asyncio.gather(*(window(str(item)) for item in range(4)), return_exceptions=True)

    first, second, *rest = asyncio.run(run())
    assert isinstance(first, ValueError) and isinstance(second, ValueError)
    assert rest == [4, 6]


@pytest.mark.parametrize("patience", [0.0, 0.004])
def test_who_stops_waiting_leaves_the_others_their_results(patience: float) -> None:
    """Before the batch is sent, and while it is under way."""

    async def run() -> Any:
        window = window_over(Doubler())
        tasks = [asyncio.create_task(window(str(item))) for item in range(3)]
        await asyncio.sleep(patience)
        tasks[0].cancel()
        return await asyncio.gather(*tasks[1:])

    assert asyncio.run(run()) == [2, 4]


def test_too_few_results_are_an_error_for_all() -> None:
    async def run() -> Any:
        window = window_over(Doubler(short=True))
        return await asyncio.gather(window("1"), window("2"), return_exceptions=True)

    assert all(isinstance(result, ValueError) for result in asyncio.run(run()))


def test_one_window_serves_one_event_loop_after_another() -> None:
    window = window_over(Doubler())

    async def left_behind() -> None:
        task = asyncio.create_task(window("1"))
        await asyncio.sleep(0)
        task.cancel()

    async def run() -> Any:
        return await asyncio.wait_for(window("21"), TIMEOUT_S)

    asyncio.run(left_behind())
    assert [asyncio.run(run()), asyncio.run(run())] == [42, 42]
