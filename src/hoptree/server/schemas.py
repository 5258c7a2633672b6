"""The bodies of requests, as the OpenAPI document shows them. What they do not name is refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator
from pydantic_core import PydanticCustomError
from starlette.requests import Request

from hoptree.engine import MAX_QUESTION
from hoptree.runtime.budget import Budget
from hoptree.server.refusals import Refusal
from hoptree.server.unreadable import UNKNOWN

__all__ = ["AskBody", "BudgetBody", "ChatBody", "Choices", "SearchBody", "said_to_be_json"]

_MOST = 10**9
_NAME_LENGTH = 128
_Name = Annotated[str, Field(min_length=1, max_length=_NAME_LENGTH)]
_Options = Annotated[dict[_Name, bool | int | FiniteFloat | _Name | None], Field(max_length=50)]


async def said_to_be_json(request: Request) -> None:
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
