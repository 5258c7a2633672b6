"""Thinking step by step: one answer a sample, with the rationale behind it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.continuation_asked import Scripted
from tests.traced import as_dicts

from hoptree.core.values import Answer, Passage
from hoptree.engine.calls import open_calls
from hoptree.engine.context import Context
from hoptree.engine.trace import Trace
from hoptree.methods.steps.chain_of_thought import think
from hoptree.models.scripted import Rule, ScriptedModel

ASKED = "Where was the author of Emma born?"
CHAIN = "Emma was written by Jane Austen. She was born in Steventon. So the answer is: Steventon."
AUSTEN = Passage("a", "Jane Austen", "Jane Austen was born in Steventon.")
OTHER = Passage("b", "Bath", "Bath is a city.")


def thought(*rules: Rule, **options: Any) -> tuple[list[Answer], Context]:
    ctx = Context(method="cot", model=ScriptedModel(rules=list(rules)), calls=open_calls(None), trace=Trace("run", ()))
    return asyncio.run(think(ctx, ASKED, **options)), ctx


def test_a_rationale_and_what_it_concludes() -> None:
    (answer,), ctx = thought(Rule(CHAIN, logprob=-0.5))
    assert (answer.text, answer.raw, answer.source, answer.support) == ("Steventon", CHAIN, "internal", ())
    assert answer.confidence == pytest.approx(0.6065, abs=1e-4)
    assert ctx.best is not None and ctx.best.text == "Steventon"


def test_passages_stand_before_the_question_and_behind_the_answer() -> None:
    (answer,), ctx = thought(Rule(CHAIN), passages=[AUSTEN, OTHER], titles=True)
    assert (answer.source, answer.support) == ("external", ("a",))
    (_, asked), *_ = ctx.model.requests  # type: ignore[attr-defined]
    assert asked.startswith("Context:\n[1] Jane Austen: Jane Austen was born in Steventon.\n[2] Bath: ")
    assert asked.endswith(f"Question: {ASKED}")


@pytest.mark.parametrize(("passages", "documents"), [((AUSTEN,), 6), ((), 0)])
def test_worked_examples_have_documents_where_the_question_has(passages: tuple[Passage, ...], documents: int) -> None:
    """After examples without, small models read the answer off in one sentence and leave the rest out."""
    model = Scripted([Rule(CHAIN)], frozenset())
    ctx = Context(method="cot", model=model, calls=open_calls(None), trace=Trace("run", ()))
    asyncio.run(think(ctx, ASKED, passages=passages))
    ((_, request),) = model.sent
    shots = [turn.content for turn in request.messages[1:-1] if turn.role == "user"]
    assert len(shots) == 6 and sum(shot.startswith("Context:\n[1] ") for shot in shots) == documents


def test_each_sample_is_an_answer_and_asked_for_its_own_conclusion() -> None:
    answers, ctx = thought(Rule("Hm.", step="think"), Rule("Bath", step="conclude"), samples=3, temperature=0.7)
    assert [(answer.text, answer.raw) for answer in answers] == [("Bath", "Hm. So the answer is Bath")] * 3
    assert [event["ok"] for event in as_dicts(ctx.trace.events) if event["event"] == "parse"] == [True] * 3


def test_what_says_nothing_keeps_what_was_thought() -> None:
    (answer,), ctx = thought(Rule("Hm.", step="think"), Rule("", step="conclude"))
    assert (answer.text, answer.status, answer.raw) == ("", "unknown", "Hm.")
    assert [event["error"] for event in as_dicts(ctx.trace.events) if event["event"] == "parse"] == ["no answer"]


@given(
    st.text(max_size=80) | st.lists(st.sampled_from(["So the ", "answer is", ": ", "{", "X.", "\n", "no"])).map("".join)
)
def test_any_text_is_read(text: str) -> None:
    (answer,), _ = thought(Rule(text))
    assert answer.known is bool(answer.text)
