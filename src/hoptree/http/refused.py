"""The log of what a server of ours refuses: one line each, in the same form whoever refused it."""

from __future__ import annotations

import logging

from hoptree.http.outside import without_keys

__all__ = ["LOG_FORMAT", "as_line", "log_refusal"]

_LOG = logging.getLogger("hoptree.refused")
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"
_LONGEST = 600


def log_refusal(kind: str, *, client: str, cause: str, key: str = "-") -> None:
    """Who was refused, and why; `key` is the name of one that is known, and never a key itself."""
    _LOG.warning("refused %s key=%s from %s: %s", kind, key, client, as_line(cause))


def as_line(text: str) -> str:
    """A text on one line of the log, without keys: causes quote what clients sent."""
    shown = "".join(letter if letter.isprintable() else " " for letter in without_keys(text))
    return " ".join(shown.split())[:_LONGEST]
