"""A limit on processor time, for code whose time must not grow with the square of its input."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

__all__ = ["cpu_limit"]


@contextmanager
def cpu_limit(seconds: float = 2.0) -> Iterator[None]:
    """Fail if the block takes more seconds of processor time, which other processes do not use up.

    It does not measure speed: the tested code usually takes a fraction of the limit.
    """
    failures = []

    def fail(*_: object) -> None:
        failures.append(f"it was still running after {seconds:g} seconds of processor time")
        pytest.fail(failures[0])

    before = signal.signal(signal.SIGPROF, fail)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    if failures:
        pytest.fail(failures[0])  # the block caught the first one
