"""How far apart the samples of a model are (SeaKR's uncertainty)."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from operator import mul
from typing import Any

__all__ = ["least_spread", "shortest", "spread"]

_LARGEST = 1e100
"""More than any number of a state; the sum of squares is still a number."""


def spread(states: Sequence[Sequence[float]], *, alpha: float = 1e-3) -> float | None:
    """U = (1/k) logdet(Z J Z^T + alpha I) for k samples, whose states of d numbers are the rows of Z.

    J = I - (1/d) 1 1^T takes from each state the mean of its own numbers, as in INSIDE's EigenScore (Chen et al. 2024),
    which SeaKR takes over. Empty states (those of empty samples) and states with NaN are left out; None if none
    remain.
    """
    states = _known(states)
    if not states:
        return None
    if len({len(state) for state in states}) > 1:
        raise ValueError("The states of samples must come from one layer of one model.")
    try:
        numpy = importlib.import_module("numpy")
    except ImportError:
        return _log_determinant(_products(states, alpha)) / len(states)
    return _by_numpy(numpy, states, alpha)


def least_spread(count: int, *, square: float, alpha: float = 1e-3) -> float:
    """U of so many samples that end in one state, which is the least they can have; `square` is its squared length.

    It falls with the number of samples, so a threshold is of that number. States of a model are long, vectors of an
    encoder have a length of 1.
    """
    return ((count - 1) * math.log(alpha) + math.log(alpha + count * square)) / count


def shortest(states: Sequence[Sequence[float]]) -> float | None:
    """The least squared length of states, each without the mean of its own numbers; None if there are none."""
    return min((math.fsum(number**2 for number in row) for row in _centred(_known(states))), default=None)


def _known(states: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    return [state for state in states if len(state) and all(abs(number) < _LARGEST for number in state)]


def _centred(states: Sequence[Sequence[float]]) -> list[list[float]]:
    middles = [math.fsum(state) / len(state) for state in states]
    return [[number - middle for number in state] for state, middle in zip(states, middles, strict=True)]


def _by_numpy(numpy: Any, states: Sequence[Sequence[float]], alpha: float) -> float:
    rows = numpy.asarray(states, dtype=numpy.float64)
    rows = rows - rows.mean(axis=1, keepdims=True)  # J is symmetric and J J = J
    _, determinant = numpy.linalg.slogdet(rows @ rows.T + alpha * numpy.eye(len(rows)))
    return float(determinant) / len(rows)


def _products(states: Sequence[Sequence[float]], alpha: float) -> list[list[float]]:
    rows = _centred(states)
    return [
        [math.fsum(map(mul, left, right)) + (alpha if at == place else 0.0) for place, right in enumerate(rows)]
        for at, left in enumerate(rows)
    ]


def _log_determinant(matrix: list[list[float]]) -> float:
    """By Cholesky's decomposition, whose diagonal rounding may not bring to 0."""
    lower: list[list[float]] = []
    total = 0.0
    for row in matrix:
        found: list[float] = []
        for above in lower:
            found.append((row[len(found)] - math.fsum(map(mul, found, above))) / above[len(found)])
        left = row[len(found)] - math.fsum(map(mul, found, found))
        found.append(math.sqrt(max(left, 5e-324)))
        lower.append(found)
        total += 2 * math.log(found[-1])
    return total
