"""The ask path as programs use it: sync and async, one question and many, traced, counted and within a budget."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.endpoint import (
    FILM_STEPS,
    Endpoint,
    Response,
    Seen,
    film_question,
    films,
    index_of,
    refused,
    said,
    script_films,
    silent,
)
from tests.timing import Clock
from tests.traced import as_dicts

import hoptree
from hoptree.core.errors import EndpointError, HoptreeError
from hoptree.core.values import Passage, Question
from hoptree.engine.context import Budget, Prices
from hoptree.engine.engine import Engine
from hoptree.engine.events import Event
from hoptree.engine.result import Result, read_result
from hoptree.engine.trace import TraceFile, read_traces


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Endpoint() as running:
        script_films(running)
        yield running


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return index_of(tmp_path, *films(100))


@pytest.fixture
def settings(endpoint: Endpoint, corpus: Path, tmp_path: Path) -> dict[str, Any]:
    """Where `ask` finds model, corpus and cache."""
    return {
        "method": "taikc",
        "model": "openai/test",
        "base_url": endpoint.url,
        "corpus": corpus,
        "cache": tmp_path / "replies.sqlite",
    }


def in_substance(result: Result) -> dict[str, Any]:
    """A result without what it cost."""
    return {name: value for name, value in result.as_dict().items() if name != "usage"}


def test_ask_works_without_an_event_loop(settings: dict[str, Any]) -> None:
    result = hoptree.ask(film_question(3), **settings)
    assert (result.answer, result.question, result.method) == ("1903", film_question(3), "taikc")


def test_ask_works_inside_a_running_event_loop(settings: dict[str, Any]) -> None:
    async def notebook() -> Result:
        return hoptree.ask(film_question(3), **settings)

    assert asyncio.run(notebook()).answer == "1903"


def test_aask_gives_the_same_as_ask(settings: dict[str, Any]) -> None:
    awaited = asyncio.run(hoptree.aask(film_question(3), **settings))
    assert in_substance(awaited) == in_substance(hoptree.ask(film_question(3), **settings))


def test_a_model_by_environment_needs_no_base_url(
    settings: dict[str, Any], endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    assert hoptree.ask(film_question(3), **{**settings, "base_url": ""}).answer == "1903"


def test_the_second_time_is_free_and_the_same(settings: dict[str, Any], endpoint: Endpoint) -> None:
    first = hoptree.ask(film_question(3), **settings)
    endpoint.requests.clear()
    second = hoptree.ask(film_question(3), **settings)
    assert not endpoint.requests
    assert in_substance(second) == in_substance(first)
    assert (first.usage.cached_calls, second.usage.cached_calls) == (0, len(FILM_STEPS))
    assert second.usage.llm_calls == first.usage.llm_calls
    assert second.usage.completion_tokens == first.usage.completion_tokens


def test_a_trace_read_back_is_an_equal_result(settings: dict[str, Any], tmp_path: Path) -> None:
    trace = tmp_path / "deep" / "trace.jsonl"
    results = [hoptree.ask(film_question(number), trace=trace, **settings) for number in (3, 5)]
    assert [read_result(events) for events in read_traces(trace)] == results


def test_a_trace_of_questions_asked_at_once_is_read_back_question_by_question(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    trace = tmp_path / "trace.jsonl"

    async def ask() -> list[Result]:
        writer = TraceFile(trace)
        async with Engine(**settings, listeners=(writer,)) as engine:
            results = await asyncio.gather(*(engine.ask(film_question(number)) for number in range(10)))
        writer.close()
        return results

    results = asyncio.run(ask())
    assert [read_result(events) for events in read_traces(trace)] == results


def test_a_failed_question_is_read_back_as_failed(settings: dict[str, Any], endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.on("taikc/final", refused(401, "no such key"))
    trace = tmp_path / "trace.jsonl"
    with pytest.raises(EndpointError) as failed:
        hoptree.ask(film_question(3), trace=trace, **settings)
    (events,) = read_traces(trace)
    result = read_result(events)
    assert (result.answer, result.error, result.error_message) == ("", "EndpointError", str(failed.value))
    assert result.tree[0].answer == "Director N3" and not result.abstained


def test_a_budget_of_seconds_ends_without_the_answer_to_a_part(settings: dict[str, Any], endpoint: Endpoint) -> None:
    clocks: list[Clock] = []

    def late(seen: Seen) -> Response:
        clocks[0].advance(80.0)
        return silent()

    async def ask() -> Result:
        clocks.append(Clock(asyncio.get_running_loop()))
        async with Engine(**settings, budget=Budget(seconds=80.0)) as engine:
            return await engine.ask(film_question(3))

    endpoint.on("taikc/final", late)
    result = asyncio.run(ask())
    assert (result.stopped_by, result.error) == ("seconds", "")
    assert result.answer == "" and result.tree[0].answer == "Director N3"
    assert any("budget of seconds" in warning for warning in result.warnings)


def test_a_budget_of_calls_is_never_overdrawn(settings: dict[str, Any], endpoint: Endpoint) -> None:
    result = hoptree.ask(film_question(3), budget=Budget(calls=3), **settings)
    assert (result.stopped_by, result.answer, len(endpoint.requests)) == ("calls", "", 3)


def test_a_budget_of_money_counts_only_what_is_paid(settings: dict[str, Any]) -> None:
    price = Prices(prompt=1e6, completion=0.0)  # one a prompt token

    async def ask(question: int = 3, **more: Any) -> Result:
        async with Engine(**settings, prices=price, **more) as engine:
            return await engine.ask(film_question(question))

    first = asyncio.run(ask())
    again = asyncio.run(ask(budget=Budget(cost=1)))
    assert first.usage.cost == first.usage.prompt_tokens > 0
    assert (again.answer, again.usage.cost, again.stopped_by) == ("1903", 0.0, "")
    other = asyncio.run(ask(question=4, budget=Budget(cost=1)))
    assert (other.stopped_by, other.usage.llm_calls) == ("cost", 1)


def test_a_hundred_questions_at_once_get_the_answers_they_get_one_at_a_time(
    settings: dict[str, Any], endpoint: Endpoint, tmp_path: Path
) -> None:
    async def at_once() -> list[Result]:
        async with Engine(**settings) as engine:
            return await asyncio.gather(*(engine.ask(film_question(number)) for number in range(100)))

    async def one_at_a_time() -> list[Result]:
        async with Engine(**{**settings, "cache": tmp_path / "other.sqlite"}) as engine:
            return [await engine.ask(film_question(number)) for number in range(100)]

    together = asyncio.run(at_once())
    sent_together = Counter(seen.key for seen in endpoint.requests)
    endpoint.requests.clear()
    apart = asyncio.run(one_at_a_time())
    assert [result.answer for result in together] == [str(1900 + number) for number in range(100)]
    assert [in_substance(result) for result in together] == [in_substance(result) for result in apart]
    assert sent_together == Counter(seen.key for seen in endpoint.requests)
    assert set(sent_together.values()) == {1}


def test_a_cap_on_concurrency_is_kept(settings: dict[str, Any], endpoint: Endpoint) -> None:
    script_films(endpoint, delay=0.01)
    open_now: list[int] = []
    endpoint.on_request = lambda _: open_now.append(sum(not seen.answered for seen in endpoint.requests))

    async def ask() -> None:
        async with Engine(**settings, concurrency=3) as engine:
            await asyncio.gather(*(engine.ask(film_question(number)) for number in range(12)))

    asyncio.run(ask())
    assert len(open_now) == 12 * len(FILM_STEPS)
    assert max(open_now) == 3


def test_a_sub_question_that_two_questions_share_is_paid_once(settings: dict[str, Any], endpoint: Endpoint) -> None:
    """The replies are slow, so that the second question comes while the first one is being answered."""
    shared = "Who directed Film N7?"
    plan = {"query1": {"question": shared, "children": {"query2": {"question": "In which year was #query1 born?"}}}}
    script_films(endpoint, delay=0.05)
    endpoint.on("taikc/decompose", json.dumps(plan))

    async def ask() -> list[Result]:
        async with Engine(**settings) as engine:
            questions = ("When was Film N7's director born?", "How old is who made Film N7?")
            return await asyncio.gather(*map(engine.ask, questions))

    results = asyncio.run(ask())
    assert [result.answer for result in results] == ["1907", "1907"]
    assert Counter(endpoint.steps()) == {
        "taikc/decompose": 2,
        "taikc/confident": 2,
        "taikc/read": 2,
        "taikc/summarise": 1,
        "taikc/final": 2,
    }
    assert [result.usage.llm_calls for result in results] == [7, 7]
    assert sum(result.usage.cached_calls for result in results) == 5


def test_a_question_given_up_does_not_take_along_the_call_another_one_waits_for(
    settings: dict[str, Any], endpoint: Endpoint
) -> None:
    endpoint.on("taikc/decompose", silent(), times=1)

    async def ask() -> Result:
        async with Engine(**settings) as engine:
            leader = asyncio.create_task(engine.ask(film_question(3)))
            while not endpoint.requests:
                await asyncio.sleep(0.01)
            follower = asyncio.create_task(engine.ask(film_question(3)))
            await asyncio.sleep(0.02)
            leader.cancel()
            return await follower

    assert asyncio.run(ask()).answer == "1903"
    assert len(endpoint.requests) == len(FILM_STEPS) + 1, "only the call that was cut off is sent again"


def test_every_request_names_its_step_and_carries_what_determines_the_reply(
    settings: dict[str, Any], endpoint: Endpoint
) -> None:
    hoptree.ask(film_question(3), **settings)
    assert tuple(endpoint.steps()) == FILM_STEPS
    for seen in endpoint.requests:
        assert seen.body["model"] == "test"
        assert (seen.body["temperature"], seen.body["seed"]) == (0.0, 0)
        assert seen.body["max_tokens"] > 0
        assert "prefix" not in seen.body and "stream" not in seen.body


@pytest.mark.parametrize(("method", "step"), [("direct", "direct/direct"), ("oner", "oner/read")])
def test_other_methods_name_themselves_to_the_endpoint(
    method: str, step: str, settings: dict[str, Any], endpoint: Endpoint
) -> None:
    endpoint.on(step, "1903")
    assert hoptree.ask(film_question(3), **{**settings, "method": method}).answer == "1903"
    assert endpoint.steps() == [step]


def test_usage_is_what_the_server_counted(settings: dict[str, Any], endpoint: Endpoint) -> None:
    counted = {
        "prompt_tokens": 100,
        "completion_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    endpoint.on("taikc/summarise", said("A chain.", usage=counted))
    endpoint.on("taikc/final", said("1903", usage=counted))
    usage = hoptree.ask(film_question(3), **settings).usage
    others = {"prompt": 5 * 7, "completion": len(endpoint_words())}
    assert usage.prompt_tokens == others["prompt"] + 200
    assert usage.completion_tokens == others["completion"] + 24
    assert (usage.cached_tokens, usage.reasoning_tokens) == (128, 10)
    assert (usage.llm_calls, usage.retrievals) == (7, 2)
    assert 0 < usage.critical_path_seconds <= usage.seconds


def endpoint_words() -> list[str]:
    """The words of the replies whose tokens the script counts itself."""
    second = {"query2": {"question": "In which year was #query1 born?"}}
    plan = json.dumps({"query1": {"question": "Who directed Film N3?", "children": second}})
    return f"{plan} RAG_REQUIRED Director N3 RAG_REQUIRED 1903".split()


def test_a_server_that_counts_nothing_costs_nothing_and_answers(settings: dict[str, Any], endpoint: Endpoint) -> None:
    endpoint.on("taikc/final", said("1903", usage={}))
    assert hoptree.ask(film_question(3), **settings).answer == "1903"


def test_a_question_keeps_its_id_type_and_hops_in_the_trace(settings: dict[str, Any]) -> None:
    events: list[Event] = []
    question = Question(film_question(3), id="q7", type="bridge", hops=2)
    hoptree.ask(question, listeners=(events.append,), **settings)
    assert {name: events[0].as_dict()[name] for name in ("question_id", "type", "hops")} == {
        "question_id": "q7",
        "type": "bridge",
        "hops": 2,
    }


def test_listeners_hear_events_while_the_question_is_being_answered(
    settings: dict[str, Any], endpoint: Endpoint
) -> None:
    """The plan is announced before its first sub-question has been answered by the endpoint."""
    plan_known: list[bool] = []
    events: list[Event] = []

    def note(seen: Any) -> None:
        if seen.step == "taikc/confident":
            plan_known.append(any(event["event"] == "plan" for event in as_dicts(events)))

    endpoint.on_request = note
    hoptree.ask(film_question(3), listeners=(events.append,), **settings)
    assert plan_known == [True, True]
    assert [event["event"] for event in as_dicts(events)][-1] == "final"


def test_a_mistake_inside_one_question_is_its_result_and_no_more(
    settings: dict[str, Any], endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    script_films(endpoint)

    async def broken(query: str, *, k: int, where: object = None) -> tuple[Passage, ...]:
        raise ZeroDivisionError("an index out of joint")

    async def ask() -> Result:
        async with Engine(**settings) as engine:
            monkeypatch.setattr(engine.retriever, "search", broken)
            return await engine.ask(film_question(3))

    result = asyncio.run(ask())
    assert (result.answer, result.error, result.abstained) == ("", "InternalError", False)
    assert "an index out of joint" in result.error_message
    assert isinstance(result.failure, HoptreeError) and isinstance(result.failure.__cause__, ZeroDivisionError)
