"""Names that clients and administrators give: what they may look like, and how an unknown one is refused."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection

from hoptree.server.refusals import Refusal

__all__ = ["NAME", "check_name", "unknown"]

NAME = r"^[a-z0-9][a-z0-9_-]{0,62}$"
"""Of a corpus: it becomes the name of a folder, so nothing that a file system reads in a way of its own."""
_NAME = re.compile(NAME, re.ASCII)
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


def unknown(what: str, name: str, known: Collection[str], *, status: int = 400) -> Refusal:
    """The refusal of a name that was not configured."""
    close = difflib.get_close_matches(name, known, 1)
    listed = ", ".join(sorted(known)[:50])
    hint = f"Did you mean '{close[0]}'?" if close else f"There are: {listed}." if known else f"There is no {what} here."
    return Refusal(status, "NotFound" if status == 404 else "ConfigError", f"There is no {what} '{name[:80]}'.", hint)
