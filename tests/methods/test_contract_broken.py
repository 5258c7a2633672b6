"""The contract can be broken: methods that break it in one way each are found out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest
from tests.methods import test_contract as contract

from hoptree.core.errors import BudgetSpent
from hoptree.core.values import Answer, Question
from hoptree.engine import registry
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.engine.registry import list_methods, method

NAME = "broken"
Run = Callable[..., Awaitable[Answer]]
kept: list[str] = []
tasks: list[asyncio.Task[str]] = []


async def say(ctx: Context, question: str, role: str = "answer") -> str:
    prompt = prompt_for(ctx.method, "direct").fill(question=question)
    return (await ctx.generate("direct", prompt, role=role, max_tokens=8)).text


async def sound(question: Question, ctx: Context) -> Answer:
    """Say it."""
    lines = (await say(ctx, question.text)).split("\n")
    return Answer(lines[0][:100].strip())


async def stumbles(question: Question, ctx: Context) -> Answer:
    """Fall over nothing."""
    return Answer((await say(ctx, question.text)).split()[0][:100])


async def never_ends(question: Question, ctx: Context) -> Answer:
    """Ask until it is told Providence."""
    while await say(ctx, question.text) != "Providence":
        pass
    return Answer("Providence")


async def rambles(question: Question, ctx: Context) -> Answer:
    """Give all that was said for an answer."""
    return Answer(await say(ctx, question.text))


async def invents(question: Question, ctx: Context) -> Answer:
    """Cite what was never found."""
    answer = await sound(question, ctx)
    return Answer(answer.text, support=("nowhere",))


async def plays_another(question: Question, ctx: Context) -> Answer:
    """Ask a model it has no part for."""
    return Answer((await say(ctx, question.text, role="judge"))[:5].strip())


async def hides_its_end(question: Question, ctx: Context) -> Answer:
    """Say nothing of a budget that is spent."""
    answer = await sound(question, ctx)
    try:
        await say(ctx, f"{question.text} Sure?")
    except BudgetSpent:
        return answer
    return answer


async def leaves_work(question: Question, ctx: Context) -> Answer:
    """Begin what nobody waits for."""
    tasks.append(asyncio.create_task(say(ctx, question.text)))
    return Answer(await asyncio.shield(tasks[-1]))


async def remembers(question: Question, ctx: Context) -> Answer:
    """Count how often it was asked."""
    kept.append(question.text)
    return Answer(f"{await say(ctx, question.text)}{len(kept)}"[-5:].strip())


async def swallows(question: Question, ctx: Context) -> Answer:
    """Take a failure for an answer."""
    try:
        return await sound(question, ctx)
    except Exception:
        return Answer("Providence")


async def pays_first(question: Question, ctx: Context) -> Answer:
    """Ask the model before it looks whether there is a corpus."""
    answer = await sound(question, ctx)
    ctx.require_corpus()
    return answer


def register(run: Run) -> None:
    method(NAME, title="Broken", needs=("corpus",) if run is pays_first else ())(run)


@pytest.fixture
def methods_as_before() -> Iterator[None]:
    list_methods()
    before = dict(registry._registered)
    yield
    registry._registered.clear()
    registry._registered.update(before)


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (stumbles, contract.test_bad_replies_are_no_bad_end),
        (never_ends, contract.test_bad_replies_are_no_bad_end),
        (rambles, contract.test_bad_replies_are_no_bad_end),
        (invents, contract.test_replies_that_belong_elsewhere_are_no_bad_end),
        (plays_another, contract.test_replies_that_belong_elsewhere_are_no_bad_end),
        (hides_its_end, contract.test_a_budget_of_one_call_is_one_call),
        (leaves_work, lambda name: contract.test_a_question_can_be_given_up_at_any_time(name, "first call")),
        (remembers, contract.test_two_runs_are_equal_whichever_reply_comes_first),
        (remembers, contract.test_questions_asked_at_once_are_answered_as_if_alone),
        (swallows, contract.test_a_model_that_fails_is_told_of),
        (pays_first, contract.test_what_a_method_needs_is_asked_for_before_anything_is_paid),
    ],
)
@pytest.mark.usefixtures("methods_as_before")
def test_a_method_that_breaks_a_promise_is_found_out(
    broken: Run, promise: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOPTREE_DEBUG", "1")
    register(sound)
    promise(NAME)
    register(broken)
    with pytest.raises((AssertionError, IndexError)):
        promise(NAME)
