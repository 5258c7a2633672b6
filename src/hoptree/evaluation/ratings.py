"""What ratings come to: how often each module was right by people and by a model, and how far these agree."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from hoptree.evaluation.decisions import MODULES, Decision
from hoptree.evaluation.judge import Agreement, JudgeReport, Verdict, agreement
from hoptree.evaluation.rating import ModelRatings
from hoptree.evaluation.sheets import Sheet
from hoptree.evaluation.summary import half_width

__all__ = ["krippendorff_alpha", "sum_up"]

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
    """By module the mean over all decisions, and by data set."""
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
    """The mean with half of its interval (95 %); None where nothing was rated."""
    if not values:
        return None
    return {"mean": statistics.fmean(values), "plus_minus": half_width(values), "decisions": len(values)}


def _agreement(by_decision: Mapping[str, Sequence[bool]], decisions: Mapping[str, Decision]) -> dict[str, Any]:
    """Krippendorff's alpha of the people by module and in all, with the number of decisions that two or more rated."""
    found = {}
    for part in (*MODULES, _ALL):
        twice = [said for key, said in by_decision.items() if len(said) > 1 and part in (_ALL, decisions[key].module)]
        found[part] = {"decisions": len(twice), "alpha": krippendorff_alpha(twice)}
    return found


def _alike(
    mine: Mapping[str, bool], theirs: Mapping[str, bool], decisions: Mapping[str, Decision]
) -> dict[str, Agreement]:
    """How often two raters say the same, by module and in all."""
    return {part: agreement(*(_report(said, part, decisions) for said in (mine, theirs))) for part in (*MODULES, _ALL)}


def _report(said: Mapping[str, bool], part: str, decisions: Mapping[str, Decision]) -> JudgeReport:
    """Ratings as verdicts, which is what kappa is reckoned from; there is no exact match to hold against them."""
    chosen = (key for key in said if part in (_ALL, decisions[key].module))
    return JudgeReport("", "", tuple(Verdict(key, said[key], em=False) for key in chosen))
