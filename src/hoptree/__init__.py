"""Hoptree answers questions that need several facts joined together, and shows the tree behind every answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hoptree.engine import Engine, aask, ask
    from hoptree.runtime.budget import Budget
    from hoptree.runtime.context import Prices
    from hoptree.runtime.result import Result
    from hoptree.values import Answer, Fact, Passage, Question, Usage

__all__ = ["Answer", "Budget", "Engine", "Fact", "Passage", "Prices", "Question", "Result", "Usage", "aask", "ask"]
__version__ = "0.1.0"

_HOMES = {
    "Engine": "hoptree.engine",
    "aask": "hoptree.engine",
    "ask": "hoptree.engine",
    "Budget": "hoptree.runtime.budget",
    "Prices": "hoptree.runtime.context",
    "Result": "hoptree.runtime.result",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import hoptree` costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module 'hoptree' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_HOMES.get(name, "hoptree.values")), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
