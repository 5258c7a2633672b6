"""Decisions put into words, for the lines shown with an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ROUTING = ("route", "need", "retrieve", "verify", "agreement", "share")
SHOWN_KINDS = frozenset((*_ROUTING, "action", "repeated_search", "critique", "heaviest", "mixed", "ended"))
"""Decisions that tell how a question was answered; trees and texts are drawn with all others."""
_LABELS = {"route": "way", "repeated_search": "searched before"}
_NOT_DESCRIBED = frozenset(
    ("event", "run", "t", "node", "depth", "kind", "value", "raw", "step", "labels", "encoder", "answer")
)
UNSETTLED = "read, but not settled"
"""Why an unfinished node has the answer it has."""
_MAX_VALUE_CHARS = 80
_MAX_ITEMS = 10


def describe_decision(decision: Mapping[str, Any]) -> str:
    """Put a decision into one line: "way: Retrieval (of Direct, Plan, Reason, Retrieval)"."""
    grounds = (_describe_ground(name, value) for name, value in decision.items() if name not in _NOT_DESCRIBED)
    behind = ", ".join(filter(None, grounds))
    label = _LABELS.get(decision["kind"], decision["kind"])
    return f"{label}: {_describe_value(decision.get('value'))}" + (f" ({behind})" if behind else "")


def _describe_ground(name: str, value: Any) -> str:
    """Describe what a decision rests on; "" for what takes more than a few words, or goes without saying."""
    if isinstance(value, bool):
        return "" if value else f"not {name}"
    if isinstance(value, Mapping):
        value = [f"{_describe_value(key)} {_describe_value(item)}" for key, item in value.items() if _is_short(item)]
    text = _describe_value(value) if _is_short(value) or isinstance(value, list) else ""
    return f"{name} {text}" if text else ""


def _describe_value(value: Any) -> str:
    if isinstance(value, list):
        items = [_describe_value(item) for item in value if _is_short(item)]
        more = f" and {len(items) - _MAX_ITEMS} more" if len(items) > _MAX_ITEMS else ""
        return ", ".join(items[:_MAX_ITEMS]) + more
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "none" if value is None else shorten(value, _MAX_VALUE_CHARS)


def _is_short(value: Any) -> bool:
    return isinstance(value, str | int | float)


def shorten(text: object, max_chars: int = 200) -> str:
    """Return a text on one line, cut where it is long."""
    line = " ".join(str(text).split())
    return line if len(line) <= max_chars else f"{line[:max_chars]}…"
