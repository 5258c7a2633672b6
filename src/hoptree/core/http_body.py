"""Read the bodies of HTTP replies; long ones without holding the event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_MAX_LOOP_BYTES = 2**17  # reading more takes over ten milliseconds
_MAX_ERROR_BYTES = 2**17  # more is no message


async def read_body(read: Callable[[bytes], T], body: bytes) -> T:
    """Return `read(body)`; a long body is read in a thread."""
    return read(body) if len(body) <= _MAX_LOOP_BYTES else await asyncio.to_thread(read, body)


def parse_json(body: bytes) -> Any:
    """Parse JSON; raise ValueError or RecursionError.

    The parser holds the interpreter's lock, so that a thread alone frees no loop; a hook in Python lets go of it.
    """
    return json.loads(body) if len(body) <= _MAX_LOOP_BYTES else json.loads(body, object_hook=_unchanged)


def _unchanged(value: dict[str, Any]) -> dict[str, Any]:
    return value


def error_text(body: bytes) -> str:
    """Return the message of an error response in one line; "" if it has none."""
    if len(body) > _MAX_ERROR_BYTES:
        return ""
    try:
        data = json.loads(body)
        error = data.get("error", data.get("detail", data.get("message", "")))
        message = error.get("message", error.get("reason", "")) if isinstance(error, dict) else error
    except (ValueError, AttributeError, RecursionError):
        return ""
    return " ".join(str(message).split())


def describe_body(body: bytes) -> str:
    """Say in words what a body that is not JSON looks like."""
    start = body[:_MAX_ERROR_BYTES].lstrip()[:200].lower()
    if not start:
        return "nothing"
    if start.startswith(b"<"):
        return "a web page"
    return "half a JSON object" if start.startswith(b"{") else "something else"
