"""The door to models and remote search: cache, single flight, retries, slots."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from hoptree.engine import Engine
from hoptree.errors import CacheError, ConfigError, EndpointError, ModelError, RateLimited
from hoptree.models.model import Choice, Message, Reply, Request, Token, TokenUsage
from hoptree.models.scripted import Rule, ScriptedModel
from hoptree.runtime.cache import REPLY, Cache
from hoptree.runtime.calls import THINKING_TOKENS, Call, Calls, OnRetry, call_key, search_key
from hoptree.runtime.context import Context
from hoptree.runtime.limits import AdaptiveLimit
from hoptree.runtime.result import read_result
from hoptree.runtime.trace import Trace
from hoptree.values import Passage

REQUEST = Request((Message("user", "Who?"),))


def asking(text: str) -> Request:
    return Request((Message("user", text),))


def ignore(error: ModelError, wait: float) -> None:
    """A retry nobody wants to hear of."""


def say(calls: Calls, model: ScriptedModel, request: Request = REQUEST) -> asyncio.Task[Call[Reply]]:
    """Begin a call."""
    return asyncio.create_task(calls.generate(model, request, step="test/step", on_retry=ignore))


async def soon(happened: Callable[[], bool]) -> None:
    """Let other tasks run until it happened."""
    async with asyncio.timeout(5):
        while not happened():
            await asyncio.sleep(0)


def one_after_another(calls: Calls, model: ScriptedModel, *requests: Request) -> list[Call[Reply]]:
    async def run() -> list[Call[Reply]]:
        return [await say(calls, model, request) for request in requests]

    return asyncio.run(run())


@pytest.fixture
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: 0.0)


# Cache


def test_the_second_call_is_answered_by_the_cache(tmp_path: Path) -> None:
    model = ScriptedModel(rules=[Rule("Paris")])

    async def run() -> list[Call[Reply]]:
        cache = Cache(tmp_path / "replies.sqlite")
        calls = Calls(cache)
        found = [await say(calls, model), await say(calls, model)]
        cache.close()
        return found

    first, second = asyncio.run(run())
    assert (first.cached, second.cached) == (False, True)
    assert second.reply == first.reply
    assert second.seconds == pytest.approx(first.seconds, abs=1e-4)
    assert len(model.requests) == 1


def test_a_new_process_finds_the_replies_of_the_one_before(tmp_path: Path) -> None:
    model = ScriptedModel(rules=[Rule("<think>Hm.</think>Paris", logprob=-0.25)])
    request = replace(REQUEST, top_logprobs=1, n=2)

    async def run() -> Call[Reply]:
        cache = Cache(tmp_path / "deep" / "replies.sqlite")
        call = await say(Calls(cache), model, request)
        cache.close()
        return call

    first, second = asyncio.run(run()), asyncio.run(run())
    assert second.cached
    assert second.reply == first.reply
    assert len(second.reply.choices) == 2
    assert len(model.requests) == 1


def test_a_reply_survives_the_cache_unchanged(tmp_path: Path) -> None:
    token = Token("Łódź", -0.5, (("Kraków", -1.5), ("\0", -2.0)))
    reply = Reply((Choice("a\u2028b", "thought", "length", (token,)), Choice("")), TokenUsage(4, 3, 2, 1))

    async def run() -> Any:
        cache = Cache(tmp_path / "replies.sqlite")
        await cache.put(b"key", REPLY, reply, 1.23456)
        found = await cache.get(b"key", REPLY), await cache.get(b"other", REPLY)
        cache.close()
        return found

    assert asyncio.run(run()) == ((reply, 1.2346), None)


def test_without_a_cache_every_call_is_paid() -> None:
    model = ScriptedModel(rules=[Rule("Paris")])
    assert [call.cached for call in one_after_another(Calls(None), model, REQUEST, REQUEST)] == [False, False]
    assert len(model.requests) == 2


def test_a_failure_is_not_remembered(tmp_path: Path, no_backoff: None) -> None:
    model = ScriptedModel(rules=[Rule(fault="401", times=1), Rule("Paris")])

    async def run() -> Call[Reply]:
        cache = Cache(tmp_path / "replies.sqlite")
        calls = Calls(cache)
        with pytest.raises(EndpointError):
            await say(calls, model)
        call = await say(calls, model)
        cache.close()
        return call

    assert not asyncio.run(run()).cached


@pytest.mark.parametrize("name", [field.name for field in fields(Request)])
def test_the_key_changes_with_every_field_of_a_request(name: str) -> None:
    other: dict[str, Any] = {
        "messages": (Message("user", "Who? "),),
        "max_tokens": 65,
        "temperature": 0.1,
        "seed": 1,
        "stop": ("\n",),
        "n": 2,
        "top_logprobs": 1,
        "json_schema": "{}",
        "prefix": "The",
    }
    model = ScriptedModel(rules=[])
    assert call_key(model, replace(REQUEST, **{name: other[name]})) != call_key(model, REQUEST)


def test_the_key_changes_with_roles_and_with_where_messages_end() -> None:
    model = ScriptedModel(rules=[])
    requests = [
        Request((Message("system", "Who?"),)),
        Request((Message("user", "ab"), Message("user", "c"))),
        Request((Message("user", "a"), Message("user", "bc"))),
        Request((Message("user", "abc"),)),
        replace(REQUEST, stop=("a", "b")),
        replace(REQUEST, stop=("ab",)),
    ]
    assert len({call_key(model, request) for request in requests}) == len(requests)


def test_the_key_changes_with_the_identity_of_the_model() -> None:
    assert call_key(ScriptedModel(rules=[Rule("a")]), REQUEST) != call_key(ScriptedModel(rules=[Rule("b")]), REQUEST)


def test_the_key_of_a_request_is_the_same_in_every_run() -> None:
    model = ScriptedModel(rules=[])
    assert call_key(model, REQUEST) == call_key(ScriptedModel(rules=[]), Request((Message("user", "Who?"),)))


def test_a_reply_is_on_disk_before_the_method_sees_it(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    model = ScriptedModel(rules=[Rule("Paris")])

    async def run() -> list[tuple[bytes, str]]:
        cache = Cache(path)
        await say(Calls(cache), model)
        beside = sqlite3.connect(path)
        rows = beside.execute("SELECT key, reply FROM replies").fetchall()
        beside.close()
        cache.close()
        return rows

    ((key, text),) = asyncio.run(run())
    assert key == call_key(model, REQUEST)
    assert json.loads(text)["choices"][0][0] == "Paris"


def test_writes_that_come_together_are_committed_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []
    write = Cache._write

    def counted(cache: Cache, rows: list[tuple[bytes, str, float]]) -> None:
        batches.append(len(rows))
        write(cache, rows)

    monkeypatch.setattr(Cache, "_write", counted)

    async def run() -> int:
        cache = Cache(tmp_path / "replies.sqlite")
        model = ScriptedModel(rules=[Rule("Paris")])
        calls = Calls(cache)
        calls._limits[model.endpoint] = AdaptiveLimit(100, start=100)
        await asyncio.gather(*(say(calls, model, asking(str(number))) for number in range(50)))
        (stored,) = cache._db.execute("SELECT count(*) FROM replies").fetchone()
        cache.close()
        return int(stored)

    assert asyncio.run(run()) == 50
    assert sum(batches) == 50
    assert len(batches) < 25


def full(*_: object) -> None:
    raise sqlite3.OperationalError("database or disk is full")


def test_a_cache_that_cannot_be_written_is_given_up_and_the_reply_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cache, "_write", full)
    model = ScriptedModel(rules=[Rule("Paris")])

    async def run() -> tuple[Calls, list[Call[Reply]]]:
        cache = Cache(tmp_path / "replies.sqlite")
        calls = Calls(cache)
        found = [await say(calls, model), await say(calls, model)]
        cache.close()
        return calls, found

    calls, found = asyncio.run(run())
    assert [(call.reply.text, call.cached) for call in found] == [("Paris", False), ("Paris", False)]
    assert calls.cache is None
    assert calls.cache_failure is not None
    assert "disk is full" in str(calls.cache_failure)


def test_a_cache_that_cannot_be_read_is_given_up_and_the_reply_paid(tmp_path: Path) -> None:
    model = ScriptedModel(rules=[Rule("Paris")])

    async def run() -> Calls:
        cache = Cache(tmp_path / "replies.sqlite")
        calls = Calls(cache)
        cache._db.execute("DROP TABLE replies")
        assert (await say(calls, model)).reply.text == "Paris"
        cache.close()
        return calls

    assert asyncio.run(run()).cache_failure is not None


@pytest.mark.parametrize("row", ["garbage", "{}", '{"choices": [["a"]], "usage": [], "seconds": 1}', "[]", ""])
def test_a_row_that_cannot_be_understood_is_paid_for_again(tmp_path: Path, row: str) -> None:
    model = ScriptedModel(rules=[Rule("Paris")])

    async def run() -> Call[Reply]:
        cache = Cache(tmp_path / "replies.sqlite")
        cache._db.execute("INSERT INTO replies VALUES (?, ?, 0)", (call_key(model, REQUEST), row))
        call = await say(Calls(cache), model)
        cache.close()
        return call

    call = asyncio.run(run())
    assert (call.reply.text, call.cached) == ("Paris", False)


@pytest.mark.timeout(20)
def test_a_reply_with_half_a_character_is_delivered_and_the_cache_goes_on(tmp_path: Path) -> None:
    model = ScriptedModel(rules=[Rule("half \ud83d", contains="odd"), Rule("Paris")])

    async def run() -> list[str]:
        cache = Cache(tmp_path / "replies.sqlite")
        calls = Calls(cache)
        async with asyncio.timeout(5):
            found = [(await say(calls, model, request)).reply.text for request in (asking("odd"), REQUEST)]
            cache.close()
        return found

    odd, usual = asyncio.run(run())
    assert odd.startswith("half")
    assert usual == "Paris"


def test_a_file_that_is_no_cache_is_a_cache_error(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    path.write_bytes(b"This is not a database. " * 100)
    with pytest.raises(CacheError, match="cannot be used"):
        Cache(path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(CacheError):
        Cache(tmp_path / "folder")


# Single flight


def test_two_at_once_are_one_request() -> None:
    model = ScriptedModel(rules=[Rule("Paris", latency=0.01)])

    async def run() -> list[Call[Reply]]:
        calls = Calls(None)
        return list(await asyncio.gather(say(calls, model), say(calls, model), say(calls, model, asking("Where?"))))

    first, second, third = asyncio.run(run())
    assert [first.cached, second.cached, third.cached] == [False, True, False]
    assert second.reply is first.reply
    assert len(model.requests) == 2


def test_a_joiner_survives_the_cancellation_of_the_first_caller() -> None:
    model = ScriptedModel(rules=[Rule("Paris", latency=0.02)])

    async def run() -> Call[Reply]:
        calls = Calls(None)
        first, second = say(calls, model), say(calls, model)
        await soon(lambda: len(model.requests) == 1)
        first.cancel()
        call = await second
        assert first.cancelled()
        return call

    assert asyncio.run(run()).reply.text == "Paris"
    assert len(model.requests) == 2, "the one who waited sends it again"


class Slow(ScriptedModel):
    """A model that never answers and notes when it is told to stop."""

    def __init__(self, goodbye: float = 0.0) -> None:
        super().__init__(rules=[])
        self.stopped = 0
        self._goodbye = goodbye

    async def generate(self, request: Request, *, step: str) -> Reply:
        self.requests.append((step, request.messages[-1].content))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.stopped += 1
            await asyncio.sleep(self._goodbye)
            raise
        raise AssertionError


def test_a_call_nobody_waits_for_is_cancelled() -> None:
    model = Slow()

    async def run() -> None:
        calls = Calls(None)
        waiting = [say(calls, model), say(calls, model)]
        await soon(lambda: len(model.requests) == 1)
        waiting[1].cancel()
        await asyncio.wait([waiting[1]])
        assert model.stopped == 0
        waiting[0].cancel()
        await asyncio.wait([waiting[0]])
        assert model.stopped == 1
        assert not calls._flights

    asyncio.run(run())


def test_who_comes_while_a_forsaken_call_is_ending_gets_a_call_of_its_own() -> None:
    model = Slow(goodbye=0.01)
    again = ScriptedModel(rules=[Rule("Paris")])
    again.identity = model.identity

    async def run() -> Call[Reply]:
        calls = Calls(None)
        first = say(calls, model)
        await soon(lambda: len(model.requests) == 1)
        first.cancel()
        await asyncio.wait([first])
        second = say(calls, again)
        third = asyncio.create_task(asyncio.sleep(0.02))
        await asyncio.wait([second, third])
        assert not calls._flights
        return await second

    assert asyncio.run(run()).reply.text == "Paris"


def test_a_failure_reaches_everyone_who_waits() -> None:
    model = ScriptedModel(rules=[Rule(fault="401", latency=0.01)])

    async def run() -> list[Call[Reply] | BaseException]:
        calls = Calls(None)
        return list(await asyncio.gather(say(calls, model), say(calls, model), return_exceptions=True))

    assert [type(outcome) for outcome in asyncio.run(run())] == [EndpointError, EndpointError]
    assert len(model.requests) == 1


# Retries


@pytest.mark.parametrize("fault", ["429", "500", "broken", "html"])
def test_what_may_pass_is_tried_again_and_told(fault: str, no_backoff: None) -> None:
    model = ScriptedModel(rules=[Rule(fault=fault, times=2), Rule("Paris")])
    told: list[tuple[ModelError, float]] = []

    async def run() -> Call[Reply]:
        return await Calls(None).generate(
            model, REQUEST, step="test/step", on_retry=lambda error, wait: told.append((error, wait))
        )

    assert asyncio.run(run()).reply.text == "Paris"
    assert len(model.requests) == 3
    assert len(told) == 2
    assert all(error.retryable and wait >= 0 for error, wait in told)
    assert isinstance(told[0][0], RateLimited) == (fault == "429")


@pytest.mark.parametrize("fault", ["500", "broken", "html"])
def test_it_is_given_up_after_so_many_attempts(fault: str, no_backoff: None) -> None:
    model = ScriptedModel(rules=[Rule(fault=fault)])
    with pytest.raises(ModelError):
        one_after_another(Calls(None, attempts=3), model, REQUEST)
    assert len(model.requests) == 3


def test_a_rate_limit_is_waited_for_as_long_as_patience_lasts() -> None:
    model = ScriptedModel(rules=[Rule(fault="429")])
    with pytest.raises(RateLimited):
        one_after_another(Calls(None, attempts=1, patience=0.12), model, REQUEST)
    assert 2 <= len(model.requests) <= 3


def test_what_cannot_pass_is_raised_at_once() -> None:
    model = ScriptedModel(rules=[Rule(fault="401")])
    with pytest.raises(EndpointError, match="401"):
        one_after_another(Calls(None), model, REQUEST)
    assert len(model.requests) == 1


def test_an_error_of_another_kind_gives_its_slot_back() -> None:
    model = ScriptedModel(rules=[], slots=1)

    async def run() -> None:
        calls = Calls(None)
        for number in range(3):
            with pytest.raises(ConfigError):
                await say(calls, model, asking(str(number)))
        assert calls._limits[model.endpoint]._in_use == 0

    asyncio.run(run())


def test_backoff_grows_and_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: 1.0)
    calls = Calls(None, attempts=99)
    error = EndpointError("x", retryable=True)
    waits = [calls._wait(error, failures, 0.0) for failures in range(1, 9)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_what_the_endpoint_asks_for_is_waited() -> None:
    calls = Calls(None, patience=10)
    assert calls._wait(RateLimited("x", retryable=True, retry_after=7.0), 1, 0.0) == 7.0
    assert calls._wait(RateLimited("x", retryable=True, retry_after=-3.0), 1, 0.0) == 0.05
    assert calls._wait(RateLimited("x", retryable=True, retry_after=7.0), 1, 4.0) is None
    assert calls._wait(RateLimited("x", retryable=False), 1, 0.0) is None


# Thinking


def test_a_thought_without_an_answer_is_asked_again_with_more_room() -> None:
    class Thinker(ScriptedModel):
        room: list[int]

        async def generate(self, request: Request, *, step: str) -> Reply:
            self.room.append(request.max_tokens)
            if request.max_tokens < THINKING_TOKENS:
                return Reply((Choice("", "let me see", "length"),), TokenUsage(10, 0, 64, 64))
            return Reply((Choice("Paris", "let me see"),), TokenUsage(10, 8, 100, 90))

    model = Thinker(rules=[])
    model.room = []
    first, second = one_after_another(Calls(None), model, REQUEST, asking("Where?"))
    assert first.reply.text == "Paris"
    assert first.reply.usage == TokenUsage(20, 8, 164, 154)
    assert second.reply.usage == TokenUsage(10, 8, 100, 90)
    assert model.room == [64, 64 + THINKING_TOKENS, 64 + THINKING_TOKENS]


def test_a_scripted_thought_that_is_cut_off_is_asked_again() -> None:
    rules = [Rule(["<think>let me see", "<think>let me see</think>Paris"], finish="length")]
    model = ScriptedModel(rules=rules)
    (call,) = one_after_another(Calls(None), model, REQUEST)
    assert call.reply.text == "Paris"
    assert call.reply.usage == TokenUsage(2, 0, 6, 6)


def test_an_answer_that_is_cut_off_is_kept() -> None:
    model = ScriptedModel(rules=[Rule("Paris, which", finish="length")])
    assert one_after_another(Calls(None), model, REQUEST)[0].reply.text == "Paris, which"
    assert len(model.requests) == 1


# Slots


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
        limit = AdaptiveLimit(8, start=2)
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
    limit = AdaptiveLimit(100, start=4)
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
    monkeypatch.setattr("hoptree.runtime.limits.time.monotonic", lambda: now)
    limit = AdaptiveLimit(10)
    for _ in range(5):
        limit.refused(sent_at=9.0)
    assert limit.width == 7
    now = 12.0
    limit.refused(sent_at=11.0)
    assert limit.width == pytest.approx(4.9)


def test_the_limit_is_never_cut_below_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("hoptree.runtime.limits.time.monotonic", lambda: now)
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
        async with asyncio.timeout(2):
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


def waited(error: ModelError, **settings: float) -> float | None:
    return Calls(None, patience=settings.get("patience", 180))._wait(error, 1, settings.get("waited", 0.0))


def test_no_wait_is_longer_than_patience() -> None:
    for hour in (3600.0, float("inf"), float("nan")):
        assert waited(EndpointError("busy", retryable=True, retry_after=hour)) is None
        assert waited(RateLimited("slow", retryable=True, retry_after=hour)) is None
    assert waited(RateLimited("slow", retryable=True, retry_after=30)) == 30


def test_waiting_for_a_slot_is_not_waiting_for_a_rate_limit() -> None:
    """Patience runs from the first refusal, however long the queue was before it."""
    model = ScriptedModel(rules=[Rule(fault="429", contains="Second", times=1), Rule("Paris", latency=0.2)], slots=1)

    async def run() -> list[Call[Reply]]:
        calls = Calls(None, patience=0.1)
        return list(await asyncio.gather(say(calls, model, asking("First?")), say(calls, model, asking("Second?"))))

    assert [call.reply.text for call in asyncio.run(run())] == ["Paris", "Paris"]


# Search


class Finder:
    """A retriever that finds the query itself, after failing as it is told to."""

    kind = "fake"

    def __init__(self, *failures: ModelError, remote: bool = True, identity: str = "fake:1") -> None:
        self.remote = remote
        self.identity = identity
        self.asked: list[tuple[str, int, dict[str, str]]] = []
        self.at_once = self.most_at_once = 0
        self._failures = list(failures)

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        self.asked.append((query, k, dict(where or {})))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0.005)
        self.at_once -= 1
        if self._failures:
            raise self._failures.pop(0)
        return (
            Passage("p1", "Łódź", query, 1.5, "d", 3, 9, ("alias",), (("lang", "pl"),), (("bm25", 1.5),)),
            Passage("p2", "", "half \ud83d"),
        )

    async def aclose(self) -> None:
        """There is nothing to close."""


def look(
    calls: Calls,
    finder: Finder,
    query: str = "Who?",
    *,
    k: int = 2,
    where: Mapping[str, str] | None = None,
    on_retry: OnRetry = ignore,
) -> asyncio.Task[Call[tuple[Passage, ...]]]:
    return asyncio.create_task(calls.search(finder, query, k=k, where=where, on_retry=on_retry))


def test_the_second_remote_search_is_answered_by_the_cache_also_in_a_new_process(tmp_path: Path) -> None:
    finder = Finder()

    async def run() -> list[Call[tuple[Passage, ...]]]:
        cache = Cache(tmp_path / "replies.sqlite")
        calls = Calls(cache)
        found = [await look(calls, finder), await look(calls, finder)]
        cache.close()
        return found

    first, second, third, fourth = asyncio.run(run()) + asyncio.run(run())
    assert [call.cached for call in (first, second, third, fourth)] == [False, True, True, True]
    assert second.reply == third.reply == first.reply, "with its scores, its metadata and its stages"
    assert second.seconds == pytest.approx(first.seconds, abs=1e-4) and first.seconds >= 0.005
    assert len(finder.asked) == 1


def test_a_local_search_is_made_every_time(tmp_path: Path) -> None:
    finder = Finder(remote=False)

    async def run() -> list[Call[tuple[Passage, ...]]]:
        cache = Cache(tmp_path / "replies.sqlite")
        calls = Calls(cache, concurrency=1)
        found = list(await asyncio.gather(*(look(calls, finder, where={"a": "b"}) for _ in range(3))))
        cache.close()
        return found

    assert [call.cached for call in asyncio.run(run())] == [False, False, False]
    assert finder.asked == [("Who?", 2, {"a": "b"})] * 3
    assert finder.most_at_once == 3, "no limit, no joining"


def test_remote_searches_at_once_are_joined_and_limited() -> None:
    finder = Finder()

    async def run() -> list[Call[tuple[Passage, ...]]]:
        calls = Calls(None, concurrency=2)
        return list(await asyncio.gather(*(look(calls, finder, str(number // 2)) for number in range(10))))

    assert [call.cached for call in asyncio.run(run())] == [False, True] * 5
    assert len(finder.asked) == 5 and finder.most_at_once == 2


def test_a_joiner_of_a_search_survives_the_cancellation_of_the_first_caller() -> None:
    finder = Finder()

    async def run() -> Call[tuple[Passage, ...]]:
        calls = Calls(None)
        first, second = look(calls, finder), look(calls, finder)
        await soon(lambda: len(finder.asked) == 1)
        first.cancel()
        return await second

    assert asyncio.run(run()).reply[0].id == "p1"
    assert len(finder.asked) == 2


def test_a_remote_search_is_tried_again_and_told(no_backoff: None) -> None:
    told: list[tuple[ModelError, float]] = []
    finder = Finder(EndpointError("Broken.", retryable=True), RateLimited("Wait.", retryable=True, retry_after=0.01))

    async def run() -> Call[tuple[Passage, ...]]:
        return await look(Calls(None), finder, on_retry=lambda error, wait: told.append((error, wait)))

    assert not asyncio.run(run()).cached
    assert [str(error) for error, _ in told] == ["Broken.", "Wait."]
    assert len(finder.asked) == 3


def test_what_cannot_pass_ends_a_remote_search_at_once() -> None:
    finder = Finder(EndpointError("No."))

    async def run() -> None:
        await look(Calls(None), finder)

    with pytest.raises(EndpointError, match="No"):
        asyncio.run(run())
    assert len(finder.asked) == 1


def test_the_key_changes_with_all_that_determines_a_search() -> None:
    finder = Finder()
    keys = [
        search_key(finder, "Who?", 2, None),
        search_key(finder, "Who? ", 2, None),
        search_key(finder, "Who?", 3, None),
        search_key(finder, "Who?", 2, {"a": "b"}),
        search_key(finder, "Who?", 2, {"ab": ""}),
        search_key(finder, "Who?", 2, {"a": "b", "c": "d"}),
        search_key(Finder(identity="fake:2"), "Who?", 2, None),
    ]
    assert len(set(keys)) == len(keys)
    assert search_key(finder, "Who?", 2, {}) == keys[0]
    assert search_key(finder, "Who?", 2, {"c": "d", "a": "b"}) == keys[5]


def context(finder: Finder, calls: Calls) -> Context:
    model = ScriptedModel(rules=[])
    return Context(method="test", model=model, calls=calls, trace=Trace("run", ()), retriever=finder)


def test_a_context_records_where_a_search_came_from_and_what_went_wrong(tmp_path: Path, no_backoff: None) -> None:
    finder = Finder(EndpointError("Broken.", "Mend it.", retryable=True))

    async def run() -> list[dict[str, Any]]:
        cache = Cache(tmp_path / "replies.sqlite")
        ctx = context(finder, Calls(cache))
        await ctx.search("Who?", k=2)
        await ctx.search("Who?", k=2, where={"lang": "pl"})
        await ctx.search("Who?", k=2)
        cache.close()
        return ctx.trace.events

    retry, *searches = asyncio.run(run())
    assert (retry["event"], retry["step"], retry["error"]) == ("retry", "search", "Broken. Mend it.")
    assert [event["cached"] for event in searches] == [False, False, True]
    assert [event.get("where") for event in searches] == [None, {"lang": "pl"}, None]
    assert all(event["event"] == "retrieve" and event["seconds"] >= 0.005 for event in searches)
    assert read_result([retry, *searches]).usage.retrievals == 3


def test_a_cache_that_is_lost_in_a_search_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cache, "_write", full)

    async def run() -> list[dict[str, Any]]:
        cache = Cache(tmp_path / "replies.sqlite")
        ctx = context(Finder(), Calls(cache))
        await ctx.search("Who?", k=2)
        cache.close()
        return ctx.trace.events

    assert [event["event"] for event in asyncio.run(run())] == ["warning", "retrieve"]


def test_an_engine_leaves_open_what_was_handed_to_it() -> None:
    """Several runs in a row may share a model, whose weights take long to load."""
    closed: list[str] = []

    class Shared(Finder):
        async def aclose(self) -> None:
            closed.append("retriever")

    class Loaded(ScriptedModel):
        async def aclose(self) -> None:
            closed.append("model")

    async def run() -> None:
        async with Engine(model=Loaded(rules=[]), corpus=Shared(), cache=None):
            pass

    asyncio.run(run())
    assert closed == []


class Loaded(ScriptedModel):
    """A model that takes its time to load, by a clock of its own."""

    def __init__(self, clock: list[float]) -> None:
        super().__init__(rules=[Rule("yes")])
        self.clock, self.is_loaded = clock, 0

    async def load(self) -> None:
        if not self.is_loaded:
            self.clock[0] += 100.0
        self.is_loaded += 1


def test_loading_a_model_is_no_part_of_a_reply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("hoptree.runtime.calls.time.monotonic", lambda: clock[0])
    model = Loaded(clock)
    first, again = one_after_another(Calls(Cache(tmp_path / "c.sqlite")), model, REQUEST, REQUEST)
    assert (first.seconds, again.cached, model.is_loaded) == (0.0, True, 1)
    fresh = Loaded(clock)
    one_after_another(Calls(Cache(tmp_path / "c.sqlite")), fresh, REQUEST)
    assert fresh.is_loaded == 0, "what is remembered needs no model"
