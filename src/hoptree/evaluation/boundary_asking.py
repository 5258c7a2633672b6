"""Asking a model what it knows in two settings: TAIKC's Direct QA, and its Confident QA, where it may refuse."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from hoptree.engine import Engine
from hoptree.evaluation.experiment import Experiment
from hoptree.methods.registry import Method, Option, read_options
from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.runtime.schedule import together
from hoptree.steps.answering.answer import confident_answer, direct_answer
from hoptree.values import Answer, Question

__all__ = ["EVENT", "METHOD", "BoundaryExperiment"]

METHOD = "boundary"
"""What a run or an experiment file calls it; it is no method to answer questions by, so it is not registered as one."""
EVENT = "boundary"
_STEPS_OF = "taikc"


@dataclass(frozen=True, slots=True)
class BoundaryExperiment(Experiment):
    """A run that asks every question twice, by TAIKC's own steps and prompts, without documents.

    Its answers, and so its scores, are those of Direct QA; what Confident QA said is in the trace of each question.
    """

    method: str = METHOD

    def open(self, **how: Any) -> Engine:
        engine = Experiment.open(replace(self, method=_STEPS_OF, corpus=None, options={}), **how)
        engine.method = _ask_twice_method()
        engine.options = read_options(engine.method, self.options)
        return engine


def _ask_twice_method() -> Method:
    """The two steps under TAIKC's name, so that they find its prompts; the one it has to itself is on record."""
    prompt = prompt_for(_STEPS_OF, "confident")
    template = f"{prompt.name}@{prompt.digest}"
    options = (Option("strict", bool, False), Option("prompt", Literal[template], template))
    return Method(_STEPS_OF, "Direct and Confident QA", _ask_twice, options, paper="TAIKC", roles=("know", "answer"))


async def _ask_twice(question: Question, ctx: Context, *, strict: bool = False, prompt: str = "") -> Answer:
    """Both settings at once; `strict` takes only RAG_REQUIRED for a refusal."""
    direct, confident = await together(
        (_direct(ctx, question.text), confident_answer(ctx, question.text, strict=strict))
    )
    ctx.trace.add(
        EVENT,
        direct=direct.text,
        confidence=direct.confidence,
        confident=confident.text,
        refused=confident.status == "refused",
    )
    return direct


async def _direct(ctx: Context, question: str) -> Answer:
    """The direct answer, with the probability of its least likely token where the model tells it."""
    return await direct_answer(ctx, question, logprobs="logprobs" in ctx.model_for("answer").capabilities)
