"""Imports of libraries that only some features need."""

from __future__ import annotations

import importlib
from typing import Any

from hoptree.core.errors import MissingExtra


def import_optional(name: str, feature: str, extra: str) -> Any:
    """Import a library when it is first used, or say how to install it; untyped, as some of them are."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtra(feature, extra) from error
