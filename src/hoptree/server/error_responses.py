"""Refusals and errors for clients: a status, a class, a cause and a remedy.

Paths, addresses of endpoints and tracebacks go to the server's log only.
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

from hoptree.core import errors
from hoptree.core.http_server import log_line, log_refusal
from hoptree.server.prometheus import Metrics

_LOG = logging.getLogger("hoptree.server")
_DEFAULT_REMEDIES: tuple[tuple[type[errors.HoptreeError], str], ...] = (
    (errors.MissingExtra, errors.ASK_OPERATOR),
    (errors.ConfigError, "GET /v1/methods tells what there is to choose among."),
    (errors.InputError, "Choose another corpus, retriever or method; GET /v1/methods tells what there is."),
)
"""Used if the error's own remedy is only about the command line."""
_CLI_SETTING = re.compile(r"--set (\w+)=(\w[\w.+|-]*|…)")
_JSON_LITERAL = re.compile(r"-?\d+(?:\.\d+)?|true|false")
_STATUSES: dict[type[errors.HoptreeError], int] = {
    errors.RateLimited: 503,
    errors.RequestTooLong: 400,
    errors.ModelError: 502,
    errors.IndexUnavailable: 503,
    errors.GraphUnavailable: 503,
    errors.MissingExtra: 501,
    errors.MissingModel: 501,
    errors.InputError: 400,
}
"""The status of an error by its first matching class; 500 if there is none."""
_RETRYABLE_STATUSES = frozenset({408, 409, 429, 499})
_BUSY_SECONDS = 5
_OPENAI_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


class Refusal(errors.HoptreeError):
    """A request that is not answered, with its HTTP status.

    `kind` is the error class that clients see, and `param` the field at fault. `lasting` says that asking again does
    not help, although the status alone would make OpenAI's clients retry.
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
        self.status, self.kind, self.param = status, kind, param
        self.retry_after, self.lasting = retry_after, lasting

    @property
    def final(self) -> bool:
        """Whether the same request cannot be answered later either."""
        return self.lasting or (self.status < 500 and self.status not in _RETRYABLE_STATUSES)

    @property
    def headers(self) -> dict[str, str]:
        headers = {}
        if self.retry_after is not None:
            headers["Retry-After"] = str(max(1, math.ceil(self.retry_after)))
        if self.status == 401:
            headers["WWW-Authenticate"] = 'Bearer realm="hoptree"'
        if self.lasting:
            headers["x-should-retry"] = "false"
        return headers


def refusal_of(error: Exception) -> Refusal:
    """Translate an error into a refusal without internal details."""
    if isinstance(error, Refusal):
        return error
    if not isinstance(error, errors.HoptreeError):
        error = errors.InternalError(error)
    status = next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), 500)
    retry_after = (getattr(error, "retry_after", None) or _BUSY_SECONDS) if status == 503 else None
    cause, remedy = _client_message(error)
    lasting = status >= 500 and isinstance(error, errors.ModelError | errors.MissingExtra | errors.MissingModel)
    lasting = lasting and not getattr(error, "retryable", False)
    return Refusal(status, type(error).__name__, cause, remedy, retry_after=retry_after, lasting=lasting)


@contextmanager
def refuse_when_disk_full() -> Iterator[None]:
    """Refuse with 503 if the disk is full: this is not a bug, and may pass."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        remedy = "Send them again later, or tell the server's administrator."
        raise Refusal(503, "NoSpace", "The server has no space left for the files.", remedy) from error


def _client_message(error: errors.HoptreeError) -> tuple[str, str]:
    """Return cause and remedy, with options as a JSON request sets them."""
    cause, remedy = errors.public_error(error, _CLI_SETTING.sub(_as_json_option, error.remedy))
    remedy = remedy or next((text for kind, text in _DEFAULT_REMEDIES if isinstance(error, kind)), errors.ASK_OPERATOR)
    # On the command line the remedy continues the sentence of a cause that ends with a colon.
    if cause.endswith(":"):
        remedy = remedy[:1].upper() + remedy[1:]
    return f"{cause[:-1]}." if cause.endswith((";", ":")) else cause, remedy


def _as_json_option(setting: re.Match[str]) -> str:
    name, value = setting.groups()
    literal = value if _JSON_LITERAL.fullmatch(value) else json.dumps(value, ensure_ascii=False)
    return f'"options": {{"{name}": {literal}}}'


def error_body(refusal: Refusal, *, openai: bool = False) -> dict[str, Any]:
    """Return the body of an error reply, in our own form or in that of OpenAI."""
    final = {"retryable": False} if refusal.final else {}
    if not openai:
        return {"error": {"class": refusal.kind, "message": refusal.cause, "remedy": refusal.remedy, **final}}
    kind = _OPENAI_TYPES.get(refusal.status, "invalid_request_error" if refusal.status < 500 else "server_error")
    return {"error": {"message": str(refusal), "type": kind, "code": refusal.kind, "param": refusal.param, **final}}


def log_internal_error(error: BaseException) -> None:
    """Log the traceback of a bug, without its message, which may quote a question."""
    where = "".join(traceback.format_tb(error.__traceback__))
    system = f" ({log_line(f'{error.errno} {error.strerror}: {error.filename}')})" if isinstance(error, OSError) else ""
    _LOG.error("%s%s inside the server\n%s", type(error).__name__, system, where)


def log_failure(failure: errors.HoptreeError, *, what: str) -> None:
    """Log the cause that clients do not see; `what` names the task that failed."""
    internal = isinstance(failure, errors.InternalError)
    cause = "its traceback is in this log" if internal else failure.cause
    _LOG.warning("%s failed: %s: %s", what, type(failure).__name__, log_line(cause))
    if internal and failure.__cause__:
        log_internal_error(failure.__cause__)


def clear_frames(error: BaseException) -> None:
    """Clear the frames of an error and of those before it.

    The framework's frames refer to the error. Garbage is rarely collected, so this cycle would keep the request's body
    in memory.
    """
    cleared: BaseException | None = error
    while cleared is not None:
        traceback.clear_frames(cleared.__traceback__)
        cleared = cleared.__context__


def note_refusal(request: Request, refusal: Refusal, metrics: Metrics) -> None:
    """Count and log a refusal that happened behind the guard."""
    if request.state.body.refused:
        return  # a consequence of a body that broke off, which the guard reports
    metrics.refused(refusal.kind)
    client = request.client.host if request.client else "-"
    log_refusal(refusal.kind, key=request.state.key.name, client=client, cause=refusal.cause)
