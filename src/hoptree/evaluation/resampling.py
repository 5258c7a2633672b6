"""Luck, drawn many times: the bootstrap of a mean, and the test that tosses the signs of differences.

Plain numbers in, plain numbers out; the same seed draws the same. Memory stays within a few MiB whatever is drawn.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hoptree.retrieval.extras import library

__all__ = ["Interval", "bootstrap", "sign_flip_test", "unseen"]

_ALL_WAYS = 2**16
_CELLS = 1 << 19  # drawn at a time: 4 MiB
_REPEATED = 8  # times a value occurs on average, from which on counting what is drawn is faster than drawing it


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and the range that would hold the true one in `level` of all samples like this."""

    mean: float
    low: float
    high: float
    level: float


def unseen(count: int, level: float = 0.95) -> float:
    """The largest share that may be true of what was not seen once in so many cases (Clopper and Pearson).

    Resampling would say nothing: where all scores are alike, it never draws another.
    """
    return float(1 - ((1 - level) / 2) ** (1 / count))


def bootstrap(values: Sequence[float], level: float, samples: int, seed: int) -> Interval:
    """The interval of a mean. Two lists of opposite signs, in the same order, have intervals of opposite signs."""
    counts = Counter(values)
    if len(counts) == 1:
        return Interval(values[0], values[0], values[0], level)
    means = _resampled_means(counts, samples, seed)
    means.sort()
    tail = max(1, int((1 - level) / 2 * (samples + 1)))
    return Interval(math.fsum(values) / len(values), float(means[tail - 1]), float(means[-tail]), level)


def _resampled_means(counts: Mapping[float, int], samples: int, seed: int) -> Any:
    """Means of as many values as there are, drawn with replacement; where few differ, how often each is drawn."""
    numpy = _numpy()
    random = numpy.random.default_rng(seed)
    distinct, times = numpy.array(list(counts)), numpy.array(list(counts.values()))
    size = int(times.sum())
    means = numpy.empty(samples)
    if len(counts) * _REPEATED <= size:
        for part in _parts(samples, len(counts)):
            drawn = random.multinomial(size, times / size, size=part.stop - part.start)
            means[part] = drawn @ distinct / size
    else:
        values = numpy.repeat(distinct, times)
        for part in _parts(samples, size):
            means[part] = values[random.integers(0, size, size=(part.stop - part.start, size))].mean(axis=1)
    return means


def sign_flip_test(differences: Sequence[float], samples: int, seed: int) -> tuple[float, bool]:
    """The two-sided p-value, and whether it is exact. What does not differ does not matter: a toss leaves it as it is.

    Differences of one size are tossed together, so that all ways can be gone through for sixteen questions that differ
    in sixteen sizes as well as for thousands that are right or wrong.
    """
    sizes = Counter(sorted(abs(difference) for difference in differences if difference))
    if not sizes:
        return 1.0, True
    # Sums that are equal but for rounding are equal.
    least = abs(math.fsum(differences)) - 1e-9 * math.fsum(sizes.elements())
    if math.prod(count + 1 for count in sizes.values()) <= _ALL_WAYS:
        return _share_of_all_tosses(sizes, least), True
    return _share_of_drawn_tosses(list(sizes.elements()), least, samples, seed), False


def _share_of_all_tosses(sizes: Mapping[float, int], least: float) -> float:
    numpy = _numpy()
    sums, weights = numpy.zeros(1), numpy.ones(1)
    for size, count in sizes.items():
        ups = numpy.arange(count + 1)
        chances = numpy.exp([_log_chance(up, count) for up in range(count + 1)])
        sums = (sums[:, None] + size * (2 * ups - count)).ravel()
        weights = (weights[:, None] * chances).ravel()
    share = float(weights[abs(sums) >= least].sum() / weights.sum())
    return max(share, sys.float_info.min)  # some chances are below what a float can hold, but none is nothing


def _log_chance(up: int, count: int) -> float:
    return math.lgamma(count + 1) - math.lgamma(up + 1) - math.lgamma(count - up + 1) - count * math.log(2)


def _share_of_drawn_tosses(sizes: Sequence[float], least: float, samples: int, seed: int) -> float:
    """The toss that was observed counts among those drawn, without which the share would be too small."""
    numpy = _numpy()
    random = numpy.random.default_rng(seed)
    values = numpy.array(sizes)
    total, width, hits = values.sum(), (len(sizes) + 7) // 8, 0
    for part in _parts(samples, len(sizes)):
        rows = part.stop - part.start
        drawn = numpy.frombuffer(random.bytes(rows * width), dtype=numpy.uint8).reshape(rows, width)
        ups = numpy.unpackbits(drawn, axis=1, count=len(sizes))
        hits += int(numpy.count_nonzero(abs(2 * (ups @ values) - total) >= least))
    return (hits + 1) / (samples + 1)


def _parts(rows: int, width: int) -> Iterator[slice]:
    step = max(1, _CELLS // width)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def _numpy() -> Any:
    return library("numpy", "Comparing runs", "eval")
