"""Arguments of a tool that cannot be taken, in words."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

__all__ = ["unknown_argument", "wrong_argument"]

_LETTERS = 40
_KINDS = {"int": "a whole number", "string": "text"}


def unknown_argument(tool: str, given: Collection[str], known: Collection[str]) -> str:
    """What is wrong with the names of the arguments; empty where nothing is."""
    name = next((name for name in given if name not in known), None)
    if name is None:
        return ""
    close = difflib.get_close_matches(name[:_LETTERS], known, 1)
    hint = f"Did you mean {close[0]}?" if close else f"It takes {', '.join(known)}."
    return f"{tool} takes no {name[:_LETTERS]}. {hint}"


def wrong_argument(tool: str, errors: Sequence[Mapping[str, Any]], known: Collection[str]) -> str:
    """What the reading of the arguments found, of the first that is wrong."""
    first = errors[0]
    name = str(first["loc"][0]) if first["loc"] else "argument"
    if first["type"] == "missing":
        return f"{tool} needs a {name}, which is missing. It takes {', '.join(known)}."
    kind = _KINDS.get(str(first["type"]).partition("_")[0], "its description says")
    return f"{name} is not of the kind that {tool} takes. Give it as {kind}."
