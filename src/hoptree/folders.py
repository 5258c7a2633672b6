"""Where Hoptree keeps what it can make again."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder() -> Path:
    """The user's cache folder for Hoptree: $XDG_CACHE_HOME/hoptree, or ~/.cache/hoptree."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "hoptree"
