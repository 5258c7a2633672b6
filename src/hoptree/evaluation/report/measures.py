"""What is measured of a run: which scores and costs, and their means with intervals."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from hoptree.evaluation.lists import CANDIDATES
from hoptree.evaluation.report.runs import Run
from hoptree.evaluation.report.tables import Number
from hoptree.evaluation.resampling import unseen
from hoptree.evaluation.run_folder import Row
from hoptree.evaluation.statistics import SAMPLES, Comparison, Interval, compare, holm, interval

__all__ = [
    "COSTS",
    "RARE",
    "SCORES",
    "YES_NO",
    "Cost",
    "Score",
    "best_of",
    "marked",
    "mean_cost",
    "mean_figure",
    "mean_score",
    "scores_of",
]

_SIGNIFICANCE = 0.05
_COST_SAMPLES = 2_000
"""Costs differ on every question, which makes each sample dear; two digits of an interval need no more."""
_OF_SEARCHES = "retrieval_recall"
_KEPT = 512


@dataclass(frozen=True, slots=True)
class Score:
    """A score between 0 and 1, printed as points of 100."""

    name: str
    title: str


@dataclass(frozen=True, slots=True)
class Cost:
    """What a question costs."""

    title: str
    digits: int
    of: Callable[[Mapping[str, float]], float]


SCORES = (
    Score("em", "EM"),
    Score("f1", "F1"),
    Score("precision", "P"),
    Score("recall", "R"),
    Score("contains", "Contains"),
    Score("judge", "Judge"),
    Score(_OF_SEARCHES, "Retrieval recall"),
)
YES_NO = Score("yes_no", "Yes/no")
"""Whether the yes or no in the first place is right, whatever follows it (StrategyQA's accuracy)."""
RARE = (
    YES_NO,
    Score("list_f1", "List F1"),
    Score("list_precision", "List P"),
    Score("list_recall", "List R"),
    Score(CANDIDATES, "Candidate recall"),
)
"""Of questions whose answer is yes or no, or a list of names: shown where there are any."""
COSTS = {
    "calls": Cost("Calls", 1, lambda usage: usage["llm_calls"]),
    "tokens": Cost("Tokens", 0, lambda usage: usage["prompt_tokens"] + usage["completion_tokens"]),
    "searches": Cost("Searches", 1, lambda usage: usage["retrievals"]),
    "seconds": Cost("Seconds", 2, lambda usage: usage["seconds"]),
    "critical": Cost("Critical path, s", 2, lambda usage: usage["critical_path_seconds"]),
    "cost": Cost("Cost of 1,000", 2, lambda usage: 1000 * usage["price"]),
}
_OF_SOME = frozenset(score.name for score in RARE)


def scores_of(run: Run, metric: str) -> dict[str, float | None]:
    """A score of every question that has an outcome; a failed question is wrong wherever the score applies to it."""
    found = {row.id: row.scores.get(metric) for row in run.rows}
    if all(value is None for value in found.values()):
        return found
    return found | {row.id: _failed(row, metric) for row in run.rows if row.error}


def _failed(row: Row, metric: str) -> float | None:
    if metric in _OF_SOME:
        return 0.0 if row.scores.get(metric) is not None else None
    if metric != _OF_SEARCHES:
        return 0.0
    return (row.scores.get(metric) or 0.0) if row.gold else None


def mean_score(run: Run, metric: str, among: Collection[str] | None = None) -> Number | None:
    """The mean in points with its interval, over all questions or `among` these; None where no question has one."""
    scores = [value for key, value in scores_of(run, metric).items() if among is None or key in among]
    values = [value for value in scores if value is not None]
    if not values:
        return None
    found = _interval(tuple(values), SAMPLES)
    if set(values) in ({0.0}, {1.0}):
        beyond = unseen(len(values))
        found = replace(found, low=min(found.mean, 1 - beyond), high=max(found.mean, beyond))
    fewer = len(values) if len(values) < len(scores if among is None else among) else None
    return Number(100 * found.mean, 100 * found.low, 100 * found.high, 1, fewer)


def mean_cost(run: Run, cost: Cost) -> Number | None:
    """The mean cost with its interval; what was spent on failed questions was spent.

    Money is n/a without prices. It is that of all calls: what the cache saved depends on what was run before.
    """
    if not run.rows or (cost is COSTS["cost"] and not run.about["experiment"].get("prices")):
        return None
    return mean_figure([cost.of(row.usage) for row in run.rows], cost.digits)


def mean_figure(values: Sequence[float], digits: int) -> Number:
    """The mean of what was counted or spent on each question, with its interval."""
    found = _interval(tuple(values), _COST_SAMPLES)
    return Number(found.mean, found.low, found.high, digits)


def best_of(runs: Sequence[Run], metric: str) -> Run | None:
    """The finished run that beats each other finished one by more than chance, or None.

    Each is held against it question by question (paired permutation test, Holm's correction for their number).
    """
    known = [(run, scores) for run in runs if run.finished and _has(scores := scores_of(run, metric))]
    if len(known) < 2:
        return None
    (first, ours), *others = sorted(known, key=lambda one: -(_mean(one[1].values()) or 0.0))
    p_values = []
    for _, theirs in others:
        pairs = [(a, b) for key, b in theirs.items() if b is not None and (a := ours.get(key)) is not None]
        found = _compared(tuple(pairs))
        p_values.append(found.p_value if found.difference > 0 else 1.0)
    return first if max(holm(p_values)) < _SIGNIFICANCE else None


@lru_cache(_KEPT)
def _interval(values: tuple[float, ...], samples: int) -> Interval:
    """Tables and plots show the same figures: they are drawn once."""
    return interval(values, samples=samples)


@lru_cache(_KEPT)
def _compared(pairs: tuple[tuple[float, float], ...]) -> Comparison:
    return compare([a for a, _ in pairs], [b for _, b in pairs])


def _has(scores: Mapping[str, float | None]) -> bool:
    return any(value is not None for value in scores.values())


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def marked(number: Number | None, best: bool) -> Number | None:
    """The same figure, in bold."""
    return replace(number, best=True) if number is not None and best else number
