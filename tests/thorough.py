"""The number of examples: all with --hypothesis-profile=thorough, else a part."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["HALF", "THOROUGH"]

THOROUGH = settings().max_examples > 1_000
HALF = settings().max_examples // 2
"""For tests with slow examples."""
