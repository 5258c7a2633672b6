"""What clients see of a question: its result, its tree while it grows, and its raw events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hoptree.runtime.result import Result, TreeNode, read_result
from hoptree.runtime.trace import Event
from hoptree.server.refusals import hidden, refusal_of

__all__ = ["told_event", "told_result", "told_snapshot"]


def told_result(result: Result, model: str) -> dict[str, Any]:
    """The object that `hoptree ask --json` prints; the model by the name clients know, messages without paths."""
    data = result.as_dict() | {"model": model, "warnings": [hidden(warning) for warning in result.warnings]}
    if result.error:
        data["error"] = {"class": result.error, "message": _failure(result)}
    return data


def _failure(result: Result) -> str:
    return str(refusal_of(result.failure)) if result.failure else hidden(result.error_message)


def told_snapshot(events: Sequence[Event]) -> dict[str, Any]:
    """The tree as it is now, with the state of every node, and what was spent so far."""
    result = read_result(events)
    data: dict[str, Any] = {
        "tree": [_told_node(node) for node in result.tree],
        "usage": result.usage.as_dict(),
        "state": "running",
    }
    if result.writing:
        data["writing"] = result.as_dict()["writing"]
    return data


def _told_node(node: TreeNode) -> dict[str, Any]:
    return {**node.as_dict(), "state": node.state, "children": [_told_node(child) for child in node.children]}


def told_event(event: Event, model: str) -> Event:
    """A trace event without what only an administrator should see."""
    if event["event"] == "start":
        return {**event, "model": model}
    masked: dict[str, str] = {
        name: hidden(str(event[name])) for name in ("message", "error", "error_message") if name in event
    }
    return {**event, **masked}
