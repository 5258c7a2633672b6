"""Questions, passages and replies made to be slow: the work of every method grows with their length, not its square."""

from __future__ import annotations

import asyncio
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from types import FrameType, MappingProxyType
from typing import Any

import pytest
from tests.methods.contract_world import ASKED, FOUND, SUITED, Library, Say, Voice, World, always
from tests.steps.broken_texts import HOSTILE

from hoptree.core.values import Passage
from hoptree.engine.engine import MAX_QUESTION
from hoptree.engine.registry import list_methods
from hoptree.engine.schedule import fold_events
from hoptree.engine.trace import ModelCalled, Retrieved

METHODS = [method.name for method in list_methods()]
SIZES = (2_000, 8_000)
MOST = 10
"""Times the steps that four times the text may take: 4 if they grow with it, 16 if they grow with its square.

More than 4, since a method may take another way through a longer text, with fewer requests to share its steps.
"""


def suited(step: str, chance: random.Random) -> str:
    """The same reply whatever the text, so that runs over texts of several lengths take the same way."""
    return SUITED.get(step.rpartition("/")[2], ("Providence",))[0]


def hostile(size: int) -> str:
    """All repetitions in one text, each as long as the others."""
    each = size // len(HOSTILE)
    return "".join((unit * each)[:each] for unit in HOSTILE.values())


def steps(
    name: str,
    question: str = ASKED,
    say: Say = suited,
    before: str = "",
    options: Mapping[str, Any] = MappingProxyType({}),
) -> float:
    """Calls of functions, those of the interpreter included, for each request that a method sends."""
    pages = Library(*(Passage(p.id, p.title, before + p.text) for p in FOUND))
    world = World(name, Voice(say), options, corpus=pages)
    count = 0

    def step(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += 1

    world.ask()  # what is loaded or compiled once is not counted
    world = World(name, Voice(say), options, corpus=pages)
    count_steps(step, world, question)
    return count / max(1, len(world.voice.requests))


def count_steps(step: Callable[[FrameType, str, Any], None], world: World, question: str = ASKED) -> None:
    """Ask a question, and call `step` for each step of every thread."""
    threading.setprofile(step)
    sys.setprofile(step)
    try:
        world.ask(question)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def linear(counts: list[float]) -> bool:
    return all(more <= MOST * less for less, more in pairwise(counts))


@pytest.mark.parametrize("name", METHODS)
def test_work_grows_with_the_question(name: str) -> None:
    counts = [steps(name, hostile(size)) for size in SIZES]
    assert linear(counts), counts


@pytest.mark.parametrize("name", METHODS)
def test_work_grows_with_passages(name: str) -> None:
    counts = [steps(name, before=hostile(size)) for size in SIZES]
    assert linear(counts), counts


@pytest.mark.parametrize("name", METHODS)
def test_work_grows_with_replies(name: str) -> None:
    counts = [steps(name, say=always(hostile(size))) for size in SIZES]
    assert linear(counts), counts


def test_a_reply_of_a_megabyte_costs_no_more_than_what_was_asked_for() -> None:
    """An endpoint need not keep to `max_tokens`; what is read of its reply does."""
    world = World("direct", Voice(always("a b " * 250_000)))
    result = world.ask()
    assert max(len(event["reply"]) for event in world.of("llm")) < 20_000
    assert any("cut off" in warning for warning in result.warnings)


def test_replies_do_not_grow_with_the_text_before_them() -> None:
    """A model continues its own text: if each reply may be as long as the text so far, ten of them double it."""
    world = World("seakr", Voice(always("A, " * 20_000)))
    world.ask()
    assert max(len(event["reply"]) for event in world.of("llm")) < 10_000


def test_the_tokens_of_samples_are_not_read() -> None:
    """SeaKR compares the states of samples; most of its time went into placing their tokens in the text."""
    counts = [steps("seakr", say=always("A, " * 3_000), options={"samples": samples}) for samples in (2, 20)]
    assert counts[1] < 2 * counts[0], counts


@pytest.mark.parametrize("name", ["cot_sc", "cok", "tog2"])
def test_the_event_loop_serves_others_between_two_samples(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred samples of a hostile endpoint held it for three seconds."""
    run, step_count, longest = asyncio.Handle._run, 0, 0

    def step(*_: object) -> None:
        nonlocal step_count
        step_count += 1

    def run_counted(handle: asyncio.Handle) -> None:
        nonlocal longest, step_count
        step_count = 0
        run(handle)
        longest = max(longest, step_count)

    def longest_callback(samples: int) -> int:
        nonlocal longest
        world = World(name, Voice(always("1. A\n" * 1_000)), {"samples": samples})
        world.ask()
        longest = 0
        monkeypatch.setattr(asyncio.Handle, "_run", run_counted)
        count_steps(step, world)
        monkeypatch.undo()
        return longest

    assert longest_callback(60) < 3 * longest_callback(6)


def test_attention_is_asked_of_few_words_however_many_are_in_doubt() -> None:
    """Each of them gets a weight for every word of the prompt."""
    world = World("dragin", Voice(always("Aa Bb " * 500)))
    world.ask()
    spans = [len(request.attention_of) for _, request in world.voice.requests]
    assert 0 < max(spans) <= 32


@pytest.mark.parametrize(("count", "limit"), [(4, 20_000), (10, 20_000), (20, 10_000), (100, 3_000)])
def test_a_passage_is_read_up_to_a_limit_and_the_reader_is_told(count: int, limit: int) -> None:
    pages = Library(*(Passage(f"p{place}", "Whiplash", f"{ASKED} {place}" + " and" * 10_000) for place in range(count)))
    world = World("oner", Voice(always("Providence")), {"k": count}, corpus=pages)
    result = world.ask()
    (search,) = world.of("retrieve")
    assert [len(passage["text"]) for passage in search["passages"]] == [limit] * count
    assert any(f"{limit:,} characters" in warning for warning in result.warnings)


def test_the_result_of_much_text_is_put_together_beside_the_event_loop() -> None:
    pages = Library(*(Passage(p.id, p.title, p.text + hostile(20_000)) for p in FOUND))
    threads: Counter[int] = Counter()

    def step(frame: FrameType, event: str, argument: Any) -> None:
        threads[threading.get_ident()] += 1

    World("oner", Voice(suited), corpus=pages).ask()
    count_steps(step, World("oner", Voice(suited), corpus=pages))
    assert threads[threading.get_ident()] < threads.total() / 2


@pytest.mark.parametrize(("chars", "beside"), [(100, False), (30_000, True)])
def test_events_of_much_text_are_read_beside_the_event_loop(chars: int, beside: bool) -> None:
    """So are the result of a worker, and the trees that are streamed while a question is answered."""
    for event in (ModelCalled(reply="a" * chars), Retrieved(passages=[{"text": "a" * chars}])):
        thread, events = asyncio.run(fold_events(lambda events: (threading.get_ident(), events), [event]))
        assert (thread != threading.get_ident()) is beside
        assert list(events) == [event]


@pytest.mark.parametrize("unit", HOSTILE)
def test_mind_reads_the_longest_question_of_any_kind(unit: str) -> None:
    """Its names were each held against all words of the question: a minute of work in the loop of a server."""
    question = (HOSTILE[unit] * MAX_QUESTION)[:MAX_QUESTION]
    counts = [steps("mind", part if part.strip() else f"{part[1:]}?") for part in (question[:2_000], question)]
    assert linear(counts), counts
