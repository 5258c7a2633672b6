"""The bodies of requests, as the OpenAPI document shows them. What they do not name is refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator
from pydantic_core import PydanticCustomError
from starlette.requests import Request

from hoptree.engine.budget import Budget
from hoptree.engine.engine import MAX_QUESTION
from hoptree.server.error_responses import Refusal
from hoptree.server.names import guess

UNKNOWN = "unknown_field"
"""The type of an error about a field that there is not."""
_NUMBER = "must be a number"
_WHOLE = "must be a whole number"
_OBJECT = "must be an object"
_TEXT = "must be text"
_TRUTH = "must be true or false"
_WORDS = {
    "missing": "is missing",
    "string_type": _TEXT,
    "string_unicode": _TEXT,
    "string_too_short": "is empty",
    "string_too_long": "has more than {max_length} characters",
    "too_short": "is empty",
    "too_long": "has more than {max_length} entries",
    "bool_type": _TRUTH,
    "bool_parsing": _TRUTH,
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": "is too large a number",
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": _NUMBER,
    "greater_than_equal": "must be {ge} or more",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be {le} or less",
    "literal_error": "must be {expected}",
    "dict_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "list_type": "must be a list",
}
_EITHER = {
    "options": "must be true or false, a number, or a short text",
    "content": "must be text, or a list of parts with text",
}
"""What is said in the place of one sentence for each kind of value that a field may have."""
_UNREADABLE_MOST = 3
_LETTERS = 80
_SHAPE = "GET /openapi.json tells what it looks like."


def validation_refusal(errors: Sequence[Mapping[str, Any]]) -> Refusal:
    """The refusal of a request, by what the reading of it found."""
    for one in errors:
        if one["type"] == "json_invalid":
            return Refusal(400, "BadRequest", f"The body is no JSON, from character {one['loc'][-1]} on.", _SHAPE)
        if one["type"] == "missing" and len(one["loc"]) == 1:
            return Refusal(400, "BadRequest", "The body is no JSON: it is empty.", _SHAPE)
        if one["type"] == UNKNOWN:
            return _unknown(_place(one["loc"])[0], **one["ctx"])
    said = list(dict.fromkeys(_sentence(one) for one in errors))
    place, _ = _place(errors[0]["loc"])
    return Refusal(422, "BadRequest", f"{'; '.join(said[:_UNREADABLE_MOST])}.", _SHAPE, param=place or None)


def _unknown(above: str, *, name: str, known: Collection[str]) -> Refusal:
    place = ".".join(filter(None, (above, name)))[:_LETTERS]
    close = guess(name, known)
    remedy = f"Did you mean '{close}'?" if close else f"There are: {', '.join(sorted(known))}."
    return Refusal(422, "BadRequest", f"There is no field '{place}'.", remedy, param=place)


def _sentence(error: Mapping[str, Any]) -> str:
    """What is wrong with one field."""
    place, either = _place(error["loc"])
    words = either or _WORDS.get(error["type"], "cannot be read")
    return f"{place or 'The body'} {words.format_map(error.get('ctx') or {})}"


def _place(where: Sequence[Any]) -> tuple[str, str]:
    """The field that an error is about as a request would write it, and what it may be if that is of several kinds.

    Of such a field there is an error for each kind, named behind it.
    """
    parts, either = list(where[1:]), ""
    for depth, part in enumerate(parts):
        kinds = depth + (2 if part == "options" else 1)
        if part in _EITHER and len(parts) > kinds:
            parts, either = parts[:kinds], _EITHER[part]
            break
    return ".".join(str(part)[:40] for part in parts)[:_LETTERS], either


_MOST = 10**9
_NAME_LENGTH = 128
_Name = Annotated[str, Field(min_length=1, max_length=_NAME_LENGTH)]
_Options = Annotated[dict[_Name, bool | int | FiniteFloat | _Name | None], Field(max_length=50)]


async def require_json(request: Request) -> None:
    """Refuse a body that is something else by its header, as curl's -d says where nothing else is said."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise Refusal(
            415, "NotJson", "The body is not said to be JSON.", "Send the header Content-Type: application/json."
        )


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _know(cls, data: Any) -> Any:
        """Refuse a field that there is not, with the names of those that there are."""
        for name in data if isinstance(data, dict) else ():
            if name not in cls.model_fields:
                shown = name.encode(errors="replace").decode()  # halves of characters are no text to pydantic
                raise PydanticCustomError(UNKNOWN, "no such field", {"name": shown, "known": list(cls.model_fields)})
        return data


class BudgetBody(_Strict):
    """Limits of one question; those of the server and of the key hold as well."""

    calls: Annotated[int, Field(ge=1, le=_MOST)] | None = None
    tokens: Annotated[int, Field(ge=1, le=_MOST)] | None = None
    cost: Annotated[FiniteFloat, Field(gt=0, le=_MOST)] | None = None
    seconds: Annotated[FiniteFloat, Field(gt=0, le=_MOST)] | None = None

    def as_budget(self) -> Budget:
        return Budget(calls=self.calls, tokens=self.tokens, cost=self.cost, seconds=self.seconds)


class Choices(_Strict):
    """With what to answer, and how much that may cost."""

    corpus: _Name | None = None
    graph: _Name | None = None
    retriever: _Name | None = None
    rerank: _Name | None = None
    options: _Options = Field(default_factory=dict)
    budget: BudgetBody = Field(default_factory=BudgetBody)


class AskBody(Choices):
    """A question, and with what to answer it; every name is one that the server lists."""

    # A longer one is refused in a sentence of its own.
    question: Annotated[str, Field(min_length=1, json_schema_extra={"maxLength": MAX_QUESTION})]
    method: _Name | None = None
    model: _Name | None = None
    stream: bool = False
    events: Annotated[bool, Field(description="Also stream the raw trace events.")] = False


class SearchBody(_Strict):
    """What to look for in a corpus."""

    query: Annotated[str, Field(min_length=1, max_length=8_000)]
    corpus: _Name | None = None
    k: Annotated[int, Field(ge=1, le=100)] = 5
    retriever: _Name | None = None
    rerank: _Name | None = None


class ChatPart(BaseModel):
    """A part of a message: only text can be read."""

    type: str
    text: str = ""


class ChatMessage(BaseModel):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ChatPart] | None = None


class StreamOptions(BaseModel):
    include_usage: bool = False


class ChatBody(BaseModel):
    """OpenAI's chat completion: the last user message is the question; how models sample is up to the method."""

    model_config = ConfigDict(extra="allow")

    model: _Name
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=1_000)]
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    n: int | None = 1
    tools: list[Any] | None = None
    functions: list[Any] | None = None
    logprobs: bool | None = False
    response_format: dict[str, Any] | None = None
    hoptree: Choices | None = None
