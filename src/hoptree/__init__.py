"""Hoptree answers questions that need several facts joined together, and shows the tree behind every answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hoptree.core.values import Answer, Fact, Passage, Question, Usage
    from hoptree.engine.context import Budget, Prices
    from hoptree.engine.engine import Engine, aask, ask, index, stream
    from hoptree.engine.result import Result

__all__ = [
    "Answer",
    "Budget",
    "Engine",
    "Fact",
    "Passage",
    "Prices",
    "Question",
    "Result",
    "Usage",
    "aask",
    "ask",
    "index",
    "stream",
]
__version__ = "0.1.0"

_MODULES = {
    **dict.fromkeys(("Engine", "aask", "ask", "index", "stream"), "hoptree.engine.engine"),
    **dict.fromkeys(("Budget", "Prices"), "hoptree.engine.context"),
    "Result": "hoptree.engine.result",
}
"""The modules of the public names that are not in `hoptree.core.values`."""


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that `import hoptree` is fast."""
    if name not in __all__:
        raise AttributeError(f"module 'hoptree' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_MODULES.get(name, "hoptree.core.values")), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
