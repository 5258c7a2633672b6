"""The log of what went wrong inside: where it happened and of what kind, and nothing of what was asked or said."""

from __future__ import annotations

import logging
import traceback

from starlette.requests import Request

from hoptree.errors import HoptreeError, InternalError
from hoptree.http.refused import as_line, log_refusal
from hoptree.server.metrics import Metrics
from hoptree.server.refusals import Refusal

__all__ = ["log_failure", "log_mistake", "note_refusal"]

_LOG = logging.getLogger("hoptree.server")


def log_mistake(error: BaseException) -> None:
    """Where a mistake of our own happened; its message may hold text of a question, and is left out."""
    where = "".join(traceback.format_tb(error.__traceback__))
    system = f" ({as_line(f'{error.errno} {error.strerror}: {error.filename}')})" if isinstance(error, OSError) else ""
    _LOG.error("%s%s inside the server\n%s", type(error).__name__, system, where)


def log_failure(failure: HoptreeError, *, what: str) -> None:
    """Why something failed, in the words that clients are not told; `what` is what was asked for, by names."""
    _LOG.warning("%s failed: %s: %s", what, type(failure).__name__, as_line(_cause(failure)))
    if isinstance(failure, InternalError) and failure.__cause__:
        log_mistake(failure.__cause__)


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
