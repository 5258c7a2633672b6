"""A chat completion."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from hoptree.server.reply_schemas.asks import AskReply

__all__ = ["Completion"]


class CitedPlace(TypedDict):
    start_index: int
    end_index: int
    title: str
    url: str


class Citation(TypedDict):
    type: Literal["url_citation"]
    url_citation: CitedPlace


class Message(TypedDict):
    """The answer; the steps are its reasoning, and `hoptree` is all that `/v1/ask` tells."""

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


class PromptDetails(TypedDict):
    cached_tokens: int


class CompletionDetails(TypedDict):
    reasoning_tokens: int


class CompletionUsage(TypedDict):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails


class Completion(TypedDict):
    """OpenAI's chat completion."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: CompletionUsage
