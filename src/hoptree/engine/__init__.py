"""What runs a method: context, calls, cache, budget, trace and result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hoptree.engine.engine import Engine, aask, ask

__all__ = ["Engine", "aask", "ask"]


def __getattr__(name: str) -> Any:
    """Import the engine when it is first used: most modules need only a part of this package."""
    if name not in __all__:
        raise AttributeError(f"module 'hoptree.engine' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module("hoptree.engine.engine"), name)
