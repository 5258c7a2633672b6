"""Ranking metrics: how high the gold passages stand among those found."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hoptree.retrieval.extras import library

__all__ = ["DEPTH", "RankingMetrics"]

DEPTH = 10
"""Places that count for `mrr` and `ndcg@10`: the fewest passages a retriever has to be asked for."""
_CUTOFFS = (2, 5, 10)
_ALL_AT = 5
_HOME = "IR_DATASETS_HOME"
_NEEDED_FOR = "Scoring rankings"


class RankingMetrics:
    """Scores rankings question by question: recall, MRR and nDCG by ranx, and `all@5` (no gold passage is missing)."""

    def __init__(self) -> None:
        self._numpy = library("numpy", _NEEDED_FOR, "eval")
        with _interpreted(), _away_from_home():
            self._ranx = library("ranx.metrics", _NEEDED_FOR, "eval")

    def score(
        self, gold: Sequence[Collection[str]], found: Sequence[Sequence[str]], *, k: int = DEPTH
    ) -> dict[str, list[float]]:
        """The scores of each question by metric. `found` is best first and k long at most; k above 10 adds `recall@k`.

        The place of a name in the ranking is all that counts. A name that comes again fills its place, but is no
        further hit.
        """
        judged = self._rows(max((len(set(names)) for names in gold), default=1), len(gold))
        ranked = self._rows(max(k, DEPTH), len(gold))
        for row, (names, ranking) in enumerate(zip(gold, found, strict=True)):
            numbers = {name: number for number, name in enumerate(sorted(set(names)), 1)}
            for number in numbers.values():
                judged[row, number - 1] = number, 1
            for place, name in enumerate(ranking[:k]):
                ranked[row, place, 0] = numbers.pop(name, 0)
        by_metric = {f"recall@{cut}": self._ranx.recall(judged, ranked, cut, 1) for cut in _cutoffs(k)}
        by_metric[f"all@{_ALL_AT}"] = by_metric[f"recall@{_ALL_AT}"] == 1
        by_metric["mrr"] = self._ranx.reciprocal_rank(judged, ranked, DEPTH, 1)
        by_metric[f"ndcg@{DEPTH}"] = self._ranx.ndcg(judged, ranked, DEPTH, 1)
        return {metric: [float(value) for value in values] for metric, values in by_metric.items()}

    def _rows(self, width: int, count: int) -> Any:
        """Pairs of number and relevance, as ranx takes them; number 0 is nobody and irrelevant."""
        return self._numpy.zeros((count, width, 2))


def _cutoffs(k: int) -> tuple[int, ...]:
    return (*_CUTOFFS, k) if k > _CUTOFFS[-1] else _CUTOFFS


@contextmanager
def _interpreted() -> Iterator[None]:
    """ranx taken in as plain Python: compiling it costs a minute, running it as it is costs milliseconds."""
    config = library("numba", _NEEDED_FOR, "eval").config
    before, config.DISABLE_JIT = config.DISABLE_JIT, True
    try:
        yield
    finally:
        config.DISABLE_JIT = before


@contextmanager
def _away_from_home() -> Iterator[None]:
    """A library that ranx imports makes folders in the home directory when it is imported, which nobody asked for."""
    if _HOME in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory() as elsewhere:
        os.environ[_HOME] = elsewhere
        try:
            yield
        finally:
            os.environ.pop(_HOME, None)
