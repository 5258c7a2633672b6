"""Schemas of replies, some generated from result types, and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, NotRequired, get_type_hints

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from hoptree.core.values import Level, Usage
from hoptree.engine.generation_view import Writing
from hoptree.engine.result import Result, TreeNode, read_result

if TYPE_CHECKING:
    from fastapi import FastAPI

_new_typed_dict: Any = TypedDict


def dataclass_schema(
    name: str, about: str, source: Any, *, always: Collection[str], without: Collection[str] = (), **other: Any
) -> Any:
    """Make a TypedDict for the `as_dict` of a dataclass.

    Keys in `always` are never missing. `without` names fields that are no keys, and `other` gives types of keys that
    differ from those of the fields.
    """
    hints = get_type_hints(source, localns={"Writing": Writing})  # `Result` imports it only for type checking
    types = {field.name: hints[field.name] for field in fields(source) if field.name not in without} | other
    schema = _new_typed_dict(name, {key: hint if key in always else NotRequired[hint] for key, hint in types.items()})
    schema.__doc__ = about
    return schema


# Only this form of TypedDict takes `class`, a keyword, as a key.
ErrorDetail = TypedDict("ErrorDetail", {"class": str, "message": str, "remedy": str, "retryable": NotRequired[bool]})
ErrorDetail.__doc__ = "Why something was refused or failed; `retryable` is false where asking again cannot help."
FailedBy = TypedDict("FailedBy", {"class": str, "message": str})
FailedBy.__doc__ = "What ended a question."


class ErrorReply(TypedDict):
    """A request that was refused, or failed."""

    error: ErrorDetail


class OpenAIErrorDetail(TypedDict):
    """An error as OpenAI's clients read it; `code` is the class."""

    message: str
    type: str
    code: str
    param: str | None
    retryable: NotRequired[bool]


class OpenAIError(TypedDict):
    """A request that was refused, or failed, as OpenAI's clients read it."""

    error: OpenAIErrorDetail


class PassageReply(TypedDict):
    """A passage with its score, and which characters of which document it is."""

    id: str
    title: str
    text: str
    score: float
    document: str
    start: int
    end: int
    metadata: dict[str, str | list[str]]


class ConfidenceReply(TypedDict):
    """How well an answer is supported, and why.

    `calibrated_on` names the questions behind the probability.
    """

    level: Level
    reason: str
    probability: NotRequired[float]
    calibrated_on: NotRequired[str]


class AskFailure(TypedDict):
    """A question that was refused, or failed; then with its `result` so far."""

    error: ErrorDetail
    result: NotRequired[AskReply]


if TYPE_CHECKING:  # these are generated at run time
    UsageReply = dict[str, float]
    Node = dict[str, Any]
    AskReply = dict[str, Any]
else:
    UsageReply = dataclass_schema(
        "UsageReply",
        "What a question cost; tokens are those of all calls, `cost` is what was paid.",
        Usage,
        always=Usage().as_dict(),
    )
    Node = dataclass_schema(
        "Node",
        "A sub-question: its answer, where that comes from, and the ids of the passages behind it.",
        TreeNode,
        always=TreeNode(0, "").as_dict(),
        children="list[Node]",
    )
    AskReply = dataclass_schema(
        "AskReply",
        "An answer with its tree: the object of `hoptree ask --json`. [N] in `sentence` is the Nth of `evidence`.",
        Result,
        always=read_result(()).as_dict(),
        without=("failure", "error_message"),
        tree=list[Node],
        evidence=list[PassageReply],
        consulted=list[PassageReply],
        usage=UsageReply,
        confidence=ConfidenceReply | None,
        stopped_by=str | None,
        writing=Writing,
        decisions=list[dict[str, Any]],
        error=FailedBy,
    )


class CitedPlace(TypedDict):
    start_index: int
    end_index: int
    title: str
    url: str


class Citation(TypedDict):
    type: Literal["url_citation"]
    url_citation: CitedPlace


class Message(TypedDict):
    """The answer, with steps and tree as its reasoning.

    `hoptree` is the reply of `/v1/ask`.
    """

    role: Literal["assistant"]
    content: str
    refusal: None
    reasoning_content: str
    annotations: list[Citation]
    hoptree: AskReply


class Choice(TypedDict):
    index: int
    message: Message
    logprobs: None
    finish_reason: Literal["stop", "length"]


class CompletionUsage(TypedDict):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: dict[Literal["cached_tokens"], int]
    completion_tokens_details: dict[Literal["reasoning_tokens"], int]


class Completion(TypedDict):
    """OpenAI's chat completion."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: CompletionUsage


class ResponseReply(TypedDict):
    """OpenAI's response: the tree is its reasoning, the answer its message.

    `hoptree` is the reply of `/v1/ask`.
    """

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["in_progress", "completed", "incomplete", "failed"]
    model: str
    output: list[dict[str, Any]]
    usage: dict[str, Any] | None
    error: dict[str, Any] | None
    incomplete_details: dict[str, str] | None
    parallel_tool_calls: bool
    tool_choice: str
    tools: list[Any]
    metadata: dict[str, str]
    hoptree: AskReply | None


class StepEvent(TypedDict):
    """What happens, as one line of text, and the sub-question it is about."""

    text: str
    node: int | None
    t: float
    kind: str


class ProgressEvent(TypedDict):
    """The progress of one model call: prompt tokens read of all, and tokens written."""

    text: str
    node: int | None
    read: int
    total: int
    written: int
    seconds: float


class PassagesEvent(TypedDict):
    """Passages that were found for the first time."""

    passages: list[PassageReply]


class TreeEvent(TypedDict):
    """The tree so far, with the state of each node, and what was spent."""

    question: str
    tree: list[Node]
    usage: UsageReply
    state: Literal["running"]
    writing: NotRequired[Writing]


class ErrorEvent(ErrorDetail):
    """Why a question has no answer, with its `result` so far."""

    result: NotRequired[AskReply]


STREAM_EVENTS: dict[str, Any] = {
    "step": StepEvent,
    "progress": ProgressEvent,
    "passages": PassagesEvent,
    "tree": TreeEvent,
    "trace": dict[str, Any],
    "result": AskReply,
    "error": ErrorEvent,
}
"""The data of server-sent events by their names."""
LIST_ERRORS = (401, 403, 421, 429, 500)  # of a list that takes no arguments
READ_ERRORS = (400, 401, 403, 404, 421, 422, 429, 500)
CHANGE_ERRORS = (*READ_ERRORS, 409, 503)  # of what changes a corpus
UPLOAD_ERRORS = (*CHANGE_ERRORS, 408, 413, 415, 504)
QUESTION_ERRORS = (400, 401, 403, 408, 409, 413, 415, 421, 422, 429, 500, 501, 502, 503, 504)
"""Of a question or a search, which may also fail at an endpoint."""
CHAT_ERRORS = (*QUESTION_ERRORS, 404)  # of a question whose method is named as a model
_OPEN_PATH = "/health"
_KEY = "key"
_REF = "#/components/schemas/{model}"
_SCHEMAS: dict[str, Any] = {}  # the schemas given to `reply`, by name


def replies(
    schema: Any, errors: tuple[int, ...], *, status: int = 200, failure: Any = ErrorReply, openai: bool = False
) -> dict[int | str, dict[str, Any]]:
    """Describe what a route may reply: an object of a schema, or one of these errors."""
    failure = OpenAIError if openai else failure
    described: dict[int | str, dict[str, Any]] = {code: reply(failure, _phrase(code)) for code in errors}
    return described if schema is None else described | {status: reply(schema, _phrase(status))}


def reply(schema: Any, description: str, *, stream: bool = False) -> dict[str, Any]:
    """Describe a reply, which may also be a stream, with a reference to its schema.

    FastAPI's `response_model` would make validators for all replies, though none is validated. That takes longer than
    the rest of creating the application.
    """
    _SCHEMAS[schema.__name__] = schema
    kinds = {"application/json": {"schema": {"$ref": _REF.format(model=schema.__name__)}}}
    return {"description": description, "content": kinds | ({"text/event-stream": {}} if stream else {})}


def _phrase(status: int) -> str:
    return "Misdirected Request" if status == 421 else HTTPStatus(status).phrase


def complete_document(app: FastAPI, *, keys: bool, prices: bool) -> None:
    """Add keys and reply schemas to the OpenAPI document; no cost without prices."""
    make_document = app.openapi

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            _complete(schema := make_document(), keys=keys)
            if not prices:
                schema["components"]["schemas"]["BudgetBody"]["properties"]["cost"] = {"type": "null"}
        return make_document()

    app.openapi = document  # type: ignore[method-assign]


def _complete(document: dict[str, Any], *, keys: bool) -> None:
    components = document.setdefault("components", {})
    about_key = "A key from the server's administrator; a server without keys needs none."
    components["securitySchemes"] = {_KEY: {"type": "http", "scheme": "bearer", "description": about_key}}
    needed: list[dict[str, list[str]]] = [{_KEY: []}] if keys else [{_KEY: []}, {}]
    for path, methods in document["paths"].items():
        for operation in methods.values():
            operation["security"] = [] if path == _OPEN_PATH else needed
    named = _SCHEMAS | STREAM_EVENTS
    adapters = [(name, "serialization", TypeAdapter[Any](schema)) for name, schema in named.items()]
    schemas, shared = TypeAdapter.json_schemas(adapters, ref_template=_REF)  # type: ignore[arg-type]
    components["schemas"] |= shared["$defs"]
    stream = document["paths"]["/v1/ask"]["post"]["responses"]["200"]["content"]["text/event-stream"]
    stream["x-events"] = {name: schemas[name, "serialization"] for name in STREAM_EVENTS}
