"""Ratings of RA-ISF's decisions by people and by a model, and their agreement."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hoptree.core.errors import ModelError
from hoptree.engine.calls import Calls, open_calls
from hoptree.engine.prompts import prompt_for
from hoptree.engine.schedule import together
from hoptree.evaluation.annotation import KNOWS, MODULES, NOTHING_NEW, RELEVANT, Module, RatedDecision, Sheet
from hoptree.evaluation.judge import YesNoReply, agreement, ask_yes_no, summarise_replies
from hoptree.evaluation.run_folder import half_width
from hoptree.models.model import Model


@dataclass(frozen=True, slots=True)
class ModelRating(YesNoReply):
    """The rating of one decision; `right` is None if unreadable."""

    key: str
    right: bool | None


@dataclass(frozen=True, slots=True)
class ModelRatings:
    """The ratings of a model, and the prompts that it got."""

    model: str
    templates: dict[Module, str]
    ratings: tuple[ModelRating, ...]

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), **summarise_replies(self.ratings)}


async def rate_decisions(
    decisions: Sequence[RatedDecision],
    model: Model,
    *,
    cache: str | Path | None = "default",
    concurrency: int | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> ModelRatings:
    """Have a model rate every decision; `on_progress` gets the count and the total."""
    failures: list[ModelError] = []
    done = 0

    async def rate(decision: RatedDecision) -> ModelRating:
        nonlocal done
        rating = await _rate(decision, model, calls, failures)
        done += 1
        on_progress(done, len(decisions))
        return rating

    on_progress(0, len(decisions))
    with closing(open_calls(cache, concurrency=concurrency)) as calls:
        ratings = await together(rate(decision) for decision in decisions)
    if failures and len(failures) == sum(rating.asked for rating in ratings):
        raise failures[0]
    templates = {module: prompt_for("evaluation", f"rate_{module}").template for module in MODULES}
    return ModelRatings(model.name, templates, tuple(ratings))


async def _rate(decision: RatedDecision, model: Model, calls: Calls, failures: list[ModelError]) -> ModelRating:
    if decision.decided == NOTHING_NEW:
        return ModelRating(decision.key, False, asked=False)
    # Each text is put on one line, so that it cannot imitate another part of the prompt.
    shown: dict[str, dict[str, Any]] = {
        "relevance": {"passage": " ".join(decision.shown.split())},
        "decompose": {"sub_questions": decision.decided},
    }
    prompt = prompt_for("evaluation", f"rate_{decision.module}")
    filled = prompt.fill(question=" ".join(decision.question.split()), **shown.get(decision.module, {}))
    step = f"evaluation/rate_{decision.module}"
    verdict, reply = await ask_yes_no(filled, model, calls, step=step, failures=failures)
    if verdict is None or decision.module == "decompose":
        return ModelRating(decision.key, verdict, **reply)
    return ModelRating(decision.key, verdict == (decision.decided in (KNOWS, RELEVANT)), **reply)


_ALL = "all"


def sum_up(sheets: Sequence[Sheet], model: ModelRatings | None = None) -> dict[str, Any]:
    """Return RA-ISF's Table 5: means by module and rater, and their agreement.

    In the mean over people every decision counts once, by the share of raters who said yes. The model is compared with
    the majority; ties are left out.
    """
    decisions = {key: decision for sheet in sheets for key, decision in sheet.decisions.items()}
    by_decision = {key: [sheet.ratings[key] for sheet in sheets if key in sheet.ratings] for key in decisions}
    people = {key: statistics.fmean(ratings) for key, ratings in by_decision.items() if ratings}
    counts = Counter((decision.module, decision.data) for decision in decisions.values())
    summary: dict[str, Any] = {
        "decisions": len(decisions),
        "counts": {
            module: {data: count for (of, data), count in sorted(counts.items()) if of == module} for module in MODULES
        },
        "people": _means(people, decisions),
        "annotators": [
            {
                "name": sheet.name,
                "decisions": len(sheet.decisions),
                "rated": len(sheet.ratings),
                "blank": len(sheet.decisions) - len(sheet.ratings),
                "means": _means(sheet.ratings, decisions),
                "notes": dict(sheet.notes),
            }
            for sheet in sheets
        ],
        "agreement": {},
    }
    for part in (*MODULES, _ALL):
        keys = [key for key, decision in decisions.items() if part in (_ALL, decision.module)]
        repeated = [by_decision[key] for key in keys if len(by_decision[key]) > 1]
        summary["agreement"][part] = {"decisions": len(repeated), "alpha": krippendorff_alpha(repeated)}
    if model is not None:
        rated = {rating.key: rating.right for rating in model.ratings if rating.right is not None}
        majority = {key: share > 0.5 for key, share in people.items() if share != 0.5}
        with_people = {
            part: asdict(agreement(*(_of_module(ratings, part, decisions) for ratings in (rated, majority))))
            for part in (*MODULES, _ALL)
        }
        summary["model"] = {**model.as_dict(), "means": _means(rated, decisions), "with_people": with_people}
    return summary


def krippendorff_alpha(units: Iterable[Sequence[Hashable]]) -> float | None:
    """Return Krippendorff's alpha for nominal ratings by any number of raters.

    1 is full agreement, 0 agreement by chance. None if nothing was rated twice or all values are equal: chance alone
    would then agree. (Krippendorff, Content Analysis, chapter on reliability; the coincidence form.)
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


def _means(ratings: Mapping[str, float], decisions: Mapping[str, RatedDecision]) -> dict[str, dict[str, Any]]:
    """Return each module's mean rating, overall and by data set."""
    means: dict[str, dict[str, Any]] = {}
    for module in MODULES:
        by_data: dict[str, list[float]] = {}
        for key, value in ratings.items():
            if decisions[key].module == module:
                by_data.setdefault(decisions[key].data, []).append(value)
        means[module] = {
            "all": _mean([value for values in by_data.values() for value in values]),
            "data": {data: _mean(values) for data, values in sorted(by_data.items())},
        }
    return means


def _mean(values: Sequence[float]) -> dict[str, float] | None:
    """Return the mean with half of its 95 % interval; None without ratings."""
    if not values:
        return None
    return {"mean": statistics.fmean(values), "plus_minus": half_width(values), "decisions": len(values)}


def _of_module(ratings: Mapping[str, bool], part: str, decisions: Mapping[str, RatedDecision]) -> dict[str, bool]:
    """Return the ratings of one module's decisions, or of all modules."""
    return {key: rating for key, rating in ratings.items() if part in (_ALL, decisions[key].module)}
