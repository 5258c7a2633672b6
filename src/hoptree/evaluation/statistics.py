"""Bootstrap intervals, paired permutation tests, Holm, and power."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from statistics import NormalDist, stdev
from typing import Any, NamedTuple, TypeVar

from hoptree.core.errors import InputError
from hoptree.core.lazy import import_optional

_LEVEL = 0.95
_SEED = 0
_EXACT_OUTCOMES = 2**16
_BATCH_CELLS = 1 << 18  # 2 MiB at a time


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its interval at the confidence `level`."""

    mean: float
    low: float
    high: float
    level: float


def mean_of(values: Sequence[float | None]) -> float | None:
    """Return the mean; None if there are no values, or if one of them is missing."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None


def unseen(count: int) -> float:
    """Return the Clopper-Pearson bound of a share never seen."""
    return float(1 - ((1 - _LEVEL) / 2) ** (1 / count))


def _bootstrap(values: Sequence[float], samples: int) -> Interval:
    """Return the percentile interval of a mean."""
    if len(set(values)) == 1:
        return Interval(values[0], values[0], values[0], _LEVEL)
    stats = _scipy_stats()
    batch = max(1, _BATCH_CELLS // len(values))
    low, high = stats.bootstrap(
        (list(values),),
        lambda resamples, axis: resamples.mean(axis=axis),
        n_resamples=samples,
        batch=batch,
        confidence_level=_LEVEL,
        method="percentile",
        rng=_SEED,
    ).confidence_interval
    return Interval(math.fsum(values) / len(values), float(low), float(high), _LEVEL)


def _sign_flip_test(differences: Sequence[float], samples: int) -> tuple[float, bool]:
    """Return the p-value of the paired permutation test, and whether it is exact.

    Differences of one size are flipped together: thousands of right-or-wrong questions still have an exact test.
    Differences of 0 do not matter.
    """
    sizes = Counter(sorted(abs(difference) for difference in differences if difference))
    if not sizes:
        return 1.0, True
    # Sums that are equal but for rounding are equal.
    least = abs(math.fsum(differences)) - 1e-9 * math.fsum(sizes.elements())
    if math.prod(count + 1 for count in sizes.values()) <= _EXACT_OUTCOMES:
        return _exact_p_value(sizes, least), True
    values = list(sizes.elements())
    result = _scipy_stats().permutation_test(
        (values,),
        lambda flipped, axis: abs(flipped.sum(axis=axis)) >= least,
        permutation_type="samples",
        vectorized=True,
        n_resamples=samples,
        batch=max(1, _BATCH_CELLS // len(values)),
        alternative="greater",
        rng=_SEED,
    )
    return (int(result.null_distribution.sum()) + 1) / (samples + 1), False


def _exact_p_value(sizes: Mapping[float, int], least: float) -> float:
    """Return the p-value over all numbers of positive signs of each size."""
    numpy, binom = import_optional("numpy", "Comparing runs", "eval"), _scipy_stats().binom
    sums, weights = numpy.zeros(1), numpy.ones(1)
    for size, count in sizes.items():
        positive = numpy.arange(count + 1)
        sums = (sums[:, None] + size * (2 * positive - count)).ravel()
        weights = (weights[:, None] * binom.pmf(positive, count, 0.5)).ravel()
    share = float(weights[abs(sums) >= least].sum() / weights.sum())
    return max(share, sys.float_info.min)  # a float may be too coarse for the share, but no p-value is 0


def _scipy_stats() -> Any:
    return import_optional("scipy.stats", "Comparing runs", "eval")


Scores = Mapping[str, float | None]  # a metric of a run by question id; None where it does not apply
SIGNIFICANCE = 0.05
SAMPLES = 10_000  # the number of resamples or permutations drawn
_POWER = 0.8
_MAX_CHANGES = 20
_DECIMALS = 12  # decimals of a difference; further ones come from rounding
_MAX_SCORE = 1e15
_UNGROUPED = "none"
_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class Change:
    """A question that the two runs score differently."""

    id: str
    a: float
    b: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """A paired comparison of scores, without intervals."""

    difference: float
    p_value: float  # the chance of a mean difference at least as large if scores were assigned to the runs at random
    better: int
    worse: int
    same: int

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """A paired comparison of two runs; `difference` is b less a."""

    questions: int
    mean_a: float
    mean_b: float
    difference: float
    interval: Interval
    p_value: float  # as in `Comparison`
    adjusted_p: float  # corrected (Holm) over the comparisons of one call
    exact: bool  # whether all permutations were enumerated
    wins: int
    losses: int
    ties: int
    flips: bool  # whether the metric is only 0 or 1
    changes: tuple[Change, ...]  # largest first: all flips, else those that differ most
    deviation: float | None
    left_out: int  # questions with a score in some of the runs only
    not_applicable: int  # questions that the metric applies to in no run

    @property
    def detectable(self) -> float | None:
        """The smallest true difference that is detected with 80 % power, or None."""
        return detectable_difference(self.deviation, self.questions) if self.deviation else None

    def power_note(self, *, scale: float = 1.0, unit: str = "") -> str:
        """Return what the sample can detect, in a sentence with this scale and unit."""
        if self.deviation is None:
            return "One question is too few to say what difference this sample can detect."
        if self.detectable is None:
            same = "score" if self.ties == self.questions else "differ by"
            return f"The two runs {same} the same on every question: what this sample can detect cannot be said."
        least = scale * self.detectable
        difference = f"{least:,.0f}" if least >= 1000 else f"{least:.3g}"
        return (
            f"This sample can detect a difference of {difference}{unit} "
            f"({self.questions:,} paired questions, two-sided at {100 * SIGNIFICANCE:g} %, power {100 * _POWER:g} %)."
        )

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "detectable": self.detectable}


def interval(scores: Iterable[float], *, samples: int = SAMPLES) -> Interval:
    """Return the mean of the scores with its bootstrap interval, by percentiles.

    Percentiles stay within the range of the scores, and turn round with the sign; BCa would estimate skewness from a
    handful of flipped questions. Scores that are all the same give an interval without width.
    """
    values = sorted(_number(score, "A score") for score in scores)
    if not values:
        raise InputError("There is no score to take the mean of.", "Give the score of one question or more.")
    return _bootstrap(values, samples)


def compare_pair(a: Scores, b: Scores, *, common_only: bool = False, samples: int = SAMPLES) -> PairedComparison:
    """Compare two runs over the questions they share."""
    return _compare(a, b, _align((a, b), common_only), samples)


def compare_groups(
    a: Scores, b: Scores, groups: Mapping[str, str], *, common_only: bool = False
) -> dict[str, PairedComparison]:
    """Compare two runs within groups of questions."""
    aligned = _align((a, b), common_only)
    names = sorted({groups.get(key) or _UNGROUPED for key in a.keys() | b.keys()})
    parts = {
        name: _Aligned(*([key for key in keys if (groups.get(key) or _UNGROUPED) == name] for keys in aligned))
        for name in names
    }
    return _corrected({name: _compare(a, b, part) for name, part in parts.items() if part.shared})


def compare_runs(runs: Mapping[str, Scores], *, common_only: bool = False) -> dict[tuple[str, str], PairedComparison]:
    """Compare each run with each later one over the questions that all have."""
    aligned = _align(tuple(runs.values()), common_only)
    return _corrected({(a, b): _compare(runs[a], runs[b], aligned) for a, b in combinations(runs, 2)})


def compare(ours: Sequence[float], theirs: Sequence[float]) -> Comparison:
    """Run the paired test on scores of the same questions in the same order."""
    differences = [_difference(a, b) for a, b in zip(ours, theirs, strict=True)]
    better, worse = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    return Comparison(
        difference=math.fsum(differences) / max(1, len(differences)),
        p_value=_sign_flip_test(differences, SAMPLES)[0],
        better=better,
        worse=worse,
        same=len(differences) - better - worse,
    )


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Apply Holm's correction; results are in the order given."""
    adjusted = [1.0] * len(p_values)
    least = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = least
    return tuple(adjusted)


def detectable_difference(deviation: float, questions: int) -> float:
    """Return the smallest true difference found with 80 % power at 5 %, two-sided."""
    normal = NormalDist()
    return (normal.inv_cdf(1 - SIGNIFICANCE / 2) + normal.inv_cdf(_POWER)) * deviation / math.sqrt(questions)


class _Aligned(NamedTuple):
    """Question ids scored in all runs, in some, and in none."""

    shared: Sequence[str]
    left_out: Sequence[str]
    not_applicable: Sequence[str]


def _align(runs: Sequence[Scores], common_only: bool) -> _Aligned:
    keys = sorted(set[str]().union(*runs))
    scored = [sum(run.get(key) is not None for run in runs) for key in keys]
    shared = [key for key, count in zip(keys, scored, strict=True) if count == len(runs)]
    empty = [key for key, count in zip(keys, scored, strict=True) if not count and all(key in run for run in runs)]
    left_out = sorted(set(keys).difference(shared, empty))
    if left_out and not common_only:
        raise InputError(
            f"{len(left_out):,} of {len(keys):,} questions {'has' if len(left_out) == 1 else 'have'} a score in some "
            f"of the runs only (the first: {left_out[0]}).",
            "Finish the runs, choose a score that all have, or compare what they have in common: --common-only.",
        )
    if not shared:
        raise InputError("The runs have no question with a score in common.", "Name runs over the same questions.")
    return _Aligned(shared, left_out, empty)


def _compare(a: Scores, b: Scores, aligned: _Aligned, samples: int = SAMPLES) -> PairedComparison:
    pairs = [
        Change(key, *(_number(run[key], f"The score of question {key}") for run in (a, b))) for key in aligned.shared
    ]
    differences = [_difference(pair.b, pair.a) for pair in pairs]
    spread = _bootstrap(differences, samples)
    p_value, exact = _sign_flip_test(differences, samples)
    wins, losses = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    flips = all(score in (0, 1) for pair in pairs for score in (pair.a, pair.b))
    changes = [pair for pair, d in zip(pairs, differences, strict=True) if d]
    changes.sort(key=lambda pair: (-abs(_difference(pair.a, pair.b)), pair.id))
    return PairedComparison(
        questions=len(pairs),
        mean_a=math.fsum(pair.a for pair in pairs) / len(pairs),
        mean_b=math.fsum(pair.b for pair in pairs) / len(pairs),
        difference=spread.mean,
        interval=spread,
        p_value=p_value,
        adjusted_p=p_value,
        exact=exact,
        wins=wins,
        losses=losses,
        ties=len(pairs) - wins - losses,
        flips=flips,
        changes=tuple(changes if flips else changes[:_MAX_CHANGES]),
        deviation=stdev(differences) if len(pairs) > 1 else None,
        left_out=len(aligned.left_out),
        not_applicable=len(aligned.not_applicable),
    )


def _corrected(compared: Mapping[_Key, PairedComparison]) -> dict[_Key, PairedComparison]:
    adjusted = holm([pair.p_value for pair in compared.values()])
    return {key: replace(pair, adjusted_p=p) for (key, pair), p in zip(compared.items(), adjusted, strict=True)}


def _difference(a: float, b: float) -> float:
    return round(a - b, _DECIMALS) + 0.0  # never -0.0


def _number(score: float | None, what: str) -> float:
    if score is None or not abs(score) <= _MAX_SCORE:  # which is false for NaN, too
        raise InputError(f"{what} is not a number that can be counted: {score}.", "Fix the scores: all of them count.")
    return float(score)
