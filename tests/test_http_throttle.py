"""Requests to a public server are spaced, also across event loops."""

from __future__ import annotations

import asyncio
import time

import pytest

from hoptree.core.errors import EndpointError
from hoptree.core.public_http import Throttle, user_agent


def test_requests_are_spaced_across_event_loops() -> None:
    polite = Throttle(per_second=1000, concurrency=1)
    running: list[int] = []
    most: list[int] = []

    async def once() -> int:
        running.append(1)
        most.append(len(running))
        await asyncio.sleep(0.001)
        running.pop()
        return len(most)

    async def several() -> list[int]:
        return await asyncio.gather(*(polite.send(once) for _ in range(3)))

    assert [asyncio.run(several()) for _ in range(2)] == [[1, 2, 3], [4, 5, 6]] and max(most) == 1


def test_requests_per_second_are_limited() -> None:
    polite = Throttle(per_second=50, concurrency=4)

    async def nothing() -> None:
        return None

    async def several() -> None:
        await asyncio.gather(*(polite.send(nothing) for _ in range(5)))

    began = time.monotonic()
    asyncio.run(several())
    assert time.monotonic() - began >= 4 / 50


@pytest.mark.parametrize(("after", "times"), [(0.0, 4), (100.0, 1), (float("inf"), 1), (float("nan"), 1)])
def test_waiting_for_a_turn_times_out(after: float, times: int) -> None:
    tried: list[int] = []

    async def once() -> None:
        tried.append(1)
        raise EndpointError("busy", retryable=True, retry_after=after)

    with pytest.raises(EndpointError):
        asyncio.run(Throttle(per_second=1000, patience_s=1).send(once))
    assert len(tried) == times


def test_the_user_agent_is_one_line_of_plain_characters() -> None:
    assert user_agent("me@example.org\r\nX: y é").count("\n") == 0
    assert user_agent("").startswith("Hoptree/") and "(no contact given)" in user_agent("")
