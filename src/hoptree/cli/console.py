"""How the command line speaks: plain errors, clean text, exit codes."""

from __future__ import annotations

import asyncio
import functools
import json
import re
import sys
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from hoptree.errors import HoptreeError

__all__ = ["Interrupted", "clean", "interruptible", "print_error", "print_json", "run"]

T = TypeVar("T")
P = ParamSpec("P")
# Terminal controls, marks that turn the direction of writing, and halves of characters.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Interrupted(HoptreeError):
    """Ctrl-C."""


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; Ctrl-C ends it in order."""
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise Interrupted("Stopped.", "Finished calls are kept: the same command goes on from there.") from None


def interruptible(command: Callable[P, None]) -> Callable[P, None]:
    """A command that ends in order on Ctrl-C."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except KeyboardInterrupt:
            raise Interrupted(
                "Stopped.", "What was there before is as it was; the same command begins again."
            ) from None

    return wrapped


def clean(text: str) -> str:
    """Text from a model or a document without terminal control sequences."""
    return _CONTROL.sub("", text)


def print_error(error: HoptreeError) -> None:
    print(f"hoptree: {clean(str(error))}", file=sys.stderr)  # noqa: T201


def print_json(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    print(json.dumps(value, indent=2) if _CONTROL.search(text) else text)  # noqa: T201
