"""A language model as annotator: it rates decisions of RA-ISF's modules, each by a prompt of its own.

Of self-knowledge and relevance it is asked what it would decide itself, without being told what was decided: so it
cannot simply agree. The decision is right where it is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hoptree.errors import ModelError
from hoptree.evaluation.decisions import KNOWS, MODULES, NOTHING_NEW, RELEVANT, Decision, Module
from hoptree.evaluation.judge import read_verdict
from hoptree.models.model import Model, Request
from hoptree.runtime.calls import Calls, open_calls
from hoptree.runtime.prompts import Filled, prompt_for
from hoptree.runtime.schedule import together

__all__ = ["ModelRating", "ModelRatings", "rate_decisions"]

_MAX_TOKENS = 8

Listener = Callable[[int, int], None]
"""Told how many of how many decisions are rated."""


@dataclass(frozen=True, slots=True)
class ModelRating:
    """What came of one decision: `right` is None where the reply was neither Yes nor No, or the call failed.

    A split without any new sub-question is wrong without asking. `error` is the class of the failure of a call.
    """

    key: str
    right: bool | None
    asked: bool = True
    unparsed: bool = False
    error: str = ""
    reply: str = ""
    cached: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class ModelRatings:
    """The ratings of a model in the order of the decisions, and the prompts it was given."""

    model: str
    templates: dict[Module, str]
    ratings: tuple[ModelRating, ...]

    def as_dict(self) -> dict[str, Any]:
        replied = [one for one in self.ratings if one.asked and not one.error]
        unparsed = sum(one.unparsed for one in replied)
        return {
            "model": self.model,
            "templates": self.templates,
            "asked": sum(one.asked for one in self.ratings),
            "unparsed": unparsed,
            "unparsed_rate": unparsed / len(replied) if replied else None,
            "errors": sum(bool(one.error) for one in self.ratings),
            "cached_calls": sum(one.cached for one in self.ratings),
            "prompt_tokens": sum(one.prompt_tokens for one in self.ratings),
            "completion_tokens": sum(one.completion_tokens for one in self.ratings),
            "ratings": [asdict(one) for one in self.ratings],
        }


async def rate_decisions(
    decisions: Sequence[Decision],
    model: Model,
    *,
    cache: str | Path | None = "default",
    concurrency: int | None = None,
    on_progress: Listener = lambda done, total: None,
) -> ModelRatings:
    """Have every decision rated, as many at once as the endpoint takes.

    A call that fails is no rating, and counted; if all fail, that is an error. Replies are remembered: the same again
    goes on where it was ended.
    """
    calls = open_calls(cache, concurrency=concurrency)
    failures: list[ModelError] = []
    done = 0

    async def rate(decision: Decision) -> ModelRating:
        nonlocal done
        rating = await _rate(decision, model, calls, failures)
        done += 1
        on_progress(done, len(decisions))
        return rating

    on_progress(0, len(decisions))
    try:
        ratings = await together(rate(decision) for decision in decisions)
    finally:
        calls.close()
    if failures and len(failures) == sum(one.asked for one in ratings):
        raise failures[0]
    prompts = {module: prompt_for("evaluation", f"rate_{module}") for module in MODULES}
    templates = {module: f"{prompt.name}@{prompt.digest}" for module, prompt in prompts.items()}
    return ModelRatings(model.name, templates, tuple(ratings))


async def _rate(decision: Decision, model: Model, calls: Calls, failures: list[ModelError]) -> ModelRating:
    if decision.decided == NOTHING_NEW:
        return ModelRating(decision.key, False, asked=False)
    request = Request(_prompt(decision).messages, max_tokens=_MAX_TOKENS)
    step = f"evaluation/rate_{decision.module}"
    try:
        call = await calls.generate(model, request, step=step, on_retry=lambda error, wait: None)
    except ModelError as error:
        failures.append(error)
        return ModelRating(decision.key, None, error=type(error).__name__)
    said = read_verdict(call.reply.text)
    return ModelRating(
        decision.key,
        None if said is None else _right(decision, said),
        unparsed=said is None,
        reply=call.reply.text,
        cached=call.cached,
        prompt_tokens=call.reply.usage.prompt,
        completion_tokens=call.reply.usage.completion,
    )


def _prompt(decision: Decision) -> Filled:
    """What the model sees; texts are on one line each, so that none can pass for another part of the prompt."""
    prompt, question = prompt_for("evaluation", f"rate_{decision.module}"), " ".join(decision.question.split())
    if decision.module == "know":
        return prompt.fill(question=question)
    if decision.module == "relevance":
        return prompt.fill(question=question, passage=" ".join(decision.shown.split()))
    return prompt.fill(question=question, sub_questions=decision.decided)


def _right(decision: Decision, said: bool) -> bool:
    """Whether a decision is right, if this is what the model said to its prompt."""
    if decision.module == "decompose":
        return said
    return said == (decision.decided in (KNOWS, RELEVANT))
