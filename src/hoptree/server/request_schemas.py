"""The bodies of requests, and messages about invalid ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat, field_validator, model_validator
from pydantic_core import PydanticCustomError
from starlette.requests import Request

from hoptree.engine.context import Budget
from hoptree.engine.engine import MAX_QUESTION
from hoptree.server.error_responses import Refusal
from hoptree.server.question_service import AskRequest
from hoptree.server.settings import guess

_UNKNOWN_FIELD = "unknown_field"
_MESSAGES = {
    "missing": "is missing",
    **dict.fromkeys(("string_type", "string_unicode"), "must be text"),
    **dict.fromkeys(("string_too_short", "too_short"), "is empty"),
    "string_too_long": "has more than {max_length} characters",
    "too_long": "has more than {max_length} entries",
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    "int_parsing_size": "is too large a number",
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "must be a number"),
    "greater_than_equal": "must be {ge} or more",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be {le} or less",
    "literal_error": "must be {expected}",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "must be an object"),
    "list_type": "must be a list",
}
"""Messages about a field, by the type of pydantic's error."""
_UNION_MESSAGES = {
    "options": "must be true or false, a number, or a short text",
    "content": "must be text, or a list of parts with text",
    "input": "must be text, or a list of messages",
}
"""Messages that replace pydantic's, which has one for each type that a field may have."""
_MAX_PROBLEMS = 3
_MAX_PLACE_CHARS = 80
_SCHEMA_REMEDY = "GET /openapi.json tells what it looks like."
_MAX_BUDGET = 10**9


def _number(error: str) -> BeforeValidator:
    """Refuse true, false and text, which pydantic would convert to numbers."""

    def check(value: Any) -> Any:
        if isinstance(value, bool | str):
            raise PydanticCustomError(error, "not a number")
        return value

    return BeforeValidator(check)


_INTEGER, _FLOAT = _number("int_type"), _number("float_type")

_MAX_TURNS = 100
_Name = Annotated[str, Field(min_length=1, max_length=128)]
_Options = Annotated[dict[_Name, bool | int | FiniteFloat | _Name | None], Field(max_length=50)]


def validation_refusal(errors: Sequence[Mapping[str, Any]]) -> Refusal:
    """Return the refusal of a request for pydantic's errors."""
    for error in errors:
        if error["type"] == "json_invalid":
            cause = f"The body is not valid JSON, from character {error['loc'][-1]} on."
            return Refusal(400, "BadRequest", cause, _SCHEMA_REMEDY)
        if error["type"] == "missing" and len(error["loc"]) == 1:
            return Refusal(400, "BadRequest", "The body is not valid JSON: it is empty.", _SCHEMA_REMEDY)
        if error["type"] == _UNKNOWN_FIELD:
            return _unknown_field(_place(error["loc"])[0], **error["ctx"])
    problems = list(dict.fromkeys(_describe(error) for error in errors))
    place, _ = _place(errors[0]["loc"])
    return Refusal(422, "BadRequest", f"{'; '.join(problems[:_MAX_PROBLEMS])}.", _SCHEMA_REMEDY, param=place or None)


def _unknown_field(parent: str, *, name: str, known: Collection[str]) -> Refusal:
    place = ".".join(filter(None, (parent, name)))[:_MAX_PLACE_CHARS]
    close = guess(name, known)
    remedy = f"Did you mean '{close}'?" if close else f"There are: {', '.join(sorted(known))}."
    return Refusal(422, "BadRequest", f"There is no field '{place}'.", remedy, param=place)


def _describe(error: Mapping[str, Any]) -> str:
    place, union_message = _place(error["loc"])
    message = union_message or _MESSAGES.get(error["type"], "cannot be read")
    return f"{place or 'The body'} {message.format_map(error.get('ctx') or {})}"


def _place(location: Sequence[Any]) -> tuple[str, str]:
    """Return the field of an error, and the message if several types are allowed."""
    parts, union_message = list(location[1:]), ""
    for depth, part in enumerate(parts):
        end = depth + (2 if part == "options" else 1)
        if part in _UNION_MESSAGES and len(parts) > end:
            parts, union_message = parts[:end], _UNION_MESSAGES[part]
            break
    return ".".join(str(part)[:40] for part in parts)[:_MAX_PLACE_CHARS], union_message


async def require_json(request: Request) -> None:
    """Refuse a body whose Content-Type is not JSON, such as that of curl -d."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        remedy = "Send the header Content-Type: application/json."
        raise Refusal(415, "NotJson", "The Content-Type is not that of JSON.", remedy)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check_fields(cls, data: Any) -> Any:
        """Refuse an unknown field, and name the known ones."""
        for name in data if isinstance(data, dict) else ():
            if name not in cls.model_fields:
                shown = name.encode(errors="replace").decode()  # pydantic does not take lone surrogates
                context = {"name": shown, "known": list(cls.model_fields)}
                raise PydanticCustomError(_UNKNOWN_FIELD, "no such field", context)
        return data


class BudgetBody(_Strict):
    """Limits of one question; those of the server and of the key hold as well."""

    calls: Annotated[int, Field(ge=1, le=_MAX_BUDGET), _INTEGER] | None = None
    tokens: Annotated[int, Field(ge=1, le=_MAX_BUDGET), _INTEGER] | None = None
    cost: Annotated[FiniteFloat, Field(gt=0, le=_MAX_BUDGET), _FLOAT] | None = None
    seconds: Annotated[FiniteFloat, Field(gt=0, le=_MAX_BUDGET), _FLOAT] | None = None


class Choices(_Strict):
    """With what to answer, and how much that may cost."""

    corpus: _Name | None = None
    graph: _Name | None = None
    retriever: _Name | None = None
    rerank: _Name | None = None
    options: _Options = Field(default_factory=dict)
    budget: BudgetBody = Field(default_factory=BudgetBody)

    def as_request(
        self, question: str, method: str | None, model: str | None, history: Sequence[tuple[str, str]]
    ) -> AskRequest:
        names = {"corpus": self.corpus, "graph": self.graph, "retriever": self.retriever, "rerank": self.rerank}
        budget = Budget(**self.budget.model_dump())
        return AskRequest(
            question, method=method, model=model, **names, options=self.options, budget=budget, history=history
        )


_Question = Annotated[str, Field(json_schema_extra={"minLength": 1, "maxLength": MAX_QUESTION, "pattern": r"\S"})]
"""`QuestionService.prepare` refuses an empty or longer question, with its own messages."""


class TurnBody(_Strict):
    """A question of the conversation before this one, and what it was answered."""

    question: Annotated[str, Field(max_length=MAX_QUESTION)]
    answer: Annotated[str, Field(max_length=MAX_QUESTION)] = ""


class AskBody(Choices):
    """A question, and with what to answer it; every name is one that the server lists."""

    question: Annotated[_Question, Field(min_length=1)]
    method: _Name | None = None
    model: _Name | None = None
    history: Annotated[list[TurnBody], Field(max_length=_MAX_TURNS)] = Field(default_factory=list)
    stream: bool = False
    events: Annotated[bool, Field(description="Also stream the raw trace events.")] = False


class SearchBody(_Strict):
    """What to look for in a corpus."""

    query: Annotated[str, Field(min_length=1, max_length=8_000)]
    corpus: _Name | None = None
    k: Annotated[int, Field(ge=1, le=100), _INTEGER] = 5
    retriever: _Name | None = None
    rerank: _Name | None = None


_TEXT_PARTS = ("text", "input_text", "output_text")


class ChatPart(BaseModel):
    """A part of a message: only text can be read."""

    type: str
    text: str = ""


_USERS_HAVE_TEXT: dict[str, Any] = {
    "if": {"properties": {"role": {"const": "user"}}},
    "then": {"required": ["content"], "properties": {"content": {"not": {"enum": [None, "", []]}}}},
}


class ChatMessage(BaseModel):
    model_config = ConfigDict(json_schema_extra=_USERS_HAVE_TEXT)

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ChatPart] | None = None

    @property
    def is_text(self) -> bool:
        return not isinstance(self.content, list) or all(part.type in _TEXT_PARTS for part in self.content)

    @property
    def text(self) -> str:
        """The message without parts that are not text."""
        parts = self.content if isinstance(self.content, list) else []
        return "\n".join(part.text for part in parts if part.type in _TEXT_PARTS) if parts else str(self.content or "")


_NO_TOOLS = Field(json_schema_extra={"maxItems": 0})


class ResponsesBody(BaseModel):
    """OpenAI's response: the last message of the input is the question.

    How models sample is up to the method.
    """

    model_config = ConfigDict(extra="allow")

    model: _Name
    input: _Question | Annotated[list[ChatMessage], Field(min_length=1, max_length=1_000)]
    instructions: str | None = None
    stream: bool | None = False
    tools: Annotated[list[Any], _NO_TOOLS] | None = None
    text: dict[str, Any] | None = None
    previous_response_id: Annotated[str, Field(json_schema_extra={"maxLength": 0})] | None = None
    hoptree: Choices | None = None

    @field_validator("input", mode="before")
    @classmethod
    def _drop_reasoning(cls, given: Any) -> Any:
        """Drop reasoning, which has no role; clients send it back before its message."""
        items = given if isinstance(given, list) else []
        dropped = [item for item in items if isinstance(item, dict) and item.get("type") == "reasoning"]
        return [item for item in items if item not in dropped or "role" in item] if dropped else given

    @property
    def messages(self) -> list[ChatMessage]:
        return [ChatMessage(role="user", content=self.input)] if isinstance(self.input, str) else self.input


class StreamOptions(BaseModel):
    include_usage: bool = False


class ChatBody(BaseModel):
    """OpenAI's chat completion: the last message is the question.

    Messages before it are its conversation. How models sample is up to the method.
    """

    model_config = ConfigDict(extra="allow")

    model: _Name
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=1_000)]
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    n: Annotated[int, _INTEGER, Field(json_schema_extra={"const": 1})] | None = 1
    tools: Annotated[list[Any], _NO_TOOLS] | None = None
    functions: Annotated[list[Any], _NO_TOOLS] | None = None
    logprobs: Annotated[bool, Field(json_schema_extra={"const": False})] | None = False
    response_format: dict[str, Any] | None = None
    hoptree: Choices | None = None


_SAMPLING_FIELDS = (
    *("temperature", "top_p", "max_tokens", "max_completion_tokens", "max_output_tokens", "seed", "stop"),
    *("presence_penalty", "frequency_penalty", "logit_bias"),
)
_MAX_IGNORED_SHOWN = 10
_MAX_FIELD_CHARS = 40


def ignored_fields(body: ChatBody | ResponsesBody) -> list[str]:
    """Return a warning for each part of a request that has no effect."""
    warnings = []
    roles = {message.role for message in body.messages}
    if roles & {"system", "developer"} or getattr(body, "instructions", None):
        warnings.append("Methods have prompts of their own: the instructions were not read.")
    if not all(message.is_text for message in body.messages):
        warnings.append("Only text can be read: other parts of the conversation were left out.")
    given = [name for name, value in (body.model_extra or {}).items() if value is not None]
    if sampling := [name for name in _SAMPLING_FIELDS if name in given]:
        warnings.append(f"Methods decide for themselves about {', '.join(sampling)}.")
    others = [name for name in given if name not in _SAMPLING_FIELDS]
    if others:
        shown = ", ".join(_with_hint(name, [*type(body).model_fields]) for name in others[:_MAX_IGNORED_SHOWN])
        warnings.append(f"Not read: {shown}{', …' if len(others) > _MAX_IGNORED_SHOWN else ''}.")
    return warnings


def _with_hint(name: str, known: Collection[str]) -> str:
    """Return the name of an ignored field, and the field that was probably meant."""
    close = guess(name, known)
    hint = f" (did you mean {close}?)" if close and close not in name else ""
    return f"{name[:_MAX_FIELD_CHARS]}{hint}"
