"""What a client is told when something is refused or fails: a status, a class, a cause and a remedy, and no more.

Paths, addresses of endpoints and tracebacks stay inside: they are for the log of whoever runs the server.
"""

from __future__ import annotations

import math
import re
from typing import Any

from hoptree.errors import (
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
)

__all__ = ["Refusal", "hidden", "refusal_of", "told_error"]

_PATH = re.compile(r"(?<![\w/.:])(?:/|~/|[A-Za-z]:\\)[^\s'\",;()<>]*[/\\][^\s'\",;()<>]*")
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s'\",;()<>]+", re.IGNORECASE)
_LONGEST = 2_000
_BUSY_SECONDS = 5


class Refusal(HoptreeError):
    """A request that is not answered, with its HTTP status; `kind` is the class that clients see."""

    def __init__(
        self, status: int, kind: str, cause: str, remedy: str = "", *, retry_after: float | None = None
    ) -> None:
        super().__init__(cause, remedy)
        self.exit_code = 2 if status < 500 else 1
        self.status = status
        self.kind = kind
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        found = {}
        if self.retry_after is not None:
            found["Retry-After"] = str(max(1, math.ceil(self.retry_after)))
        if self.status == 401:
            found["WWW-Authenticate"] = 'Bearer realm="hoptree"'
        return found


def hidden(text: str) -> str:
    """A message without paths of this machine and without addresses of endpoints."""
    return _PATH.sub("…", _ADDRESS.sub("…", text))[:_LONGEST]


def refusal_of(error: Exception) -> Refusal:
    """What a client is told of an error."""
    if isinstance(error, Refusal):
        return error
    if not isinstance(error, HoptreeError) or isinstance(error, InternalError):
        return Refusal(
            500, "InternalError", "Something went wrong inside Hoptree.", "The server's log says more; try again."
        )
    status, wait = _status(error)
    return Refusal(status, type(error).__name__, hidden(error.cause), hidden(error.remedy), retry_after=wait)


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
