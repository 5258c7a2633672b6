"""Names that clients and administrators give: which are valid, and how an unknown one is refused."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection

from hoptree.server.error_responses import Refusal

NAME = r"^[a-z0-9][a-z0-9_-]{0,62}$"
"""Of a corpus: it becomes the name of a folder, so no character that is special to a file system."""
_NAME = re.compile(NAME, re.ASCII)
_MAX_SHOWN_CHARS = 80
_MAX_LISTED = 50
_WHERE_LISTED = {
    "corpus": "GET /v1/corpora lists those there are.",
    "run": "GET /v1/runs lists those there are.",
    "job": "GET /v1/corpora names the last of each corpus; others are forgotten when the server is stopped.",
}
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))})


def check_name(name: str) -> None:
    """Refuse a name that no corpus may have."""
    if not _NAME.fullmatch(name) or name in _DEVICES:
        remedy = "Use up to 63 small letters a to z, digits, - and _, beginning with a letter or digit."
        raise Refusal(400, "BadName", "That is no name of a corpus.", remedy)


def guess(name: str, known: Collection[str]) -> str:
    """Return the name that was probably meant, if one is near."""
    return next(iter(difflib.get_close_matches(name[:_MAX_SHOWN_CHARS], known, 1)), "")


def unknown(what: str, name: str, known: Collection[str], *, status: int = 400, param: str | None = None) -> Refusal:
    """Refuse a name that was not configured."""
    if close := guess(name, known):
        remedy = f"Did you mean '{close}'?"
    elif known:
        remedy = f"There are: {', '.join(sorted(known)[:_MAX_LISTED])}."
    else:
        remedy = _WHERE_LISTED.get(what, f"This server has no {what}.")
    kind = "NotFound" if status == 404 else "ConfigError"
    return Refusal(status, kind, f"There is no {what} '{name[:_MAX_SHOWN_CHARS]}'.", remedy, param=param)
