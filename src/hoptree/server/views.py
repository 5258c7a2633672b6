"""What clients see of a question: its result, its tree while it grows, and its raw events."""

from __future__ import annotations

import types
import typing
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hoptree.core.errors import ConfigError
from hoptree.core.redaction import public_failure, redact
from hoptree.engine.events import Event, Finished, Retried, Started
from hoptree.engine.registry import Option, find_method
from hoptree.engine.result import Result, TreeNode, read_result
from hoptree.server.error_responses import refusal_of

_SET = "set by the server"
_PLAIN = (bool, int, float, type(None))


def is_free_text(option: Option) -> bool:
    """Whether an option takes any text, which may name a file, a model or an address."""
    parts = typing.get_args(option.type) if typing.get_origin(option.type) in (typing.Union, types.UnionType) else ()
    return not option.choices and any(part not in _PLAIN for part in parts or (option.type,))


def options_view(method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options without texts that somebody wrote: those may name files and addresses."""
    try:
        known = {option.name: option for option in find_method(method).options}
    except ConfigError:  # of a run with a method that is not installed here
        known = {}
    return {name: _told_value(known.get(name), value) for name, value in options.items()}


def _told_value(option: Option | None, value: Any) -> Any:
    if option is None:
        return value if isinstance(value, _PLAIN) else _SET
    return _SET if is_free_text(option) and value != option.default else value


def result_view(result: Result, model: str) -> dict[str, Any]:
    """The object that `hoptree ask --json` prints; the model by the name clients know, messages without paths."""
    ids = [passage.id for passage in (*result.evidence, *result.cited)]
    data = result.as_dict() | {
        "model": model,
        "options": options_view(result.method, result.options),
        "warnings": [redact(warning, known=ids) for warning in result.warnings],
    }
    if result.error:
        data["error"] = {"class": result.error, "message": _failure(result)}
    return data


def _failure(result: Result) -> str:
    return str(refusal_of(result.failure)) if result.failure else public_failure(result.error, result.error_message)


def tree_view(events: Sequence[Event]) -> dict[str, Any]:
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


def event_view(event: Event, model: str, ids: Collection[str]) -> dict[str, Any]:
    """A trace event without what only an administrator should see; `ids` of passages the client has seen."""
    told = event.as_dict()
    if isinstance(event, Started):
        sources = {name: redact(str(told[name])) for name in ("corpus", "graph") if told.get(name)}
        return {**told, "model": model, "options": options_view(event.method, event.options), **sources}
    if isinstance(event, Retried):
        return {**told, "error": public_failure("EndpointError", "")}
    if isinstance(event, Finished) and event.error:
        return {**told, "error_message": public_failure(event.error, event.error_message)}
    return {**told, "message": redact(str(told["message"]), known=ids)} if "message" in told else told
