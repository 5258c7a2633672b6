"""What went wrong, as every route tells it."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

__all__ = ["ErrorReply", "FailedBy", "OpenAIError", "Why"]

# `class` is a word of Python's own, which only this way of writing takes.
Why = TypedDict(
    "Why",
    {"class": str, "message": str, "remedy": str, "retryable": NotRequired[bool]},
)
Why.__doc__ = "Why something was refused or failed; `retryable` is false where asking the same again cannot help."
FailedBy = TypedDict("FailedBy", {"class": str, "message": str})
FailedBy.__doc__ = "What ended a question."


class ErrorReply(TypedDict):
    """A request that was refused, or failed."""

    error: Why


class OpenAIWhy(TypedDict):
    """An error as OpenAI's clients read it; `code` is the class."""

    message: str
    type: str
    code: str
    param: str | None
    retryable: NotRequired[bool]


class OpenAIError(TypedDict):
    """A request that was refused, or failed, as OpenAI's clients read it."""

    error: OpenAIWhy
