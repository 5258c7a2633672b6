"""The libraries that a training rests on."""

from __future__ import annotations

import importlib.metadata
import importlib.util

from hoptree import __version__
from hoptree.errors import MissingExtra

__all__ = ["require_libraries", "versions"]

_LIBRARIES = ("torch", "transformers", "peft")


def require_libraries() -> None:
    """Say how to install them where one is not there; nothing is imported."""
    if any(importlib.util.find_spec(library) is None for library in _LIBRARIES):
        raise MissingExtra("Training", "train")


def versions() -> dict[str, str]:
    """The versions that the weights rest on, besides Hoptree's own."""
    return {"hoptree": __version__, **{name: importlib.metadata.version(name) for name in _LIBRARIES}}
