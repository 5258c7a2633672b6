"""How much is tried: all of it with --hypothesis-profile=thorough, a part of it in the checks of every change."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["HALF", "THOROUGH"]

THOROUGH = settings().max_examples > 1_000
HALF = settings().max_examples // 2
"""Examples of a test whose single example takes long."""
