"""Names that clients and administrators give: what they may look like, and how an unknown one is refused."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection

from hoptree.server.error_responses import Refusal

NAME = r"^[a-z0-9][a-z0-9_-]{0,62}$"
"""Of a corpus: it becomes the name of a folder, so nothing that a file system reads in a way of its own."""
_NAME = re.compile(NAME, re.ASCII)
_LETTERS = 80
_ELSEWHERE = {
    "corpus": "GET /v1/corpora lists those there are.",
    "run": "GET /v1/runs lists those there are.",
    "job": "GET /v1/corpora names the last of each corpus; others are forgotten when the server is stopped.",
}
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))})


def check_name(name: str) -> str:
    """The name, if a corpus may be called so."""
    if not _NAME.fullmatch(name) or name in _DEVICES:
        raise Refusal(
            400,
            "BadName",
            "That is no name of a corpus.",
            "Use up to 63 small letters a to z, digits, - and _, beginning with a letter or digit.",
        )
    return name


def guess(name: str, known: Collection[str]) -> str:
    """The name that was probably meant, if one is near."""
    return next(iter(difflib.get_close_matches(name[:_LETTERS], known, 1)), "")


def unknown(what: str, name: str, known: Collection[str], *, status: int = 400, param: str | None = None) -> Refusal:
    """The refusal of a name that was not configured."""
    close = guess(name, known)
    listed = (
        f"There are: {', '.join(sorted(known)[:50])}." if known else _ELSEWHERE.get(what, f"This server has no {what}.")
    )
    return Refusal(
        status,
        "NotFound" if status == 404 else "ConfigError",
        f"There is no {what} '{name[:_LETTERS]}'.",
        f"Did you mean '{close}'?" if close else listed,
        param=param,
    )
