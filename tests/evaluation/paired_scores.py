"""Scores of two runs, question by question."""

from __future__ import annotations

from collections.abc import Sequence

from hoptree.evaluation.statistics import PairedComparison, compare_pair

__all__ = ["flipped", "named"]


def named(scores: Sequence[float]) -> dict[str, float]:
    return {f"q{place:05}": score for place, score in enumerate(scores)}


def flipped(wins: int, losses: int, ties: int = 0) -> PairedComparison:
    a = [0.0] * wins + [1.0] * losses + [1.0] * ties
    b = [1.0] * wins + [0.0] * losses + [1.0] * ties
    return compare_pair(named(a), named(b), samples=500)
