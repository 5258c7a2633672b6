"""Rate RA-ISF's decisions by people and by a model, and compute agreement."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hoptree.core.errors import ModelError
from hoptree.engine.calls import Calls, open_calls
from hoptree.engine.prompts import Filled, prompt_for
from hoptree.engine.schedule import together
from hoptree.evaluation.annotation import KNOWS, MODULES, NOTHING_NEW, RELEVANT, Decision, Module, Sheet
from hoptree.evaluation.judge import Agreement, JudgeReport, Verdict, agreement, read_verdict
from hoptree.evaluation.summary import half_width
from hoptree.models.model import Model, Request

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
    """Have a model rate every decision, concurrently.

    A failed call is no rating; if all fail, the error is raised. Replies are cached, so the call is resumable.
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
    """Fill the prompt; texts are on one line each, so that none can pass for another part."""
    prompt, question = prompt_for("evaluation", f"rate_{decision.module}"), " ".join(decision.question.split())
    if decision.module == "know":
        return prompt.fill(question=question)
    if decision.module == "relevance":
        return prompt.fill(question=question, passage=" ".join(decision.shown.split()))
    return prompt.fill(question=question, sub_questions=decision.decided)


def _right(decision: Decision, said: bool) -> bool:
    """Tell whether a decision is right, given the model's reply."""
    if decision.module == "decompose":
        return said
    return said == (decision.decided in (KNOWS, RELEVANT))


_ALL = "all"
Ratings = Mapping[str, float]
"""By the decision's key, the share of its raters that called it right."""


def sum_up(sheets: Sequence[Sheet], model: ModelRatings | None = None) -> dict[str, Any]:
    """The figures of Table 5: means by module and data set of all people, of each, and of the model; agreement.

    In the mean of all people every decision counts once, with the share of those who rated it. The model is held
    against what most of them say; a tie says nothing.
    """
    decisions = {key: one for sheet in sheets for key, one in sheet.decisions.items()}
    given = {sheet.name: dict(sheet.ratings) for sheet in sheets}
    by_decision = {key: [some[key] for some in given.values() if key in some] for key in decisions}
    people = {key: statistics.fmean(said) for key, said in by_decision.items() if said}
    found: dict[str, Any] = {
        "decisions": len(decisions),
        "counts": _counts(decisions.values()),
        "people": _means(people, decisions),
        "annotators": [
            {
                "name": sheet.name,
                "decisions": len(sheet.decisions),
                "rated": len(sheet.ratings),
                "blank": len(sheet.decisions) - len(sheet.ratings),
                "means": _means(given[sheet.name], decisions),
                "notes": dict(sheet.notes),
            }
            for sheet in sheets
        ],
        "agreement": _agreement(by_decision, decisions),
    }
    if model is not None:
        said = {one.key: one.right for one in model.ratings if one.right is not None}
        most = {key: share > 0.5 for key, share in people.items() if share != 0.5}
        found["model"] = {
            **model.as_dict(),
            "means": _means(said, decisions),
            "with_people": {part: asdict(alike) for part, alike in _alike(said, most, decisions).items()},
        }
    return found


def krippendorff_alpha(units: Iterable[Sequence[Hashable]]) -> float | None:
    """Krippendorff's alpha for nominal data, from the values each unit got; units may have more or fewer of them.

    1 is agreement in everything, 0 what chance would give. None where nothing was rated twice, or all values are alike:
    chance alone would agree then. (Krippendorff, Content Analysis, chapter on reliability; the coincidence form.)
    """
    totals: Counter[Hashable] = Counter()
    unlike = 0.0
    for values in units:
        if len(values) < 2:
            continue
        counts = Counter(values)
        totals.update(counts)
        unlike += (len(values) ** 2 - sum(count**2 for count in counts.values())) / (len(values) - 1)
    n = totals.total()
    by_chance = n**2 - sum(count**2 for count in totals.values())
    return 1 - (n - 1) * unlike / by_chance if by_chance else None


def _counts(decisions: Iterable[Decision]) -> dict[str, dict[str, int]]:
    counted = Counter((one.module, one.data) for one in decisions)
    return {
        module: {data: count for (of, data), count in sorted(counted.items()) if of == module} for module in MODULES
    }


def _means(ratings: Ratings, decisions: Mapping[str, Decision]) -> dict[str, dict[str, Any]]:
    """Return the mean of each module, overall and by data set."""
    found: dict[str, dict[str, Any]] = {}
    for module in MODULES:
        by_data: dict[str, list[float]] = {}
        for key, value in ratings.items():
            if decisions[key].module == module:
                by_data.setdefault(decisions[key].data, []).append(value)
        found[module] = {
            "all": _mean([value for some in by_data.values() for value in some]),
            "data": {data: _mean(some) for data, some in sorted(by_data.items())},
        }
    return found


def _mean(values: Sequence[float]) -> dict[str, float] | None:
    """Return the mean with half of its 95 % interval; None where nothing was rated."""
    if not values:
        return None
    return {"mean": statistics.fmean(values), "plus_minus": half_width(values), "decisions": len(values)}


def _agreement(by_decision: Mapping[str, Sequence[bool]], decisions: Mapping[str, Decision]) -> dict[str, Any]:
    """Return Krippendorff's alpha of the people by module and overall."""
    found = {}
    for part in (*MODULES, _ALL):
        twice = [said for key, said in by_decision.items() if len(said) > 1 and part in (_ALL, decisions[key].module)]
        found[part] = {"decisions": len(twice), "alpha": krippendorff_alpha(twice)}
    return found


def _alike(
    mine: Mapping[str, bool], theirs: Mapping[str, bool], decisions: Mapping[str, Decision]
) -> dict[str, Agreement]:
    """Return how often two raters agree, by module and overall."""
    return {part: agreement(*(_report(said, part, decisions) for said in (mine, theirs))) for part in (*MODULES, _ALL)}


def _report(said: Mapping[str, bool], part: str, decisions: Mapping[str, Decision]) -> JudgeReport:
    """Turn ratings into verdicts, from which kappa is computed."""
    chosen = (key for key in said if part in (_ALL, decisions[key].module))
    return JudgeReport("", "", tuple(Verdict(key, said[key], em=False) for key in chosen))
