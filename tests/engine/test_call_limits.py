"""Slots of an endpoint: never more than it takes, first come first served, none lost."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.engine.calling import asking, say
from tests.timing import TIMEOUT_S

from hoptree.core.errors import EndpointError, ModelError, RateLimited
from hoptree.engine.calls import AdaptiveLimit, Call, Calls
from hoptree.models.model import Reply, Request
from hoptree.models.scripted import Rule, ScriptedModel


class Crowd(ScriptedModel):
    """Counts how many requests it works on at once."""

    def __init__(self, slots: int) -> None:
        super().__init__(rules=[Rule("x")], slots=slots)
        self.now = self.most = 0

    async def generate(self, request: Request, *, step: str) -> Reply:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        return await super().generate(request, step=step)


@pytest.mark.parametrize(("slots", "concurrency", "most"), [(3, None, 3), (8, 2, 2), (2, 8, 2), (1, None, 1)])
def test_an_endpoint_never_gets_more_than_its_slots(slots: int, concurrency: int | None, most: int) -> None:
    model = Crowd(slots)

    async def run() -> None:
        calls = Calls(None, concurrency=concurrency)
        await asyncio.gather(*(say(calls, model, asking(str(number))) for number in range(40)))

    asyncio.run(run())
    assert model.most == most


def test_the_limit_never_lets_more_in_than_its_width() -> None:
    async def run() -> None:
        limit = AdaptiveLimit(8)
        limit.width = 2.0
        inside = 0
        widths: list[tuple[int, int]] = []

        async def work() -> None:
            nonlocal inside
            await limit.acquire()
            inside += 1
            widths.append((inside, int(limit.width)))
            await asyncio.sleep(0)
            inside -= 1
            limit.answered()
            limit.release()

        await asyncio.gather(*(work() for _ in range(60)))
        assert all(busy <= width for busy, width in widths)
        assert max(busy for busy, _ in widths) == 8

    asyncio.run(run())


def test_the_limit_doubles_each_round_until_it_is_refused_then_grows_by_one() -> None:
    limit = AdaptiveLimit(100)
    limit.width = 4.0
    for _ in range(4):
        limit.answered()
    assert limit.width == 8
    limit.refused(sent_at=time.monotonic() + 1)
    width = limit.width
    assert width == pytest.approx(5.6)
    for _ in range(6):
        limit.answered()
    assert width + 0.9 < limit.width < width + 1.1


def test_the_limit_does_not_grow_beyond_its_ceiling() -> None:
    limit = AdaptiveLimit(5)
    assert limit.width == 5
    limit.answered()
    assert limit.width == 5


def test_refusals_of_one_round_cut_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 10.0
    monkeypatch.setattr("hoptree.engine.calls.time.monotonic", lambda: now)
    limit = AdaptiveLimit(10)
    for _ in range(5):
        limit.refused(sent_at=9.0)
    assert limit.width == 7
    now = 12.0
    limit.refused(sent_at=11.0)
    assert limit.width == pytest.approx(4.9)


def test_the_limit_is_never_cut_below_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("hoptree.engine.calls.time.monotonic", lambda: now)
    limit = AdaptiveLimit(3)
    for _ in range(20):
        limit.refused(sent_at=now + 0.5)
        now += 1
    assert limit.width == 1


def test_first_come_is_first_served() -> None:
    async def run() -> list[int]:
        limit = AdaptiveLimit(1)
        served: list[int] = []

        async def work(number: int) -> None:
            await limit.acquire()
            served.append(number)
            await asyncio.sleep(0)
            limit.release()

        await asyncio.gather(*(work(number) for number in range(9)))
        return served

    assert asyncio.run(run()) == list(range(9))


@pytest.mark.parametrize("served_first", [False, True])
def test_no_slot_is_lost_when_a_waiter_is_cancelled(served_first: bool) -> None:
    async def run() -> None:
        limit = AdaptiveLimit(1)
        await limit.acquire()
        waiting = [asyncio.create_task(limit.acquire()) for _ in range(3)]
        await asyncio.sleep(0)
        if served_first:  # its turn has come, but it has not been told yet
            limit.release()
            waiting[0].cancel()
        else:
            waiting[0].cancel()
            limit.release()
        async with asyncio.timeout(TIMEOUT_S):
            with pytest.raises(asyncio.CancelledError):
                await waiting[0]
            await waiting[1]
            limit.release()
            await waiting[2]
        limit.release()
        assert limit._in_use == 0

    asyncio.run(run())


def test_a_waiter_cancelled_in_the_queue_leaves_it() -> None:
    async def run() -> None:
        limit = AdaptiveLimit(1)
        await limit.acquire()
        waiting = asyncio.create_task(limit.acquire())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        assert not limit._queue
        limit.release()
        assert limit._in_use == 0

    asyncio.run(run())


def waited(error: ModelError) -> float | None:
    return Calls(None)._wait(error, 1, 0.0)


def test_no_wait_is_longer_than_patience() -> None:
    for hour in (3600.0, float("inf"), float("nan")):
        assert waited(EndpointError("busy", retryable=True, retry_after=hour)) is None
        assert waited(RateLimited("slow", retryable=True, retry_after=hour)) is None
    assert waited(RateLimited("slow", retryable=True, retry_after=30)) == 30


def test_waiting_for_a_slot_is_not_waiting_for_a_rate_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience runs from the first refusal, however long the queue was before it."""
    monkeypatch.setattr("hoptree.engine.calls._MAX_WAIT_S", 0.1)
    model = ScriptedModel(rules=[Rule(fault="429", contains="Second", times=1), Rule("Paris", latency=0.2)], slots=1)

    async def run() -> list[Call[Reply]]:
        calls = Calls(None)
        return list(await asyncio.gather(say(calls, model, asking("First?")), say(calls, model, asking("Second?"))))

    assert [call.reply.text for call in asyncio.run(run())] == ["Paris", "Paris"]
