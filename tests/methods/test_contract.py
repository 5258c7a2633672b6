"""What holds of every method, whatever the model says: one contract for all that are registered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from tests.methods.asked import Shelf
from tests.methods.contract_world import ASKED, BAD, FOUND, Say, Voice, World, always, by_chance
from tests.methods.small_knowledge import Pages, SmallGraph
from tests.traced import as_dicts

from hoptree.core.errors import CorpusError
from hoptree.core.values import Passage
from hoptree.engine.context import Budget
from hoptree.engine.own_prompts import files_of
from hoptree.engine.registry import Method, find_method, list_methods
from hoptree.engine.result import Result

METHODS = [method.name for method in list_methods()]
NEEDS = {"corpus", "graph", "logprobs"}
every = pytest.mark.parametrize("name", METHODS)


@pytest.fixture(autouse=True)
def mishaps_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that is none of Hoptree's own comes out as itself, with the place where it was made."""
    monkeypatch.setenv("HOPTREE_DEBUG", "1")


@contextmanager
def told_of(what: object) -> Iterator[None]:
    """Say in what case something failed."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in the case of: {what}")
        raise


def _prompts(method: Method) -> set[str]:
    """The prompts that a method says it uses."""
    return {name.removesuffix(".txt") for name in files_of(method)}


def check(world: World, result: Result) -> None:
    """A result that says what happened, and a trace that bears it out."""
    method = find_method(world.method)
    outcomes = [bool(result.answer), result.abstained, bool(result.error)]
    assert sum(outcomes) == 1 or result.stopped_by, outcomes
    assert result.error == "", result.error_message
    assert len(result.answer) <= 1_000 and "\n" not in result.answer
    assert json.loads(json.dumps(result.as_dict()))["answer"] == result.answer
    assert all(json.dumps(event.as_dict()) for event in world.events)
    (final,) = world.of("final")
    retrieved = {passage["id"] for event in world.of("retrieve") for passage in event["passages"]}
    assert set(final["support"]) <= retrieved
    assert {event["role"] for event in world.of("llm")} <= set(method.roles)
    assert {event["template"].partition("@")[0] for event in world.of("llm")} <= _prompts(method)
    assert all({"step", "ok", "repairs", "error"} <= set(event) for event in world.of("parse"))
    assert all(event["ok"] or event["error"] for event in world.of("parse"))
    assert result.usage.llm_calls - result.usage.cached_calls == len(world.voice.requests)


@every
def test_a_method_tells_what_it_is(name: str) -> None:
    method = find_method(name)
    assert method.title and method.summary.endswith(".")
    assert set(method.needs) <= NEEDS
    assert all(option.default is not Ellipsis for option in method.options)
    assert json.loads(json.dumps(method.as_dict()))["name"] == name


@every
def test_bad_replies_are_no_bad_end(name: str) -> None:
    for kind, reply_text in BAD.items():
        with told_of(kind):
            world = World(name, Voice(always(reply_text)))
            check(world, world.ask())
            if not reply_text.strip():
                assert world.of("final")[0]["answer"] == "", "nothing was said"


@every
def test_replies_that_belong_elsewhere_are_no_bad_end(name: str) -> None:
    for number in range(5):
        with told_of(number):
            world = World(name, Voice(by_chance))
            check(world, world.ask(f"{ASKED} {number}"))


@every
def test_that_nothing_is_told_is_no_answer(name: str) -> None:
    for reply_text in (
        "The documents do not mention it.",
        "The documents do not mention the year, but the song is X.",
        "Providence, though no document mentions it.",
        "So the answer is: not mentioned in the passages.",
        "Unknown.",
        "So the answer is: unknown.",
        "It is unclear.",
        "I do not know.",
        "I'm not sure.",
        "I am not familiar with this film.",
        "RAG_REQUIRED",
    ):
        with told_of(reply_text):
            world = World(name, Voice(always(reply_text)))
            assert world.ask().abstained


def knowing(reply: str) -> Say:
    """The same in every step, but for whether the model knows."""
    return lambda step, chance: "Yes" if step.endswith("know") else reply


@every
def test_a_title_that_sounds_like_a_refusal_is_an_answer(name: str) -> None:
    for title in ("I Still Haven't Found What I'm Looking For", "Can't Find My Way Home", "Not Given Lightly"):
        for reply_text in (title, f"So the answer is: {title}."):
            with told_of(reply_text):
                assert World(name, Voice(knowing(reply_text))).ask().answer == title


_NOT_READ = {
    "look_back",  # writes nothing
    "restate",  # writes nothing
    "sample",  # how far samples are apart is all that counts
    "weigh",  # writes nothing
}
_READ_WITH = {"conclude": {"conclude", "think", "use"}, "classify": {"classify", "route"}}
"""Replies that finish another one are read together with it."""


@every
def test_of_every_reply_it_is_told_whether_it_could_be_read(name: str) -> None:
    """Else the share of replies that could not be read would be that of a few steps."""
    for number in range(5):
        world = World(name, Voice(by_chance))
        world.ask(f"{ASKED} {number}")
        parsed = {event["step"] for event in world.of("parse")}
        asked = {event["step"] for event in world.of("llm")} - _NOT_READ
        assert {step for step in asked if not _READ_WITH.get(step, {step}) & parsed} == set()


@every
def test_a_method_that_has_texts_continued_says_so(name: str) -> None:
    """Else it would be called exact with a model that can only be asked to go on."""
    for number in range(8):
        world = World(name, Voice(by_chance))
        world.ask(f"{ASKED} {number}")
        continued = {step for step, request in world.voice.requests if request.prefix}
        assert not continued or "prefix" in find_method(name).signals, continued


@every
def test_nothing_found_is_no_bad_end(name: str) -> None:
    for reply_text in ("So the answer is: Providence.", "", "1. Who directed Whiplash?"):
        with told_of(reply_text):
            world = World(name, Voice(always(reply_text)), corpus=Shelf(), graph=SmallGraph())
            check(world, world.ask())
            assert world.of("final")[0]["support"] == []


@every
def test_passages_without_a_word_are_no_bad_end(name: str) -> None:
    blank = Shelf(Passage("a", "", ""), Passage("b", " ", "\n"), Passage("c", "?", "!"))
    world = World(name, Voice(by_chance), corpus=blank, graph=SmallGraph(("", "", "")))
    check(world, world.ask())


@every
def test_a_budget_of_one_call_is_one_call(name: str) -> None:
    free = World(name, Voice(by_chance))
    free.ask()
    world = World(name, Voice(by_chance), budget=Budget(calls=1))
    result = world.ask()
    check(world, result)
    assert len(world.voice.requests) == min(1, len(free.voice.requests))
    assert result.stopped_by == ("calls" if len(free.voice.requests) > 1 else "")
    assert not result.stopped_by or result.answer or any("no answer" in warning for warning in result.warnings)


@every
def test_a_budget_of_seconds_ends_what_waits(name: str) -> None:
    world = World(name, Voice(by_chance, stalls=1), budget=Budget(seconds=0.02))
    assert world.ask().stopped_by == "seconds"


class Stuck(Pages):
    """Finds nothing, for ever."""

    def __init__(self) -> None:
        super().__init__(*FOUND)
        self.reached = asyncio.Event()

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        self.reached.set()
        await asyncio.Event().wait()
        return ()


@pytest.mark.parametrize("place", ["first call", "third call", "search"])
@every
def test_a_question_can_be_given_up_at_any_time(name: str, place: str) -> None:
    async def given_up() -> bool:
        stuck = Stuck()
        voice = Voice(by_chance, stalls={"first call": 1, "third call": 3}.get(place, 0))
        world = World(name, voice, corpus=stuck if place == "search" else Pages(*FOUND))
        reached = stuck.reached if place == "search" else voice.stalled
        async with world.engine() as engine:
            before = asyncio.all_tasks()
            asking = asyncio.create_task(engine.ask(ASKED))
            waiting = asyncio.create_task(reached.wait())
            await asyncio.wait((asking, waiting), return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            was_reached = not asking.done()
            asking.cancel()
            await asyncio.wait((asking, waiting))
            assert asking.cancelled() or not was_reached
            assert asyncio.all_tasks() == before, "something goes on"
        return was_reached

    reached = asyncio.run(given_up())
    if place == "first call":
        assert reached or "corpus" not in find_method(name).needs


def comparable(world: World, result: Result) -> dict[str, Any]:
    """What does not depend on time."""
    fields = result.as_dict()
    for name in ("seconds", "critical_path_seconds"):
        del fields["usage"][name]
    fields["chains"].sort()
    requests = [(step, request.messages[-1].content, request.prefix) for step, request in world.voice.requests]
    return {**fields, "requests": sorted(requests), "queries": sorted(event["query"] for event in world.of("retrieve"))}


@every
def test_two_runs_are_equal_whichever_reply_comes_first(name: str) -> None:
    for question in (ASKED, f"{ASKED} Say."):
        steady = World(name, Voice(by_chance))
        unsteady = World(name, Voice(by_chance, unsteady=True))
        assert comparable(steady, steady.ask(question)) == comparable(unsteady, unsteady.ask(question))


@every
def test_questions_asked_at_once_are_answered_as_if_alone(name: str) -> None:
    questions = [f"{ASKED[:-1]}, number {number}?" for number in range(10)]

    async def all_at_once() -> list[Result]:
        async with World(name, Voice(by_chance, unsteady=True, most=50_000)).engine() as engine:
            return await asyncio.gather(*(engine.ask(question) for question in questions))

    together = asyncio.run(all_at_once())
    assert [result.question for result in together] == questions
    assert {result.error for result in together} == {""}
    for number in (0, 4, 9):
        alone = World(name, Voice(by_chance)).ask(questions[number])
        beside = together[number]
        assert (beside.answer, beside.usage.llm_calls) == (alone.answer, alone.usage.llm_calls)
        assert (beside.evidence, sorted(beside.chains)) == (alone.evidence, sorted(alone.chains))


@every
def test_a_model_that_fails_is_told_of(name: str) -> None:
    for call in (1, 2, 4):
        with told_of(call):
            world = World(name, Voice(by_chance, fails=call))
            result = world.ask()
            if len(world.voice.requests) < call:
                check(world, result)
            else:
                assert (result.error, result.answer) == ("EndpointError", "")
                assert "Start it again." in result.error_message


class Broken(Pages):
    """An index that is damaged."""

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        raise CorpusError("The index is damaged.", "Make it anew.")


@every
def test_a_corpus_that_fails_is_told_of(name: str) -> None:
    world = World(name, Voice(by_chance), corpus=Broken(*FOUND))
    result = world.ask()
    assert (result.error, result.answer) == ("CorpusError", "") if result.error else "retrieve" not in _kinds(world)


def _kinds(world: World) -> set[str]:
    return {event["event"] for event in as_dicts(world.events)}


@every
def test_what_a_method_needs_is_asked_for_before_anything_is_paid(name: str) -> None:
    method = find_method(name)
    for need, refusal in (("corpus", "CorpusError"), ("graph", "GraphError"), ("logprobs", "ConfigError")):
        world = World(name, Voice(by_chance, lacks=frozenset({need})))
        if need != "logprobs":
            setattr(world, need, None)
        result = world.ask()
        if need in method.needs:
            assert (result.error, world.voice.requests) == (refusal, []), need
        else:
            check(world, result)


@every
def test_a_model_that_tells_nothing_but_text_will_do_unless_more_is_needed(name: str) -> None:
    world = World(name, Voice(by_chance, lacks=Voice.ALL))
    result = world.ask()
    if "logprobs" in find_method(name).needs:
        assert result.error == "ConfigError"
    else:
        check(world, result)


def settings(method: Method) -> list[dict[str, Any]]:
    """Each switch the other way, and each choice that is not the default."""
    return [
        {option.name: value}
        for option in method.options
        for value in ((not option.default,) if option.type is bool else option.choices)
        if value != option.default
    ]


@pytest.mark.parametrize(
    ("name", "options"),
    [(method.name, options) for method in list_methods() for options in settings(method)],
    ids=str,
)
def test_every_switch_keeps_the_contract_or_says_what_it_lacks(name: str, options: dict[str, Any]) -> None:
    for say in (by_chance, always("")):
        world = World(name, Voice(say), options)
        result = world.ask()
        if result.error == "ConfigError" and not world.voice.requests:
            continue
        check(world, result)
