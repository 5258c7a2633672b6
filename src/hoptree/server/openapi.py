"""The OpenAPI document: which replies a route has, who needs a key, and what the events of a stream are."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from pydantic import TypeAdapter

from hoptree.server.reply_schemas.about import (
    Corpora,
    Documents,
    ErrorReply,
    Health,
    JobReply,
    Methods,
    ModelReply,
    Models,
    OpenAIError,
    Started,
)
from hoptree.server.reply_schemas.answers import EVENTS, AskFailure, AskReply, Completion, Found
from hoptree.server.reply_schemas.runs import RunComparison, RunQuestion, RunQuestions, Runs, RunSummary

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
_SHAPES: tuple[Any, ...] = (
    *(AskFailure, AskReply, Completion, Corpora, Documents, ErrorReply, Found, Health, JobReply, Methods, ModelReply),
    *(Models, OpenAIError, RunComparison, RunQuestion, RunQuestions, RunSummary, Runs, Started),
)
"""All that `replies` and `reply` are told of."""


def replies(
    shape: Any, errors: tuple[int, ...], *, status: int = 200, failure: Any = ErrorReply, openai: bool = False
) -> dict[int | str, dict[str, Any]]:
    """What a route may reply: an object of a shape, or one of these errors."""
    failure = OpenAIError if openai else failure
    found: dict[int | str, dict[str, Any]] = {code: reply(failure, _words(code)) for code in errors}
    return found | ({} if shape is None else {status: reply(shape, _words(status))})


def reply(shape: Any, description: str, *, stream: bool = False) -> dict[str, Any]:
    """One reply, which may come as a stream too; its shape is told by name.

    The framework would make a validator for every reply of every route, though none is validated, which takes longer
    than the rest of making the application.
    """
    kinds = {"application/json": {"schema": {"$ref": _REFS.format(model=shape.__name__)}}}
    return {"description": description, "content": kinds | ({"text/event-stream": {}} if stream else {})}


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
    _, shapes = TypeAdapter.json_schemas(
        [(shape, "serialization", TypeAdapter(shape)) for shape in _SHAPES], ref_template=_REFS
    )
    components["schemas"] |= shapes["$defs"]
    stream = document["paths"]["/v1/ask"]["post"]["responses"]["200"]["content"]["text/event-stream"]
    stream["x-events"] = events
