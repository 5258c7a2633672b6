"""What a client is told when something is refused or fails: a status, a class, a cause and a remedy, and no more.

Paths, addresses of endpoints and tracebacks stay inside: they are for the log of whoever runs the server.
"""

from __future__ import annotations

import math
import re
from typing import Any

from hoptree.errors import (
    CacheError,
    ConfigError,
    EndpointError,
    HoptreeError,
    IndexUnavailable,
    InputError,
    InternalError,
    MissingExtra,
    MissingModel,
    ModelError,
    RateLimited,
    RequestTooLong,
    UnusableReply,
)

__all__ = ["Refusal", "hidden", "refusal_of", "told_error", "told_failure", "without_keys"]

_PATH = re.compile(r"(?<![\w/.:])(?:file:/|/|~/|[A-Za-z]:\\)[^\s'\",;()<>]*[/\\][^\s'\",;()<>]*")
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s'\",;()<>]+", re.IGNORECASE)
_SOCKET = re.compile(
    r"\('[^'\s]*', \d+(?:, \d+)*\)|\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b|\b[a-z][\w.-]*:\d{2,5}\b", re.IGNORECASE
)
_KEY = re.compile(r"\b(?:sk|pk|rk|hf|gsk|xai|key|org|proj)[-_][\w-]{6,}|\bBearer\s+\S+", re.IGNORECASE)
_RUNNER = "Tell whoever runs the server; its log says more."
_LATER = "Ask again later, or tell whoever runs the server."
_OUTSIDE: tuple[tuple[type[HoptreeError], str, str], ...] = (
    (RateLimited, "The endpoint that the server asks wants fewer requests.", "Wait as long as Retry-After says."),
    (
        RequestTooLong,
        "The request is longer than the model takes.",
        'Ask a shorter question, or for fewer passages ("options": {"k": 3}).',
    ),
    (EndpointError, "An endpoint that the server asks failed.", _LATER),
    (UnusableReply, "The endpoint that the server asks sent a reply that cannot be read.", _RUNNER),
    (ModelError, "The model could not do what the method asks of it.", "Choose another method or model."),
    (CacheError, "The server cannot remember replies.", _RUNNER),
    (MissingModel, "The model is not there.", _RUNNER),
    (IndexUnavailable, "The corpus cannot be used at this moment.", "Ask again later."),
)
"""What is told of errors whose own words come from elsewhere, or are about what only the server's runner sees."""
_USUAL: tuple[tuple[type[HoptreeError], str], ...] = (
    (MissingExtra, _RUNNER),
    (ConfigError, "GET /v1/methods tells what there is to choose among."),
    (InputError, "Choose another corpus, retriever or method; GET /v1/methods tells what there is."),
)
"""Remedies in the place of those that are about the command line."""
_SETTING = re.compile(r"--set (\w+)=(\w[\w.+|-]*|…)")
_COMMAND = re.compile(r"\bhoptree [a-z]|(?<!\w)--[a-z]|\bpip install|\b[A-Z]+_API_KEY\b")
_SENTENCE = re.compile(r"(?<=[.!?…])\s+")
_LONGEST = 2_000
_BUSY_SECONDS = 5


class Refusal(HoptreeError):
    """A request that is not answered, with its HTTP status; `kind` is the class that clients see.

    `lasting` says that asking again does not help: OpenAI's clients would, by the status alone.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        cause: str,
        remedy: str = "",
        *,
        retry_after: float | None = None,
        lasting: bool = False,
    ) -> None:
        super().__init__(cause, remedy)
        self.exit_code = 2 if status < 500 else 1
        self.status = status
        self.kind = kind
        self.retry_after = retry_after
        self.lasting = lasting

    @property
    def headers(self) -> dict[str, str]:
        found = {}
        if self.retry_after is not None:
            found["Retry-After"] = str(max(1, math.ceil(self.retry_after)))
        if self.status == 401:
            found["WWW-Authenticate"] = 'Bearer realm="hoptree"'
        if self.lasting:
            found["x-should-retry"] = "false"
        return found


def hidden(text: str) -> str:
    """A message without paths of this machine, addresses of endpoints and keys.

    It is the second line only: what comes from endpoints is not told at all.
    """
    for pattern in (_ADDRESS, _PATH, _SOCKET):
        text = pattern.sub("…", text)
    return without_keys(text)[:_LONGEST]


def without_keys(text: str) -> str:
    """A message without what looks like a key."""
    return _KEY.sub("…", text)


def refusal_of(error: Exception) -> Refusal:
    """What a client is told of an error."""
    if isinstance(error, Refusal):
        return error
    if not isinstance(error, HoptreeError) or isinstance(error, InternalError):
        return Refusal(
            500, "InternalError", "Something went wrong inside Hoptree.", "The server's log says more; try again."
        )
    status, wait = _status(error)
    cause, remedy = _told(error)
    lasting = status >= 500 and isinstance(error, ModelError | MissingExtra | MissingModel)
    lasting = lasting and not getattr(error, "retryable", False)
    return Refusal(status, type(error).__name__, cause, remedy, retry_after=wait, lasting=lasting)


def told_failure(kind: str, message: str) -> str:
    """What is told of a failure of which a trace has only the class and the message."""
    for known, cause, remedy in _OUTSIDE:
        if known.__name__ == kind:
            return f"{cause} {remedy}"
    return "Something went wrong inside Hoptree." if kind == InternalError.__name__ else hidden(message)


def _told(error: HoptreeError) -> tuple[str, str]:
    """Cause and remedy for who asks over HTTP."""
    for known, cause, remedy in _OUTSIDE:
        if isinstance(error, known):
            if type(error) is EndpointError:
                return _of_endpoint(error)
            return cause, remedy
    return hidden(error.cause), _remedy(error)


def _of_endpoint(error: EndpointError) -> tuple[str, str]:
    if error.status in (401, 403):
        return f"The endpoint that the server asks refused the server's key (HTTP {error.status}).", _RUNNER
    if error.status is not None and error.status < 500:
        return f"The endpoint that the server asks refused the request (HTTP {error.status}).", _RUNNER
    if error.status is not None:
        return f"The endpoint that the server asks failed (HTTP {error.status}).", _LATER
    if error.retryable:
        return "The endpoint that the server asks cannot be reached, or did not answer.", _LATER
    return "The model could not answer.", _RUNNER


def _remedy(error: HoptreeError) -> str:
    """The remedy as a request would say it; sentences about the command line are left out."""
    said = _SETTING.sub(r'"options": {"\1": "\2"}', error.remedy)
    kept = " ".join(one for one in _SENTENCE.split(said) if not _COMMAND.search(one))
    usual = next((remedy for known, remedy in _USUAL if isinstance(error, known)), _RUNNER)
    return hidden(kept) or usual


def _status(error: HoptreeError) -> tuple[int, float | None]:
    if isinstance(error, RateLimited):
        return 503, error.retry_after or _BUSY_SECONDS
    if isinstance(error, RequestTooLong):
        return 400, None
    if isinstance(error, EndpointError | ModelError):
        return 502, None
    if isinstance(error, IndexUnavailable):
        return 503, _BUSY_SECONDS
    if isinstance(error, MissingExtra | MissingModel):
        return 501, None
    return (400, None) if isinstance(error, ConfigError | InputError) else (500, None)


def told_error(refusal: Refusal, *, openai: bool = False) -> dict[str, Any]:
    """The body of an error: our own shape, or the one that clients of OpenAI read."""
    if not openai:
        return {"error": {"class": refusal.kind, "message": refusal.cause, "remedy": refusal.remedy}}
    kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
    usual = "invalid_request_error" if refusal.status < 500 else "server_error"
    told = {"message": str(refusal), "type": kinds.get(refusal.status, usual), "code": refusal.kind, "param": None}
    return {"error": told}
