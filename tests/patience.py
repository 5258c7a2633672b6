"""Work that must come to an end: a reader that grows with the square of a text seems to have none."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

__all__ = ["patience"]


@contextmanager
def patience(seconds: float = 2.0) -> Iterator[None]:
    """Fail what is still at work after so many seconds of processor time, which other processes do not use up.

    It is no measure of speed: what is tested in this way takes a fraction of it.
    """
    given_up = []

    def give_up(*_: object) -> None:
        given_up.append(f"it was still at work after {seconds:g} seconds of processor time")
        pytest.fail(given_up[0])

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    if given_up:
        pytest.fail(given_up[0])  # what was at work took the failure for one of its own
