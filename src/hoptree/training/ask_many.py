"""Putting many questions to something, some of which fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from hoptree.core.circuit_breaker import CircuitBreaker
from hoptree.core.errors import HoptreeError
from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.engine import Engine
from hoptree.engine.registry import Method
from hoptree.engine.schedule import together
from hoptree.evaluation.ask_question import at_once
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.metrics import best_overlap, exact_match, yes_no
from hoptree.methods.steps.answer import direct_answer

T = TypeVar("T")
Q = TypeVar("Q")


async def ask_all(
    questions: Sequence[Q],
    ask: Callable[[Q], Awaitable[tuple[T, HoptreeError | None]]],
    *,
    at_once: int,
    on_done: Callable[[], None] = lambda: None,
) -> list[T]:
    """What came of every question, in their order; `ask` also gives the failure of one that failed.

    If the first ones all fail, what they fail by is raised.
    """
    found: dict[int, T] = {}
    waiting = iter(range(len(questions)))
    breaker = CircuitBreaker()
    failures: list[HoptreeError] = []

    async def work() -> None:
        for place in waiting:
            found[place], failure = await ask(questions[place])
            if failure is None:
                breaker.success()
            else:
                failures.append(failure)
                if not breaker.succeeded:
                    breaker.failure(failure)
            on_done()

    await together(work() for _ in range(min(at_once, len(questions))))
    if failures and not breaker.succeeded:
        raise failures[0]
    return [found[place] for place in range(len(questions))]


RIGHT_F1 = 0.8
"""F1 with an accepted answer from which an answer counts as right: "Barack Obama" is "Barack Hussein Obama"."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a model answered to a question, or the failure that kept it from answering."""

    answer: str = ""
    failure: HoptreeError | None = None


def open_memory(model: str, *, method: str, base_url: str, cache: str | None, concurrency: int | None) -> Engine:
    """An engine that answers from memory, by the prompt by which the method has its model do so."""
    engine = Engine(method="direct", model=model, base_url=base_url, cache=cache, concurrency=concurrency)
    engine.method = Method(method, "Answers from memory", _from_memory, ())
    return engine


async def _from_memory(question: Question, ctx: Context) -> Answer:
    answer = await direct_answer(ctx, question.text)
    return replace(answer, status="answered")  # what reads like a refusal may be right


async def answer_from_memory(
    engine: Engine, examples: Sequence[Example], *, on_done: Callable[[], None] = lambda: None
) -> list[Remembered]:
    """Every question once, greedily, many at a time; replies are remembered, so that a second call costs nothing.

    If the first ones all fail, what they fail by is raised.
    """

    async def ask(example: Example) -> tuple[Remembered, HoptreeError | None]:
        result = await engine.ask(example.as_question())
        return Remembered(result.answer, result.failure), result.failure

    return await ask_all(examples, ask, at_once=at_once(engine.model.slots), on_done=on_done)


def is_right(answer: str, golds: Sequence[str], *, f1: float = RIGHT_F1) -> bool:
    """Whether an answer is right: equal to an accepted one in normal form, or its F1 with one is at least `f1`.

    Where yes or no is asked for, the first word decides. With an `f1` of 1, the words must be the same.
    """
    verdict = yes_no(answer, golds)
    if verdict is not None:
        return verdict > 0
    return exact_match(answer, golds) or best_overlap(answer, golds).f1 >= f1
