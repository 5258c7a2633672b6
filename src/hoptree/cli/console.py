"""How the command line speaks: plain errors, clean text, exit codes."""

from __future__ import annotations

import asyncio
import functools
import json
import re
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, ParamSpec, TypeVar

import typer

from hoptree.core.errors import HoptreeError

T = TypeVar("T")
P = ParamSpec("P")
# Terminal controls, marks that turn the direction of writing, and halves of characters.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Interrupted(HoptreeError):
    """Ctrl-C."""


def counted(count: int, one: str, many: str = "") -> str:
    """A number of things in words: 1 fact, 2,000 facts."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def say(sentence: str) -> None:
    """A warning or a hint beside what is asked for, on standard error."""
    typer.echo(clean(f"hoptree: {sentence}"), err=True)


def run(work: Coroutine[Any, Any, T], *, stays: str = "The same command begins again.") -> T:
    """Run a coroutine to its end; Ctrl-C ends it in order, and `stays` tells what that leaves."""
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise Interrupted("Stopped.", stays) from None


def what_stays(finished: str = "", *, cached: bool) -> str:
    """What a command leaves that is stopped: what it `finished`, if it writes that down, and calls in the cache."""
    if not finished and not cached:
        return "Nothing is kept without a cache: the same command begins again."
    if not cached:
        kept = f"{finished} are kept, calls for others are not"
    else:
        kept = f"{finished} and calls are kept" if finished else "calls are kept"
    return f"Finished {kept}: the same command goes on from there."


def run_at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; Ctrl-C breaks it off wherever it is, also where it never waits for anything.

    asyncio only cancels, which takes effect when the work waits next. It leaves a handler alone that is not the usual.
    """
    usual = signal.getsignal(signal.SIGINT)
    if usual is not signal.default_int_handler:  # ignored, somebody else's, or not the main thread's to change
        return asyncio.run(work)
    signal.signal(signal.SIGINT, lambda number, frame: signal.default_int_handler(number, frame))
    try:
        return asyncio.run(work)
    finally:
        signal.signal(signal.SIGINT, usual)


def chance(value: float) -> str:
    """How a p-value is told: never as 0."""
    return f"p = {value:.4f}" if value >= 0.0001 else "p < 0.0001"


def stoppable(remedy: Callable[[Mapping[str, Any]], str]) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Makes a command end in order on Ctrl-C; `remedy` tells by its options what stays and what a repetition does."""

    def stoppable_command(command: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(command)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                command(*args, **kwargs)
            except KeyboardInterrupt:
                raise Interrupted("Stopped.", remedy(kwargs)) from None

        return wrapped

    return stoppable_command


def interruptible(command: Callable[P, None]) -> Callable[P, None]:
    """A command that ends in order on Ctrl-C."""
    return stoppable(lambda options: "What was there before is as it was; the same command begins again.")(command)


def clean(text: str) -> str:
    """Text from a model or a document without terminal control sequences."""
    return _CONTROL.sub("", text)


def print_error(error: HoptreeError) -> None:
    print(f"hoptree: {clean(str(error))}", file=sys.stderr)  # noqa: T201


def print_json(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    print(json.dumps(value, indent=2) if _CONTROL.search(text) else text)  # noqa: T201
