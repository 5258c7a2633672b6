"""What a request costs: the slope between two runs."""

from __future__ import annotations

import pytest
from benchmarks.slots import Figures
from benchmarks.throughput import Measured


def test_the_start_of_a_run_is_told_from_its_requests() -> None:
    small = Measured("oner", "bm25", 20, Figures(requests=20), cpu=0.24, waited=0.0)
    full = Measured("oner", "bm25", 100, Figures(requests=100), cpu=0.4, waited=0.0).after(small)
    assert full.cpu_ms == pytest.approx(2.0) and full.start == pytest.approx(0.2)
    assert small.cpu_ms == pytest.approx(12.0)
