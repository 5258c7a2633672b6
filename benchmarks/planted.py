"""Runs with a known planted difference must be told apart, equal ones must not: how often both hold in simulated pairs.

Both runs of a pair answer the same 300 questions, which are easy or hard for both alike up to some luck of each run's
own. EM-like scores are 0 or 1; F1-like ones give some wrong answers part of a point. Run a is 8 points better, or not
at all, and `compare_pair` has to say which, at p < 5 %.

Figures come last, one a line with the counts that luck alone explains: 95 % of them for equal runs, where the test
promises 5 %; 99 % for what is approximate, and looked at six times. The exit code is 1 where a count is outside.
`--quick` simulates 20 pairs with 1,000 samples each and judges nothing.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy

from hoptree.evaluation.statistics import SAMPLES, PairedComparison, compare_pair, detectable_difference

QUESTIONS = 300
PLANTED = 0.08
LEVEL = 0.05
_RIGHT = 0.42
_ALIKE = 0.75
"""The part of a question's difficulty that both runs share."""
_PART = (2 / 7, 1 / 3, 2 / 5, 1 / 2, 2 / 3, 4 / 5, *[0.0] * 24)
"""What a wrong answer gets by an F1-like score: a tenth of a point on average."""
_KINDS = {"EM-like": (0.0,), "F1-like": _PART}
_MANY = 400_000


def power_to_detect(difference: float, deviation: float, questions: int) -> float:
    """Return how often a true difference is found at 5 %, two-sided, by the normal approximation."""
    normal = NormalDist()
    steps = abs(difference) * math.sqrt(questions) / deviation
    bar = normal.inv_cdf(1 - LEVEL / 2)
    return normal.cdf(steps - bar) + normal.cdf(-steps - bar)


@dataclass(frozen=True, slots=True)
class Figure:
    """How many of the pairs something was true of, beside how many it should be."""

    name: str
    count: int
    pairs: int
    expected: float
    within: float = 0.99

    @property
    def missed(self) -> bool:
        low, high = likely_range(self.pairs, self.expected, self.within)
        return not low <= self.count <= high

    def line(self, *, judged: bool) -> str:
        low, high = likely_range(self.pairs, self.expected, self.within)
        verdict = ("MISS" if self.missed else "PASS") if judged else ""
        return (
            f"{self.name:<44} {self.count:>4} of {self.pairs} ({self.count / self.pairs:6.1%})  "
            f"expected {self.expected:6.1%}, goal {low} to {high}  {verdict}"
        ).rstrip()


def likely_range(pairs: int, chance: float, within: float) -> tuple[int, int]:
    """The counts between which a count of this chance stays in at least this share of all cases."""
    tail, ways = (1 - within) / 2, range(pairs + 1)
    chances = [_chance(pairs, hits, chance) for hits in ways]
    low = next(hits for hits in ways if math.fsum(chances[: hits + 1]) > tail)
    high = next(hits for hits in reversed(ways) if math.fsum(chances[hits:]) > tail)
    return low, high


def _chance(pairs: int, hits: int, chance: float) -> float:
    ways = math.lgamma(pairs + 1) - math.lgamma(hits + 1) - math.lgamma(pairs - hits + 1)
    return math.exp(ways + hits * math.log(chance) + (pairs - hits) * math.log1p(-chance))


def simulate(random: Any, questions: int, part: Sequence[float], difference: float) -> tuple[Any, Any]:
    """The scores of two runs, of which the first is better by this on average."""
    gain = difference / (1 - sum(part) / len(part))
    shared = math.sqrt(_ALIKE) * random.normal(size=questions)
    runs = []
    for rate in (_RIGHT + gain, _RIGHT):
        ease = shared + math.sqrt(1 - _ALIKE) * random.normal(size=questions)
        right = ease > NormalDist().inv_cdf(1 - rate)
        runs.append(numpy.where(right, 1.0, random.choice(part, size=questions)))
    return runs[0], runs[1]


def compared(random: Any, part: Sequence[float], difference: float, samples: int) -> PairedComparison:
    runs = simulate(random, QUESTIONS, part, difference)
    a, b = ({f"q{place}": float(score) for place, score in enumerate(run)} for run in runs)
    return compare_pair(b, a, samples=samples)


def measure(kind: str, pairs: int, samples: int, random: Any) -> tuple[list[Figure], str]:
    """The figures of one kind of scores, and a sentence on what a pair can show."""
    part = _KINDS[kind]
    a, b = simulate(random, _MANY, part, PLANTED)
    deviation = float(numpy.std(a - b))
    planted = [compared(random, part, PLANTED, samples) for _ in range(pairs)]
    equal = [compared(random, part, 0.0, samples) for _ in range(pairs)]
    power = power_to_detect(PLANTED, deviation, QUESTIONS)
    held = sum(one.interval.low <= PLANTED <= one.interval.high for one in planted)
    held_equal = sum(one.interval.low <= 0 <= one.interval.high for one in equal)
    points = f"{100 * PLANTED:g} points"
    figures = [
        Figure(f"{kind}: {points} better, told apart", _told_apart(planted), pairs, power),
        Figure(f"{kind}: equal, wrongly told apart", _told_apart(equal), pairs, LEVEL, 0.95),
        Figure(f"{kind}: {points} better, interval holds them", held, pairs, 1 - LEVEL),
        Figure(f"{kind}: equal, interval holds 0", held_equal, pairs, 1 - LEVEL),
    ]
    told = sorted(one.detectable or 0.0 for one in planted)[pairs // 2]
    true = detectable_difference(deviation, QUESTIONS)
    return figures, f"{kind}: the power note says {100 * told:.1f} points (median), true are {100 * true:.1f}"


def _told_apart(pairs: Sequence[PairedComparison]) -> int:
    return sum(one.p_value < LEVEL for one in pairs)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=100, help="how many pairs of each sort (default 100)")
    parser.add_argument("--seed", type=int, default=0, help="what the simulation starts from (default 0)")
    parser.add_argument("--quick", action="store_true", help="20 pairs, 1,000 samples: a second, nothing judged")
    chosen = parser.parse_args(arguments)
    if chosen.pairs < 1 or chosen.seed < 0:
        parser.error("--pairs is 1 or more, --seed 0 or more")
    pairs, samples = (20, 1_000) if chosen.quick else (chosen.pairs, SAMPLES)
    random = numpy.random.default_rng(chosen.seed)
    figures: list[Figure] = []
    for kind in _KINDS:
        some, sentence = measure(kind, pairs, samples, random)
        figures += some
        print(sentence)
    for figure in figures:
        print(figure.line(judged=not chosen.quick))
    return 1 if not chosen.quick and any(figure.missed for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
