"""Many requests in one batch say what each says alone, and none takes the others down."""

from __future__ import annotations

import asyncio
import importlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models.hf_asking import ask, ask_all, asking, mixed, texts
from tests.models.hf_models import RULES, by_transformers
from tests.timing import TIMEOUT_S

from hoptree.core.errors import EndpointError
from hoptree.models.model import Reply

torch: Any = pytest.importorskip("torch")
pytest.importorskip("transformers")
prefixes: Any = importlib.import_module("hoptree.models.batching.kv_cache")


@contextmanager
def before_each_pass(model: Any, hook: Callable[[Any], None]) -> Iterator[None]:
    """Call `hook` with the token ids of every pass through the weights."""
    handle = model.loaded().model.register_forward_pre_hook(
        lambda module, args, kwargs: hook(kwargs["input_ids"]), with_kwargs=True
    )
    yield
    handle.remove()


@pytest.mark.parametrize("kind", ["plain", "windowed"])
@pytest.mark.parametrize("tokens", [16384, 640])
def test_greedy_text_is_that_of_transformers_one_by_one(opened: Callable[..., Any], kind: str, tokens: int) -> None:
    model = opened(kind, max_batch_tokens=tokens)
    requests = mixed(16)
    expected = by_transformers(model, requests)
    assert len(set(expected)) > 8
    assert texts(ask_all(model, requests, gap=0.002)) == expected
    assert texts(ask_all(model, requests)) == expected
    assert texts([ask(model, request) for request in requests[:4]]) == expected[:4]


def test_rows_that_outgrow_the_batch_are_taken_up_again(opened: Callable[..., Any]) -> None:
    model = opened(max_batch_tokens=600)
    requests = mixed(3, most_words=4, max_tokens=190)
    expected = by_transformers(model, requests)
    read: list[int] = []
    with before_each_pass(model, lambda ids: read.append(ids.shape[1])):
        assert texts(ask_all(model, requests)) == expected
    assert max(read) > 100  # a row was read again with what it had written


@pytest.mark.parametrize("kind", ["plain", "windowed"])
def test_a_beginning_that_prompts_share_is_read_once(opened: Callable[..., Any], kind: str) -> None:
    model = opened(kind)
    requests = [asking(f"{RULES}{request.messages[0].content}") for request in mixed(5)]
    requests += [asking(f"{RULES[::-1]}{request.messages[0].content}") for request in mixed(3)]
    expected = by_transformers(model, requests)
    ready = model._engine.ready()
    rows = [ready.text.rows(request)[0] for request in requests]
    read: list[int] = []
    with before_each_pass(model, lambda ids: read.append(ids.numel() if ids.shape[1] > 1 else 0)):
        ready.batcher.submit(rows)
        for row in rows:
            row.future.result(TIMEOUT_S)
    assert texts([ready.text.reply(requests[number], [row]) for number, row in enumerate(rows)]) == expected
    assert sum(row.cached > 64 for row in rows) == 6
    assert sum(read) < sum(len(row.prompt) for row in rows)
    later = ask(model, requests[0])
    assert later.usage.cached > 64 and later.text == expected[0]


@pytest.mark.parametrize(("worth", "sizes"), [(0, [1, 2, 3]), (1_000, [3, 3]), (1_000_000, [6])])
def test_rows_of_too_small_a_gain_are_read_together(opened: Callable[..., Any], worth: int, sizes: list[int]) -> None:
    """Two rows need not read 122 tokens each, three 545, one must read all: put together or not, they say the same."""
    model = opened()
    requests = [asking(f"{RULES}{end}") for end in ("who wrote", "where is the hill")]
    requests += [asking(f"{RULES[::-1]}{end}") for end in ("red", "blue", "green")] + [asking("the town")]
    expected = by_transformers(model, requests)
    ready = model._engine.ready()
    passes = ready.batcher._passes
    ask_all(model, requests)  # so that both beginnings are known
    assert sorted(len(prefix) for prefix in passes._prefixes) == [122, 545]
    passes._min_saved = worth
    found: list[list[int]] = []
    by_prefix = passes._by_prefix

    def listen(rows: Sequence[Any], prompts: Sequence[Any]) -> Any:
        groups = by_prefix(rows, prompts)
        found.append(sorted(map(len, groups.values())))
        return groups

    passes._by_prefix = listen
    rows = [ready.text.rows(request)[0] for request in requests]
    ready.batcher.submit(rows)
    for row in rows:
        row.future.result(TIMEOUT_S)
    assert texts([ready.text.reply(requests[number], [row]) for number, row in enumerate(rows)]) == expected
    assert found == [sizes]
    assert sum(row.cached > 64 for row in rows) == {0: 5, 1_000: 3}.get(worth, 0)


def test_a_beginning_is_taken_from_a_row_that_runs(opened: Callable[..., Any]) -> None:
    model = opened()
    request = asking(f"{RULES}where is the hill", max_tokens=8)
    expected = ask(model, request).text
    ready = model._engine.ready()
    older, younger = (ready.text.rows(asking(f"{RULES}{end}", max_tokens=700))[0] for end in ("who wrote", "red"))
    ready.batcher.submit([older])
    while len(older.output) < 3 and not older.future.done():
        time.sleep(0.001)
    ready.batcher.submit([younger])
    while not younger.output and not younger.future.done():
        time.sleep(0.001)
    reply = ask(model, request)
    assert not older.future.done() and younger.cached > 64
    assert reply.text == expected and reply.usage.cached > 64
    older.future.cancel()
    younger.future.cancel()


def test_samples_share_their_prompt_and_follow_the_seed(opened: Callable[..., Any]) -> None:
    model = opened()
    request = asking(RULES, n=4, temperature=1.2, seed=7)
    alone = texts([ask(model, request)])
    assert len(set(alone)) > 1
    beside = ask_all(model, [*mixed(5, temperature=0.8), request, *mixed(3)])
    assert list(texts([beside[5]])) == alone
    single = asking(RULES, temperature=1.2, seed=9)
    assert ask(model, single).text == alone[2]
    assert texts([ask(model, asking(RULES, n=4, temperature=1.2, seed=70))]) != alone


@pytest.mark.parametrize("kind", ["plain", "windowed"])
def test_samples_read_their_prompt_once_beside_questions_that_begin_alike(
    opened: Callable[..., Any], kind: str
) -> None:
    """What all questions begin with is shared by all; the question itself and its passages by its samples."""
    model = opened(kind)
    requests = [asking(f"{RULES}{end} {RULES[::-1]}", n=6, temperature=1.2, seed=7) for end in ("who wrote", "red")]
    alone = [texts([ask(model, request)]) for request in requests]
    ready = model._engine.ready()
    ready.batcher._passes._prefixes.clear()
    rows = [row for request in requests for row in ready.text.rows(request)]
    read: list[int] = []
    with before_each_pass(model, lambda ids: read.append(ids.numel() if ids.shape[1] > 1 else 0)):
        ready.batcher.submit(rows)
        for row in rows:
            row.future.result(TIMEOUT_S)
    said = [texts([ready.text.reply(request, rows[6 * n : 6 * n + 6])]) for n, request in enumerate(requests)]
    assert said == alone
    assert sum(read) <= sum(len(rows[place].prompt) for place in (0, 6)), "no more than the two prompts have"


def test_a_cancelled_request_leaves_the_batch(opened: Callable[..., Any]) -> None:
    model = opened()
    rows: list[int] = []

    async def cancelled() -> Reply:
        calls = [asyncio.create_task(model.generate(asking(max_tokens=900), step="s")) for _ in range(5)]
        while max(rows, default=0) < 5:
            await asyncio.sleep(0.01)
        for call in calls:
            call.cancel()
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in done)
        reply: Reply = await model.generate(asking(max_tokens=4), step="s")
        return reply

    with before_each_pass(model, lambda ids: rows.append(ids.shape[0])):
        assert asyncio.run(cancelled()).usage.completion == 4
    assert rows[-1] == 1 and len(rows) < 300


def test_too_little_memory_halves_the_batch(opened: Callable[..., Any]) -> None:
    model = opened(max_batch_tokens=4096)
    requests = mixed(16)
    expected = texts(ask_all(model, requests))

    def full(ids: Any) -> None:
        if ids.shape[0] > 3:
            raise torch.OutOfMemoryError("no room")

    with before_each_pass(model, full):
        assert texts(ask_all(model, requests)) == expected
    assert model._engine.ready().batcher.max_batch_tokens < 4096


def test_what_never_fits_is_an_error_with_a_remedy(opened: Callable[..., Any]) -> None:
    small = opened(max_batch_tokens=100)
    with pytest.raises(EndpointError, match="max_batch_tokens") as caught:
        ask(small, asking(max_tokens=100))
    assert not caught.value.retryable
    assert ask(small, asking(max_tokens=2)).usage.completion == 2
    with pytest.raises(EndpointError, match="context 1024"):
        ask(small, asking("river " * 1024))

    def always(ids: Any) -> None:
        raise torch.OutOfMemoryError("no room")

    model = opened()
    with before_each_pass(model, always), pytest.raises(EndpointError, match="no memory for the request"):
        ask_all(model, mixed(4))


def test_a_crash_fails_all_and_hangs_none(opened: Callable[..., Any]) -> None:
    model = opened()

    def broken(ids: Any) -> None:
        raise ValueError("weights gone")

    async def all_fail() -> list[Any]:
        calls = [model.generate(request, step="s") for request in mixed(6)]
        return await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), TIMEOUT_S)

    with before_each_pass(model, broken):
        outcomes = asyncio.run(all_fail())
    assert len(outcomes) == 6
    assert all(isinstance(outcome, EndpointError) and "weights gone" in str(outcome) for outcome in outcomes)
    assert ask(model, asking(max_tokens=3)).usage.completion == 3


def test_closing_ends_the_thread_and_what_waits(opened: Callable[..., Any]) -> None:
    model = opened()
    thread = model._engine.ready().batcher._thread

    async def closed_in_the_middle() -> Any:
        call = asyncio.create_task(model.generate(asking(max_tokens=900), step="s"))
        await asyncio.sleep(0.1)
        await model.aclose()
        await model.aclose()
        return (await asyncio.gather(call, return_exceptions=True))[0]

    outcome = asyncio.run(closed_in_the_middle())
    assert isinstance(outcome, EndpointError) and "closed" in str(outcome)
    assert not thread.is_alive()
    with pytest.raises(EndpointError, match="closed"):
        ask(model, asking())


def test_models_with_the_same_settings_share_one_batch(opened: Callable[..., Any]) -> None:
    first, second = opened(), opened()
    assert first.loaded() is second.loaded()
    asyncio.run(first.aclose())
    assert ask(second, asking(max_tokens=1)).usage.completion == 1
    assert [thread for thread in threading.enumerate() if thread.name == "hoptree-batch"]


def test_the_event_loop_goes_on_while_the_model_works(opened: Callable[..., Any]) -> None:
    model = opened()
    model.loaded()
    inside, turned = threading.Event(), threading.Event()
    seen: list[bool] = []

    def hold(ids: Any) -> None:
        inside.set()
        seen.append(turned.wait(TIMEOUT_S))  # in vain if the loop could not take a turn meanwhile

    async def beside() -> None:
        call = asyncio.create_task(model.generate(asking(max_tokens=1), step="s"))
        while not inside.is_set():
            await asyncio.sleep(0)
        turned.set()
        await call

    with before_each_pass(model, hold):
        asyncio.run(beside())
    assert seen and all(seen)


TOKENS = st.lists(st.integers(0, 2), max_size=12).map(tuple)


@given(TOKENS, TOKENS)
def test_common_length(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    naive = 0
    while naive < min(len(one), len(other)) and one[naive] == other[naive]:
        naive += 1
    assert prefixes._common_length(one, other) == naive


@given(st.lists(TOKENS, max_size=8))
def test_groups_hold_every_prompt_once_and_share_what_they_say(prompts: list[tuple[int, ...]]) -> None:
    found = prefixes.group_by_prefix(prompts)
    assert sorted(member for group in found for member in group.members) == list(range(len(prompts)))
    for group in found:
        assert len({prompts[member][: group.length] for member in group.members}) == 1


def test_a_short_beginning_does_not_join_what_shares_a_long_one() -> None:
    start, long, other = (1,) * 10, (2,) * 200, (3,) * 90
    prompts = [(*start, 9), start + long + (4,), start + other + (4,), start + long + (5,), start + other + (5,)]
    lengths = {group.members: group.length for group in prefixes.group_by_prefix(prompts)}
    assert lengths == {(0,): 0, (1, 3): 210, (2, 4): 100}
