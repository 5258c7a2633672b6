"""After kills, a full disk or a second process, repeating the command gives the same result."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.chaos import Tally, chaos
from tests.thorough import THOROUGH


@pytest.mark.parametrize("job", ["run", "add", "graph"])
def test_interrupted_jobs_lose_repeat_and_change_nothing(job: str, tmp_path: Path) -> None:
    """`python -m benchmarks.chaos` interrupts every job, also workers, uploads and a training."""
    if job == "graph":
        pytest.importorskip("pyoxigraph")
    tally = chaos([job], 20 if THOROUGH else 2, ["full", "two"], seed=3, place=tmp_path)
    assert not tally.notes
    assert (tally.lost, tally.repeated, tally.different) == (0, 0, 0)
    assert tally.kills >= 2


def test_lost_repeated_and_different_items_are_counted() -> None:
    tally = Tally()
    tally.compare("a job", [("a", 1), ("b", 2), ("b", 2), ("d", 5)], [("a", 1), ("b", 2), ("c", 3), ("d", 4)])
    assert (tally.lost, tally.repeated, tally.different) == (1, 1, 1) and not tally.clean
