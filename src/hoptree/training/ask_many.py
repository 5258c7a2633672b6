"""Ask a model many questions at a time, and decide whether its answers from memory are right."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from hoptree.core.circuit_breaker import CircuitBreaker
from hoptree.core.errors import HoptreeError, InputError
from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.engine import Engine
from hoptree.engine.registry import Method
from hoptree.engine.schedule import together
from hoptree.evaluation.ask_question import at_once
from hoptree.evaluation.metrics import best_overlap, exact_match, yes_no
from hoptree.methods.steps.answer import direct_answer
from hoptree.training.questions import TrainingQuestion

T = TypeVar("T")

RIGHT_F1 = 0.8
"""F1 with an accepted answer from which an answer counts as right: "Barack Obama" is "Barack Hussein Obama"."""


async def ask_all(
    engine: Engine,
    questions: Sequence[TrainingQuestion],
    ask: Callable[[TrainingQuestion], Awaitable[tuple[T, HoptreeError | None]]],
    on_done: Callable[[], None],
) -> list[T]:
    """Return what `ask` gives for every question, in their order, asking as many at once as the model has slots.

    `ask` also gives the failure of a question that failed. If the first ones all fail, their failure is raised.
    """
    results: dict[int, T] = {}
    waiting = iter(range(len(questions)))
    breaker = CircuitBreaker()
    failures: list[HoptreeError] = []

    async def work() -> None:
        for place in waiting:
            results[place], failure = await ask(questions[place])
            if failure is None:
                breaker.success()
            else:
                failures.append(failure)
                if not breaker.succeeded:
                    breaker.failure(failure)
            on_done()

    await together(work() for _ in range(min(at_once(engine.model.slots), len(questions))))
    if failures and not breaker.succeeded:
        raise failures[0]
    return [results[place] for place in range(len(questions))]


def with_answers(questions: Sequence[TrainingQuestion], why: str) -> list[TrainingQuestion]:
    """Return the questions that have an accepted answer; `why` says what answers are needed for."""
    if not (answerable := [question for question in questions if question.example.answers]):
        raise InputError("No question has an accepted answer.", f"Give a file with answers: {why}.")
    return answerable


def open_memory(model: str, *, method: str, base_url: str, cache: str | None, concurrency: int | None) -> Engine:
    """Open an engine that answers from memory, with the prompt that the method uses for that."""
    engine = Engine(method="direct", model=model, base_url=base_url, cache=cache, concurrency=concurrency)
    engine.method = Method(method, "Answers from memory", _from_memory, ())
    return engine


async def _from_memory(question: Question, ctx: Context) -> Answer:
    answer = await direct_answer(ctx, question.text)
    return replace(answer, status="answered")  # what reads like a refusal may be right


async def answer_from_memory(
    engine: Engine, questions: Sequence[TrainingQuestion], on_done: Callable[[], None]
) -> list[str | None]:
    """Return the model's answer to every question, greedily decoded; None if it failed.

    Replies are cached, so that a second call costs nothing. If the first ones all fail, their failure is raised.
    """

    async def ask(question: TrainingQuestion) -> tuple[str | None, HoptreeError | None]:
        result = await engine.ask(question.example.as_question())
        return (result.answer if result.failure is None else None), result.failure

    return await ask_all(engine, questions, ask, on_done)


def is_right(answer: str, golds: Sequence[str], *, f1: float = RIGHT_F1) -> bool:
    """Whether an answer equals an accepted one in normal form, or its F1 with one is at least `f1`.

    For yes-or-no questions the first word decides. With an `f1` of 1, the words must be the same.
    """
    verdict = yes_no(answer, golds)
    if verdict is not None:
        return verdict > 0
    return exact_match(answer, golds) or best_overlap(answer, golds).f1 >= f1
