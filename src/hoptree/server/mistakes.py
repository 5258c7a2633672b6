"""The log of what went wrong inside: where it happened and of what kind, and nothing of what was asked or said."""

from __future__ import annotations

import logging
import traceback

from hoptree.errors import EndpointError, HoptreeError, InternalError

__all__ = ["log_failure", "log_mistake"]

_LOG = logging.getLogger("hoptree.server")


def log_mistake(error: BaseException) -> None:
    """Where a mistake of our own happened; its message may hold text of a question, and is left out."""
    where = "".join(traceback.format_tb(error.__traceback__))
    _LOG.error("%s inside the server\n%s", type(error).__name__, where)


def log_failure(failure: HoptreeError) -> None:
    """Why a question failed."""
    if isinstance(failure, InternalError) and failure.__cause__:
        log_mistake(failure.__cause__)
    else:
        status = f" (HTTP {failure.status})" if isinstance(failure, EndpointError) and failure.status else ""
        _LOG.warning("a question failed: %s%s", type(failure).__name__, status)
