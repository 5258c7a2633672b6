"""Libraries that only some features need: imported when first used, or named with the command that installs them."""

from __future__ import annotations

import importlib
from typing import Any

from hoptree.core.errors import MissingExtra


def library(name: str, feature: str, extra: str) -> Any:
    """The module of this name; some of these libraries come without types, so that all are taken as untyped."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtra(feature, extra) from error
