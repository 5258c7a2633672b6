"""The delay before the next attempt, and a circuit breaker.

The loops that retry are `Calls._send_with_retries` (`engine/calls.py`), `Throttle` (`core/public_http.py`) and the
Elasticsearch code.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from hoptree.core.errors import ModelError

_MIN_DELAY_S = 0.05
_MAX_BACKOFF_S = 30.0


def retry_delay_s(error: ModelError, failures: int, *, first_s: float = 0.5) -> float:
    """Return the server's Retry-After, else exponential backoff from `first_s` on.

    Jitter keeps requests that were refused together from coming back together. Retry-After may be infinite or NaN:
    compare with `not waited <= patience`, which is true for both.
    """
    if error.retry_after is not None:
        return max(error.retry_after, _MIN_DELAY_S)  # in this order NaN stays NaN
    import random  # most questions need no second attempt

    backoff: float = min(_MAX_BACKOFF_S, first_s * 2 ** (failures - 1))
    return backoff * random.uniform(0.8, 1.2)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the delay that the headers of a refusal ask for, or None."""
    try:
        if milliseconds := headers.get("retry-after-ms"):
            return float(milliseconds) / 1000
        value = headers.get("retry-after")
        if value is None:
            return None
        if value.replace(".", "", 1).isdigit():
            return float(value)
        from email.utils import parsedate_to_datetime

        return parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, TypeError):
        return None


MAX_FAILURES_IN_A_ROW = 8  # more than one: some prompts are too long, and a refusal arrives before the other replies
SHUT_OUT_STATUS = (401, 403, 404)  # the key or the model is gone, so every later call would fail too


class CircuitBreaker:
    """Count failures in a row, and raise the last one when there are too many.

    After a success the limit is at least twice `at_once`, as all calls under way may fail together.
    """

    def __init__(self, at_once: int = 1) -> None:
        self.succeeded = False
        self._at_once = at_once
        self._in_a_row = 0

    def success(self) -> None:
        self.succeeded = True
        self._in_a_row = 0

    def failure(self, error: Exception) -> None:
        """Count a failure that other calls would meet too; raise it if it is one too many."""
        self._in_a_row += 1
        together = 2 * self._at_once if self.succeeded else 0
        if self._in_a_row >= max(MAX_FAILURES_IN_A_ROW, together):
            raise error
