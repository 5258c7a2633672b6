"""What a model answers from memory alone, and whether that is right (Equation 5 of RA-ISF)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hoptree.alignment.building.asking import ask_all
from hoptree.engine import Engine
from hoptree.errors import HoptreeError
from hoptree.evaluation.asking import at_once
from hoptree.evaluation.datasets import Example
from hoptree.evaluation.metrics import best_overlap, exact_match, yes_no
from hoptree.methods.registry import Method
from hoptree.runtime.context import Context
from hoptree.steps.answering.answer import direct_answer
from hoptree.values import Answer, Question

__all__ = ["RIGHT_F1", "Remembered", "answer_from_memory", "is_right", "open_memory"]

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
