"""Fitting the weights: logistic regression by Newton's method, with a penalty that keeps small samples honest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hoptree.choosing.features import FEATURES, Features, may_weigh

__all__ = ["Example", "fit"]

PENALTY = 1.0
"""What a weight of 1 costs, in units of one example's log-loss."""
_ROUNDS = 50
_SETTLED = 1e-9


@dataclass(frozen=True, slots=True)
class Example:
    """An answer's features, and how right it was: from 0 to 1, since F1 is neither."""

    features: Features
    right: float
    weight: float = 1.0


def fit(examples: Sequence[Example], *, penalty: float = PENALTY) -> tuple[dict[str, float], float]:
    """The weights and the bias under which what happened is likeliest; the bias is not penalised.

    A weight against what its feature says is an accident of the sample: the worst of them is set to nothing and the
    others are fitted anew, until there is none.
    """
    names = list(FEATURES)
    while True:
        point = _likeliest(
            [[one.features.get(name, 0.0) for name in names] + [1.0] for one in examples], examples, penalty
        )
        weights = dict(zip(names, point, strict=False))
        if not (odd := [name for name, weight in weights.items() if not may_weigh(name, round(weight, 6))]):
            # What is rounded to nothing has no sign.
            return {name: round(weights.get(name, 0.0), 6) + 0.0 for name in FEATURES}, round(point[-1], 6)
        names.remove(max(odd, key=lambda name: abs(weights[name])))


def _likeliest(rows: Sequence[Sequence[float]], examples: Sequence[Example], penalty: float) -> list[float]:
    """The sum is convex, so a step of Newton's that does not go down is halved until it does."""
    point = [0.0] * (len(rows[0]) if rows else 1)
    loss = _loss(rows, examples, point, penalty)
    for _ in range(_ROUNDS):
        step = _newton(rows, examples, point, penalty)
        size = 1.0
        while size > _SETTLED:
            tried = [at - size * by for at, by in zip(point, step, strict=True)]
            if (lower := _loss(rows, examples, tried, penalty)) < loss:
                break
            size /= 2
        else:
            break
        settled = loss - lower < _SETTLED * (1 + loss)
        point, loss = tried, lower
        if settled:
            break
    return point


def _chance(row: Sequence[float], point: Sequence[float]) -> float:
    total = math.fsum(at * by for at, by in zip(row, point, strict=True))
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))


def _loss(
    rows: Sequence[Sequence[float]], examples: Sequence[Example], point: Sequence[float], penalty: float
) -> float:
    total = penalty / 2 * math.fsum(weight * weight for weight in point[:-1])
    for row, one in zip(rows, examples, strict=True):
        chance = min(max(_chance(row, point), 1e-12), 1 - 1e-12)
        total -= one.weight * (one.right * math.log(chance) + (1 - one.right) * math.log(1 - chance))
    return total


def _newton(
    rows: Sequence[Sequence[float]], examples: Sequence[Example], point: Sequence[float], penalty: float
) -> list[float]:
    """Hessian's inverse times gradient."""
    size = len(point)
    slope = [penalty * weight for weight in point[:-1]] + [0.0]
    bend = [[penalty if at == other < size - 1 else 0.0 for other in range(size)] for at in range(size)]
    bend[-1][-1] = 1e-9  # so that no example at all is no division by nothing
    for row, one in zip(rows, examples, strict=True):
        chance = _chance(row, point)
        off, steep = one.weight * (chance - one.right), one.weight * chance * (1 - chance)
        for at, value in enumerate(row):
            if value:
                slope[at] += off * value
                for other in range(at + 1):
                    bend[at][other] += steep * value * row[other]
    for at in range(size):
        for other in range(at):
            bend[other][at] = bend[at][other]
    return _solved(bend, slope)


def _solved(matrix: list[list[float]], right: Sequence[float]) -> list[float]:
    """The solution of a system of linear equations, by elimination with the largest pivot."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for at in range(size):
        best = max(range(at, size), key=lambda row: abs(rows[row][at]))
        rows[at], rows[best] = rows[best], rows[at]
        for below in range(at + 1, size):
            share = rows[below][at] / rows[at][at]
            if share:
                rows[below] = [one - share * other for one, other in zip(rows[below], rows[at], strict=True)]
    found = [0.0] * size
    for at in reversed(range(size)):
        known = math.fsum(rows[at][other] * found[other] for other in range(at + 1, size))
        found[at] = (rows[at][size] - known) / rows[at][at]
    return found
