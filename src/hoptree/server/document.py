"""The OpenAPI document: which replies a route has, who needs a key, and what the events of a stream are."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from pydantic import TypeAdapter

from hoptree.server.reply_schemas.asks import EVENTS
from hoptree.server.reply_schemas.errors import ErrorReply, OpenAIError

__all__ = ["CHANGE", "JSON_BODY", "QUESTION", "READ", "UPLOAD", "describe", "replies"]

READ = (400, 401, 403, 404, 421, 422, 429, 500)
"""Of what is only looked at."""
CHANGE = (*READ, 409, 503)
"""Of what changes a corpus."""
UPLOAD = (*CHANGE, 408, 413, 415, 504)
JSON_BODY = (400, 401, 403, 408, 409, 413, 415, 421, 422, 429, 500, 501, 502, 503, 504)
"""Of a question or a search: an endpoint may fail, too."""
QUESTION = (*JSON_BODY, 404)
"""Of a question whose method is named as a model."""
_OPEN = "/health"
_KEY = "key"
_SAID = {421: "Misdirected Request"}
_REFS = "#/components/schemas/{model}"


def replies(
    shape: Any, errors: tuple[int, ...], *, status: int = 200, failure: Any = ErrorReply, openai: bool = False
) -> dict[int | str, dict[str, Any]]:
    """What a route may reply: an object of a shape, or one of these errors."""
    failure = OpenAIError if openai else failure
    found: dict[int | str, dict[str, Any]] = {code: {"model": failure, "description": _words(code)} for code in errors}
    return found | ({} if shape is None else {status: {"model": shape, "description": _words(status)}})


def _words(status: int) -> str:
    return _SAID.get(status) or HTTPStatus(status).phrase


def describe(app: FastAPI, *, keys: bool) -> None:
    """Complete the document of an application: bearer keys, which are needed where there are `keys`, and streams."""
    make = app.openapi

    def made() -> dict[str, Any]:
        if app.openapi_schema is None:
            _complete(make(), keys=keys)
        return make()

    app.openapi = made  # type: ignore[method-assign]


def _complete(document: dict[str, Any], *, keys: bool) -> None:
    components = document.setdefault("components", {})
    components["securitySchemes"] = {
        _KEY: {
            "type": "http",
            "scheme": "bearer",
            "description": "A key that whoever runs the server has given out; none is needed where it has no keys.",
        }
    }
    needed: list[dict[str, list[str]]] = [{_KEY: []}] if keys else [{_KEY: []}, {}]
    for path, methods in document["paths"].items():
        for told in methods.values():
            told["security"] = [] if path == _OPEN else needed
    events = {}
    for name, shape in EVENTS.items():
        events[name] = TypeAdapter(shape).json_schema(ref_template=_REFS)
        components["schemas"] |= events[name].pop("$defs", {})
    stream = document["paths"]["/v1/ask"]["post"]["responses"]["200"]["content"]["text/event-stream"]
    stream["x-events"] = events
