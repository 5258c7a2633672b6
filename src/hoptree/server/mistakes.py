"""The log of what went wrong inside: where it happened and of what kind, and nothing of what was asked or said."""

from __future__ import annotations

import logging
import traceback

from hoptree.errors import HoptreeError, InternalError
from hoptree.http.outside import without_keys

__all__ = ["log_failure", "log_mistake"]

_LOG = logging.getLogger("hoptree.server")
_LONGEST = 600


def log_mistake(error: BaseException) -> None:
    """Where a mistake of our own happened; its message may hold text of a question, and is left out."""
    where = "".join(traceback.format_tb(error.__traceback__))
    system = f" ({_line(f'{error.errno} {error.strerror}: {error.filename}')})" if isinstance(error, OSError) else ""
    _LOG.error("%s%s inside the server\n%s", type(error).__name__, system, where)


def log_failure(failure: HoptreeError, *, what: str) -> None:
    """Why something failed, in the words that clients are not told; `what` is what was asked for, by names."""
    _LOG.warning("%s failed: %s: %s", what, type(failure).__name__, _line(_cause(failure)))
    if isinstance(failure, InternalError) and failure.__cause__:
        log_mistake(failure.__cause__)


def _cause(failure: HoptreeError) -> str:
    # The cause of a mistake of our own may hold text of a question.
    return "see below" if isinstance(failure, InternalError) else failure.cause


def _line(text: str) -> str:
    """A text on one line of the log, without keys."""
    shown = "".join(letter if letter.isprintable() else " " for letter in without_keys(text))
    return " ".join(shown.split())[:_LONGEST]
