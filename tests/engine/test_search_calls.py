"""Searches in engines elsewhere are treated as calls of a model are."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.engine.calling import Finder, full, ignore, soon
from tests.traced import as_dicts

from hoptree.core.errors import EndpointError, ModelError, RateLimited
from hoptree.core.values import Passage
from hoptree.engine.cache import Cache
from hoptree.engine.calls import Call, Calls, OnRetry, search_key
from hoptree.engine.context import Context
from hoptree.engine.events import Event
from hoptree.engine.result import read_result
from hoptree.engine.trace import Retried, Trace
from hoptree.models.scripted import ScriptedModel
from hoptree.retrieval.remote.wikipedia import Wikipedia
from hoptree.retrieval.remote.wikipedia_api import WikiApi
from hoptree.retrieval.rerank import Distinct, Fused
from hoptree.retrieval.retriever import cache_lifetime


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
        replies = [await look(calls, finder), await look(calls, finder)]
        cache.close()
        return replies

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
        replies = list(await asyncio.gather(*(look(calls, finder, where={"a": "b"}) for _ in range(3))))
        cache.close()
        return replies

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
    retries: list[tuple[ModelError, float]] = []
    finder = Finder(EndpointError("Broken.", retryable=True), RateLimited("Wait.", retryable=True, retry_after=0.01))

    async def run() -> Call[tuple[Passage, ...]]:
        return await look(Calls(None), finder, on_retry=lambda error, wait: retries.append((error, wait)))

    assert not asyncio.run(run()).cached
    assert [str(error) for error, _ in retries] == ["Broken.", "Wait."]
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

    async def run() -> list[Event]:
        cache = Cache(tmp_path / "replies.sqlite")
        ctx = context(finder, Calls(cache))
        await ctx.search("Who?", k=2)
        await ctx.search("Who?", k=2, where={"lang": "pl"})
        await ctx.search("Who?", k=2)
        cache.close()
        return ctx.trace.events

    retry, *searches = asyncio.run(run())
    assert isinstance(retry, Retried) and (retry.step, retry.error) == ("search", "Broken. Mend it.")
    assert [event["cached"] for event in as_dicts(searches)] == [False, False, True]
    assert [event.get("where") for event in as_dicts(searches)] == [None, {"lang": "pl"}, None]
    assert all(event["event"] == "retrieve" and event["seconds"] >= 0.005 for event in as_dicts(searches))
    assert read_result([retry, *searches]).usage.retrievals == 3


def test_a_cache_that_is_lost_in_a_search_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cache, "_write", full)

    async def run() -> list[Event]:
        cache = Cache(tmp_path / "replies.sqlite")
        ctx = context(Finder(), Calls(cache))
        await ctx.search("Who?", k=2)
        cache.close()
        return ctx.trace.events

    assert [event.event for event in asyncio.run(run())] == ["warning", "retrieve"]


def test_what_a_changing_source_said_counts_for_as_long_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finder, lasting = Finder(), Finder(identity="fake:2")
    finder.cache_seconds = 100.0  # type: ignore[attr-defined]
    now = [1_000.0]
    monkeypatch.setattr("hoptree.engine.calls.time.time", lambda: now[0])

    async def run(at: float) -> list[bool]:
        now[0] = at
        cache = Cache(tmp_path / "replies.sqlite")
        calls = Calls(cache)
        cached = [(await look(calls, retriever)).cached for retriever in (finder, lasting)]
        cache.close()
        return cached

    assert [asyncio.run(run(at)) for at in (1_000, 1_099, 1_100, 1_150)] == [
        [False, False],
        [True, True],
        [False, True],
        [True, True],
    ]


def test_what_is_put_on_top_of_a_changing_source_changes_with_it() -> None:
    finder, fixed = Finder(), Finder(identity="fake:2")
    finder.cache_seconds = 100.0  # type: ignore[attr-defined]
    assert cache_lifetime(finder) == cache_lifetime(Distinct(finder)) == 100
    assert cache_lifetime(Fused([fixed, finder], [1, 1])) == 100
    assert cache_lifetime(fixed) == cache_lifetime(Distinct(fixed)) == math.inf
    assert 0 < cache_lifetime(Wikipedia(WikiApi("http://127.0.0.1:9/w/api.php"))) <= 86_400
