"""Views of results and events for clients, and JSON responses."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from starlette.responses import Response

from hoptree.core.errors import ConfigError, public_failure, redact
from hoptree.core.values import Passage
from hoptree.engine.events import Event, Finished, Started
from hoptree.engine.registry import Option, find_method
from hoptree.engine.result import Result, TreeNode, read_result
from hoptree.engine.trace import Retried
from hoptree.server.error_responses import Refusal, error_body, refusal_of
from hoptree.server.reply_schemas import AskReply, Node, PassageReply, TreeEvent

_REDACTED = "set by the server"
_PLAIN_TYPES = (bool, int, float, type(None))


def is_free_text(option: Option) -> bool:
    """Return whether an option takes any text, which may name a file or an address."""
    parts = typing.get_args(option.type) if typing.get_origin(option.type) in (typing.Union, types.UnionType) else ()
    return not option.choices and any(part not in _PLAIN_TYPES for part in parts or (option.type,))


def options_view(method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options without free texts, which may name files and addresses."""
    try:
        known = {option.name: option for option in find_method(method).options}
    except ConfigError:  # of a run with a method that is not installed here
        known = {}
    view = {}
    for name, value in options.items():
        if option := known.get(name):
            is_shown = not is_free_text(option) or value == option.default
        else:
            is_shown = isinstance(value, _PLAIN_TYPES)
        view[name] = value if is_shown else _REDACTED
    return view


def result_view(result: Result, model: str) -> AskReply:
    """Return the object of `hoptree ask --json`, with public names and without paths."""
    ids = [passage.id for passage in (*result.evidence, *result.consulted)]
    view = result.as_dict() | {
        "model": model,
        "options": options_view(result.method, result.options),
        "warnings": [redact(warning, known=ids) for warning in result.warnings],
    }
    if result.error:
        stored = public_failure(result.error, result.error_message)
        view["error"]["message"] = str(refusal_of(result.failure)) if result.failure else stored
    return view


def passage_view(passage: Passage) -> PassageReply:
    return cast(PassageReply, passage.as_dict())


def tree_view(events: Sequence[Event]) -> TreeEvent:
    """Return the current tree with the states of its nodes, and the usage so far."""
    result = read_result(events)
    tree = [_node_view(node) for node in result.tree]
    view = TreeEvent(question=result.question, tree=tree, usage=result.usage.as_dict(), state="running")
    if result.writing:
        view["writing"] = result.as_dict()["writing"]
    return view


def _node_view(node: TreeNode) -> Node:
    return {**node.as_dict(), "state": node.state, "children": [_node_view(child) for child in node.children]}


def event_view(event: Event, model: str, ids: Collection[str]) -> dict[str, Any]:
    """Return a trace event without internal details.

    `ids` are those of passages that the client has seen, which stay in messages.
    """
    view = event.as_dict()
    if isinstance(event, Started):
        sources = {name: redact(str(view[name])) for name in ("corpus", "graph") if view.get(name)}
        return view | {"model": model, "options": options_view(event.method, event.options), **sources}
    if isinstance(event, Retried):
        return view | {"error": public_failure("EndpointError", "")}
    if isinstance(event, Finished) and event.error:
        return view | {"error_message": public_failure(event.error, event.error_message)}
    return view | {"message": redact(str(view["message"]), known=ids)} if "message" in view else view


def to_json(value: Any) -> bytes:
    """Encode a value as JSON in UTF-8; escape lone surrogates, which models may write."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


class Json(Response):
    """A JSON reply."""

    media_type = "application/json"

    def __init__(self, content: Any, status_code: int = 200, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(to_json(content), status_code, headers)


def refusal_response(refusal: Refusal, *, openai: bool = False) -> Json:
    """Build the reply to a request that is refused."""
    return Json(error_body(refusal, openai=openai), refusal.status, refusal.headers)
