"""How long to wait before a failed request is sent again."""

from __future__ import annotations

import random

from hoptree.core.errors import ModelError

_MIN_DELAY_S = 0.05
_MAX_BACKOFF_S = 30.0


def retry_delay_s(error: ModelError, failures: int, *, first_s: float = 0.5) -> float:
    """Return what the server asked for, else exponential backoff from `first_s` on.

    Jitter keeps requests that were refused together from coming back together. A server may ask for an infinite or
    undefined time: compare with `not waited <= patience`, which holds for both.
    """
    if error.retry_after is not None:
        return max(error.retry_after, _MIN_DELAY_S)  # in this order NaN stays NaN
    backoff: float = min(_MAX_BACKOFF_S, first_s * 2 ** (failures - 1))
    return backoff * random.uniform(0.8, 1.2)
