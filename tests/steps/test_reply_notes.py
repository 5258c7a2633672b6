"""What traces tell of replies: read, read when mended, or not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.traced import as_dicts

from hoptree.core.values import Answer, Passage
from hoptree.engine.calls import open_calls
from hoptree.engine.context import Context
from hoptree.engine.trace import Trace
from hoptree.methods.ra_isf import judge_knowledge, judge_passages
from hoptree.methods.steps.answer import (
    answer_from,
    combine_answers,
    confident_answer,
    direct_answer,
    note_written,
    synthesise,
)
from hoptree.models.scripted import Rule, ScriptedModel

ASKED = "Where was Jane Austen born?"
PAGE = Passage("a", "Jane Austen", "Jane Austen was born in Steventon.")
Asks = Callable[[Context], Awaitable[Any]]


def notes_of(method: str, reply: str, ask: Asks) -> list[tuple[str, bool, list[str]]]:
    """Step, whether it could be read, and what was mended, of each reply."""
    model = ScriptedModel(rules=[Rule(reply)])
    ctx = Context(method=method, model=model, calls=open_calls(None), trace=Trace("run", ()))
    asyncio.run(_done(ask(ctx)))
    return [(e["step"], e["ok"], e["repairs"]) for e in as_dicts(ctx.trace.events) if e["event"] == "parse"]


async def _done(asked: Awaitable[Any]) -> None:
    await asked


ANSWERING: dict[str, tuple[str, Asks]] = {
    "confident": ("taikc", lambda ctx: confident_answer(ctx, ASKED)),
    "direct": ("direct", lambda ctx: direct_answer(ctx, ASKED)),
    "read": ("oner", lambda ctx: answer_from(ctx, ASKED, [PAGE])),
    "final": ("compact", lambda ctx: synthesise(ctx, ASKED, ["It was Steventon."])),
    "combine": ("ra_isf", lambda ctx: combine_answers(ctx, ASKED, [("Who?", Answer("Jane Austen"))])),
}


@pytest.mark.parametrize("step", ANSWERING)
@pytest.mark.parametrize(
    ("reply", "ok", "mended"),
    [
        ("Steventon", True, False),
        ("Steventon.", True, False),
        ("The answer is: Steventon.", True, True),
        ("Steventon\n\nJane Austen was born there in 1775.", True, True),
        ("I do not know.", True, False),
        ("", False, False),
        (" \n ", False, False),
    ],
)
def test_a_reply_that_is_to_be_an_answer(step: str, reply: str, ok: bool, mended: bool) -> None:
    method, ask = ANSWERING[step]
    ((named, read, repairs),) = notes_of(method, reply, ask)
    assert (named, read, bool(repairs)) == (step, ok, mended)


@pytest.mark.parametrize(
    ("reply", "ok"), [("Yes", True), ("No.", True), ("I don't know.", True), ("Steventon", False), ("", False)]
)
def test_whether_a_model_knows(reply: str, ok: bool) -> None:
    assert notes_of("ra_isf", reply, lambda ctx: judge_knowledge(ctx, ASKED)) == [("know", ok, [])]


@pytest.mark.parametrize(
    ("reply", "ok"), [("relevant", True), ("Irrelevant.", True), ("no", True), ("Steventon", False), ("", False)]
)
def test_whether_a_passage_is_relevant(reply: str, ok: bool) -> None:
    notes = notes_of("ra_isf", reply, lambda ctx: judge_passages(ctx, ASKED, [PAGE, PAGE]))
    assert notes == [("relevance", ok, [])] * 2


@pytest.mark.parametrize(
    ("reply", "ok"), [("[1]", True), ("None", True), ("Irrelevant: [1]", True), ("Steventon", False), ("", False)]
)
def test_which_of_several_passages_are_relevant(reply: str, ok: bool) -> None:
    notes = notes_of("ra_isf", reply, lambda ctx: judge_passages(ctx, ASKED, [PAGE], listwise=True))
    assert notes == [("relevance", ok, [])]


@pytest.mark.parametrize(
    ("reply", "before", "ok", "repairs"),
    [("More.", "Some.", True, []), ("Some.", "", True, []), ("", "Some.", True, ["ended"]), ("", "", False, [])],
)
def test_a_text_that_is_gone_on_with(reply: str, before: str, ok: bool, repairs: list[str]) -> None:
    async def ask(ctx: Context) -> None:
        note_written(ctx, "draft", reply, before)

    assert notes_of("cot", "", ask) == [("draft", ok, repairs)]
