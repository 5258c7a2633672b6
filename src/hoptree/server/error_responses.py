"""What a client is told when something is refused or fails: a status, a class, a cause and a remedy, and no more.

Paths, addresses of endpoints and tracebacks stay inside: they are for the log of whoever runs the server.
"""

from __future__ import annotations

import errno
import json
import logging
import math
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.requests import Request

from hoptree.core.errors import (
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
from hoptree.core.http_server import log_line, log_refusal
from hoptree.core.redaction import ASK_OPERATOR, public_error
from hoptree.server.metrics import Metrics

_USUAL: tuple[tuple[type[HoptreeError], str], ...] = (
    (MissingExtra, ASK_OPERATOR),
    (ConfigError, "GET /v1/methods tells what there is to choose among."),
    (InputError, "Choose another corpus, retriever or method; GET /v1/methods tells what there is."),
)
"""Remedies in the place of those that are about the command line."""
_SETTING = re.compile(r"--set (\w+)=(\w[\w.+|-]*|…)")
_BARE = re.compile(r"-?\d+(?:\.\d+)?|true|false")
"""Values that stand in JSON without quotation marks."""
_PASSING = frozenset({408, 409, 429, 499})
_BUSY_SECONDS = 5


class Refusal(HoptreeError):
    """A request that is not answered, with its HTTP status; `kind` is the class that clients see.

    `lasting` says that asking again does not help: OpenAI's clients would, by the status alone. `param` is the field
    of the request that is at fault.
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
        param: str | None = None,
    ) -> None:
        super().__init__(cause, remedy)
        self.exit_code = 2 if status < 500 else 1
        self.status = status
        self.kind = kind
        self.retry_after = retry_after
        self.lasting = lasting
        self.param = param

    @property
    def final(self) -> bool:
        """Whether the same request cannot be answered later either."""
        return self.lasting or (self.status < 500 and self.status not in _PASSING)

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


def refusal_of(error: Exception) -> Refusal:
    """What a client is told of an error."""
    if isinstance(error, Refusal):
        return error
    if not isinstance(error, HoptreeError):
        error = InternalError(error)
    status, wait = _status(error)
    cause, remedy = _told(error)
    lasting = status >= 500 and isinstance(error, ModelError | MissingExtra | MissingModel)
    lasting = lasting and not getattr(error, "retryable", False)
    return Refusal(status, type(error).__name__, cause, remedy, retry_after=wait, lasting=lasting)


@contextmanager
def refuse_when_disk_full() -> Iterator[None]:
    """A disk that is full is no mistake inside the server, and may have room later."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise Refusal(
            503,
            "NoSpace",
            "The server has no space left for the files.",
            "Send them again later, or tell whoever runs it.",
        ) from error


def _told(error: HoptreeError) -> tuple[str, str]:
    """Cause and remedy for who asks over HTTP: an option as a request would set it."""
    cause, remedy = public_error(error, _SETTING.sub(_as_option, error.remedy))
    usual = next((remedy for known, remedy in _USUAL if isinstance(error, known)), ASK_OPERATOR)
    remedy = remedy or usual
    # On the command line the remedy goes on where such a cause ends.
    if cause.endswith(":"):
        remedy = remedy[:1].upper() + remedy[1:]
    return f"{cause[:-1]}." if cause.endswith((";", ":")) else cause, remedy


def _as_option(setting: re.Match[str]) -> str:
    name, value = setting.groups()
    return f'"options": {{"{name}": {value if _BARE.fullmatch(value) else json.dumps(value, ensure_ascii=False)}}}'


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


def error_body(refusal: Refusal, *, openai: bool = False) -> dict[str, Any]:
    """The body of an error, in our own shape or in the one that clients of OpenAI read; what cannot pass says so."""
    final = {"retryable": False} if refusal.final else {}
    if not openai:
        return {"error": {"class": refusal.kind, "message": refusal.cause, "remedy": refusal.remedy, **final}}
    kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
    usual = "invalid_request_error" if refusal.status < 500 else "server_error"
    kind = kinds.get(refusal.status, usual)
    return {"error": {"message": str(refusal), "type": kind, "code": refusal.kind, "param": refusal.param, **final}}


_LOG = logging.getLogger("hoptree.server")


def log_internal_error(error: BaseException) -> None:
    """Where a mistake of our own happened; its message may hold text of a question, and is left out."""
    where = "".join(traceback.format_tb(error.__traceback__))
    system = f" ({log_line(f'{error.errno} {error.strerror}: {error.filename}')})" if isinstance(error, OSError) else ""
    _LOG.error("%s%s inside the server\n%s", type(error).__name__, system, where)


def log_failure(failure: HoptreeError, *, what: str) -> None:
    """Why something failed, in the words that clients are not told; `what` is what was asked for, by names."""
    _LOG.warning("%s failed: %s: %s", what, type(failure).__name__, log_line(_cause(failure)))
    if isinstance(failure, InternalError) and failure.__cause__:
        log_internal_error(failure.__cause__)


def note_refusal(request: Request, refusal: Refusal, metrics: Metrics) -> None:
    """Count and log what was refused after the guard had let it in."""
    if request.state.body.refused:
        return  # what the app makes of a body that broke off; the guard tells why it did
    metrics.refused(refusal.kind)
    client = request.client.host if request.client else "-"
    log_refusal(refusal.kind, key=request.state.key.name, client=client, cause=refusal.cause)


def _cause(failure: HoptreeError) -> str:
    # The cause of a mistake of our own may hold text of a question.
    return "its traceback is in this log" if isinstance(failure, InternalError) else failure.cause
