"""Where the replies of an endpoint are kept."""

from __future__ import annotations

from pathlib import Path

from hoptree.http.remembered import KEPT_DAYS, Remembered, beside_cache

__all__ = ["KEPT_DAYS", "Remembered", "default_path"]


def default_path() -> Path:
    """graph.sqlite beside $HOPTREE_CACHE, or in the user's cache folder."""
    return beside_cache("graph.sqlite")
