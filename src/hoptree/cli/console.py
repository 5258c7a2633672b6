"""How the command line speaks: plain errors, clean text, exit codes."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

from hoptree.errors import EndpointError, HoptreeError, InputError

__all__ = ["Interrupted", "clean", "exit_code", "print_error", "print_json", "run"]

T = TypeVar("T")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Interrupted(HoptreeError):
    """Ctrl-C."""


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; Ctrl-C ends it in order."""
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise Interrupted("Stopped.", "Finished calls are kept: the same command goes on from there.") from None


def clean(text: str) -> str:
    """Text from a model or a document without terminal control sequences."""
    return _CONTROL.sub("", text)


def exit_code(error: HoptreeError) -> int:
    """2 where the command must be changed to work (input, key, address), 1 where the same one may work later."""
    if isinstance(error, EndpointError):
        return 2 if error.status in (401, 403, 404) or (error.status is None and error.retryable) else 1
    return 2 if isinstance(error, InputError) else 1


def print_error(error: HoptreeError) -> None:
    print(f"hoptree: {clean(str(error))}", file=sys.stderr)  # noqa: T201


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))  # noqa: T201
