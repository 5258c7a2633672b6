"""The limit on processor time fails what takes longer, and ends with its block."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time

import pytest
from tests.cpu_limit import cpu_limit

FAILS = pytest.raises(pytest.fail.Exception, match=r"after 0\.05 seconds")


def work(seconds: float) -> None:
    ends = time.process_time() + seconds
    while time.process_time() < ends:
        pass


@pytest.mark.parametrize(
    ("pattern", "text"), [(r"(a+)+$", "a" * 60 + "b"), (r"-+x", "-" * 40_000), (r"<a[^>]*>", "<a" * 20_000)]
)
def test_a_pattern_of_exponential_or_quadratic_time_is_stopped(pattern: str, text: str) -> None:
    with FAILS, cpu_limit(0.05):
        re.search(pattern, text)


def test_code_that_catches_everything_fails_too() -> None:
    with FAILS, cpu_limit(0.05), contextlib.suppress(BaseException):
        work(0.2)


def test_a_callback_of_an_event_loop_fails_too() -> None:
    async def wait() -> None:
        asyncio.get_running_loop().call_soon(work, 0.2)
        await asyncio.sleep(0.01)

    with FAILS, cpu_limit(0.05):
        asyncio.run(wait())


def test_the_limit_ends_with_its_block() -> None:
    with cpu_limit(0.05):
        pass
    work(0.1)
