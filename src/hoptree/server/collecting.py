"""Looking for garbage rarely, in a process that does nothing but answer."""

from __future__ import annotations

import gc

__all__ = ["collect_rarely"]

_BETWEEN_COLLECTIONS = 50_000
"""Objects that there are more than at the last look: 200 questions under way have fewer. By default it is 700, and a
busy server would spend a sixth of its time looking for cycles among questions under way."""


def collect_rarely() -> None:
    """From now on; and not among what is there for good: questions leave no cycles behind."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_BETWEEN_COLLECTIONS, *gc.get_threshold()[1:])
