"""Gradient boosting of symmetric trees for ranking, in numpy.

Every level of such a tree asks one thing of all its nodes, so it overfits little and is scored by a look-up. The loss
is a softmax of each relevant row against all irrelevant ones of its list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hoptree.retrieval.ranker import LEAF_DECIMALS, THRESHOLD_DIGITS, Trees

_MIN_CURVATURE = 1e-6
_MIN_GAIN = 1e-12
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Lists:
    """Rows of features, list after list; `lengths` has one number a list."""

    rows: NDArray[np.float32]
    relevant: NDArray[np.bool_]
    lengths: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Growth:
    """How trees are grown."""

    trees: int = 300
    depth: int = 5
    rate: float = 0.08
    bins: int = 48
    feature_share: float = 0.4
    list_share: float = 0.8
    penalty: float = 3.0
    seed: int = 7


def grow(
    lists: Lists, how: Growth, begun: Trees | None = None, on_tree: Callable[[Trees], None] = lambda trees: None
) -> Trees:
    """Grow trees, or go on with those begun: the result is the same."""
    edges = [_edges(column, how.bins) for column in lists.rows.T]
    binned = np.stack(
        [np.searchsorted(edge, column).astype(np.uint8) for edge, column in zip(edges, lists.rows.T, strict=True)]
    )
    usable = [at for at, edge in enumerate(edges) if len(edge)]
    of_list = np.repeat(np.arange(len(lists.lengths)), lists.lengths)
    features: list[Any] = begun.features.tolist() if begun else []
    thresholds: list[Any] = begun.thresholds.tolist() if begun else []
    leaves: list[Any] = begun.leaves.tolist() if begun else []
    scores = begun.score(lists.rows) if begun else np.zeros(len(lists.rows))
    for count in range(len(features), how.trees):
        random = np.random.default_rng([how.seed, count])
        gradient, curvature = _derivatives(scores, lists, of_list)
        kept = np.flatnonzero((random.random(len(lists.lengths)) < how.list_share)[of_list])
        tried = np.sort(random.choice(usable, max(1, int(how.feature_share * len(usable))), replace=False))
        columns = {int(at): binned[at, kept].astype(np.int64) for at in tried}
        widths = {feature: len(edges[feature]) for feature in columns}
        asked, cuts = _levels(columns, widths, gradient[kept], curvature[kept], how)
        place = np.zeros(len(scores), dtype=np.int64)
        for level, (feature, cut) in enumerate(zip(asked, cuts, strict=True)):
            place |= (binned[feature] > cut).astype(np.int64) << level
        drops = np.bincount(place[kept], gradient[kept], 2**how.depth)
        bends = np.bincount(place[kept], curvature[kept], 2**how.depth)
        leaf = np.round(-how.rate * drops / (bends + how.penalty), LEAF_DECIMALS)
        features.append(asked)
        thresholds.append([float(edges[feature][cut]) for feature, cut in zip(asked, cuts, strict=True)])
        leaves.append(leaf.tolist())
        scores = scores + leaf[place]
        on_tree(Trees(np.array(features), np.array(thresholds), np.array(leaves)))
    return Trees(np.array(features), np.array(thresholds), np.array(leaves))


def _edges(values: NDArray[Any], bins: int) -> Floats:
    """Return thresholds that split a feature evenly by rows and by values."""
    distinct = np.unique(values).astype(np.float64)
    if len(distinct) <= bins:
        edges = (distinct[:-1] + distinct[1:]) / 2
    else:
        by_rows = np.quantile(values, np.linspace(0, 1, bins + 1)[1:-1])
        edges = np.concatenate([by_rows, np.quantile(distinct, np.linspace(0, 1, bins // 2 + 1)[1:-1])])
    return np.unique([float(f"{edge:.{THRESHOLD_DIGITS}g}") for edge in edges])


def _derivatives(scores: Floats, lists: Lists, of_list: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return the first and second derivative of the loss by each row's score."""
    starts = np.cumsum(lists.lengths) - lists.lengths
    raised = np.exp(scores - np.maximum.reduceat(scores, starts)[of_list])
    irrelevant = np.add.reduceat(np.where(lists.relevant, 0.0, raised), starts)[of_list]
    inverse = np.where(lists.relevant, 1 / (raised + irrelevant), 0.0)
    first, second = (np.add.reduceat(inverse**power, starts)[of_list] for power in (1, 2))
    chance = raised / (raised + irrelevant)
    gradient = np.where(lists.relevant, chance - 1, raised * first)
    curvature = np.where(lists.relevant, chance * (1 - chance), raised * first - raised**2 * second)
    return gradient, np.maximum(curvature, _MIN_CURVATURE)


def _levels(
    columns: dict[int, NDArray[np.int64]], widths: dict[int, int], gradient: Floats, curvature: Floats, how: Growth
) -> tuple[list[int], list[int]]:
    """Choose the feature and bin with the largest gain for each level."""
    place = np.zeros(len(gradient), dtype=np.int64)
    width = 1 + max(widths.values())
    asked: list[int] = []
    cuts: list[int] = []
    for level in range(how.depth):
        nodes, best, begins = 1 << level, (-np.inf, 0, 0), place * width
        for feature, column in columns.items():
            where = begins + column
            left = np.bincount(where, gradient, nodes * width).reshape(nodes, width).cumsum(axis=1)
            bend = np.bincount(where, curvature, nodes * width).reshape(nodes, width).cumsum(axis=1)
            right, right_bend = left[:, -1:] - left, bend[:, -1:] - bend
            gains = (left**2 / (bend + how.penalty) + right**2 / (right_bend + how.penalty)).sum(axis=0)
            cut = int(gains[: widths[feature]].argmax())
            if gains[cut] > best[0] + _MIN_GAIN:
                best = (float(gains[cut]), feature, cut)
        asked.append(best[1])
        cuts.append(best[2])
        place |= (columns[best[1]] > best[2]).astype(np.int64) << level
    return asked, cuts
