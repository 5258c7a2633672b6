"""Calls under way: one flight for all who ask, retries, room to think."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.engine.calling import REQUEST, Finder, asking, one_after_another, say, soon

from hoptree.core.errors import ConfigError, EndpointError, ModelError, RateLimited
from hoptree.engine.cache import Cache
from hoptree.engine.calls import REASONING_TOKENS, Call, Calls
from hoptree.engine.engine import Engine
from hoptree.models.model import Choice, Reply, Request, TokenUsage
from hoptree.models.scripted import Rule, ScriptedModel

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
        assert not calls._flights._flights

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
        assert not calls._flights._flights
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
    retries: list[tuple[ModelError, float]] = []

    async def run() -> Call[Reply]:
        return await Calls(None).generate(
            model, REQUEST, step="test/step", on_retry=lambda error, wait: retries.append((error, wait))
        )

    assert asyncio.run(run()).reply.text == "Paris"
    assert len(model.requests) == 3
    assert len(retries) == 2
    assert all(error.retryable and wait >= 0 for error, wait in retries)
    assert isinstance(retries[0][0], RateLimited) == (fault == "429")


@pytest.mark.parametrize("fault", ["500", "broken", "html"])
def test_it_is_given_up_after_so_many_attempts(fault: str, no_backoff: None) -> None:
    model = ScriptedModel(rules=[Rule(fault=fault)])
    with pytest.raises(ModelError):
        one_after_another(Calls(None), model, REQUEST)
    assert len(model.requests) == 4


def test_a_rate_limit_is_waited_for_as_long_as_patience_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoptree.engine.calls._MAX_WAIT_S", 0.12)
    monkeypatch.setattr("hoptree.engine.calls._MAX_ATTEMPTS", 1)
    model = ScriptedModel(rules=[Rule(fault="429")])
    with pytest.raises(RateLimited):
        one_after_another(Calls(None), model, REQUEST)
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
    monkeypatch.setattr("hoptree.engine.calls._MAX_ATTEMPTS", 99)
    calls = Calls(None)
    error = EndpointError("x", retryable=True)
    waits = [calls._wait(error, failures, 0.0) for failures in range(1, 9)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_what_the_endpoint_asks_for_is_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoptree.engine.calls._MAX_WAIT_S", 10)
    calls = Calls(None)
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
            if request.max_tokens < REASONING_TOKENS:
                return Reply((Choice("", "let me see", "length"),), TokenUsage(10, 0, 64, 64))
            return Reply((Choice("Paris", "let me see"),), TokenUsage(10, 8, 100, 90))

    model = Thinker(rules=[])
    model.room = []
    first, second = one_after_another(Calls(None), model, REQUEST, asking("Where?"))
    assert first.reply.text == "Paris"
    assert first.reply.usage == TokenUsage(20, 8, 164, 154)
    assert second.reply.usage == TokenUsage(10, 8, 100, 90)
    assert model.room == [64, 64 + REASONING_TOKENS, 64 + REASONING_TOKENS]


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


# What is handed in, and what is loaded


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
    monkeypatch.setattr("hoptree.engine.calls.time.monotonic", lambda: clock[0])
    model = Loaded(clock)
    first, again = one_after_another(Calls(Cache(tmp_path / "c.sqlite")), model, REQUEST, REQUEST)
    assert (first.seconds, again.cached, model.is_loaded) == (0.0, True, 1)
    fresh = Loaded(clock)
    one_after_another(Calls(Cache(tmp_path / "c.sqlite")), fresh, REQUEST)
    assert fresh.is_loaded == 0, "what is remembered needs no model"
