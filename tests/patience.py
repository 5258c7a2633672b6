"""Work that must come to an end: a reader that grows with the square of a text seems to have none."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

__all__ = ["patience"]


@contextmanager
def patience(seconds: float = 5.0) -> Iterator[None]:
    """Fail what is still at work after so many seconds of processor time, which other processes do not use up.

    It is no measure of speed: what is tested in this way takes a fraction of it.
    """

    def give_up(*_: object) -> None:
        pytest.fail(f"it was still at work after {seconds:g} seconds of processor time")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
