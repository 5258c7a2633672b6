"""The command line: start, output, errors with exit codes, Ctrl-C."""

from __future__ import annotations

import errno
import functools
import io
import json
import os
import sys
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

from hoptree.core.errors import HoptreeError, InputError, InternalError
from hoptree.core.lazy import lazy_re

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")
P = ParamSpec("P")
# Terminal controls, marks that turn the direction of writing, and surrogates.
_CONTROL = lazy_re("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def main() -> None:
    """Run a command; an expected failure is one sentence and an exit code."""
    arguments = sys.argv[1:]
    try:
        if arguments in (["-h"], ["--help"]):  # without the parser, whose import takes longest
            from hoptree.cli.commands import top_help

            sys.stdout.write(top_help())
            return
        _run_command(arguments)
    except KeyboardInterrupt:  # outside of a command
        sys.exit(1)


def _run_command(arguments: list[str]) -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without arrows still shows the answer
    try:
        _call(arguments)
    except SystemExit as leaving:
        _leave(leaving.code if isinstance(leaving.code, int) else 1 if leaving.code else 0)
    except HoptreeError as error:
        print_error(error)
        _leave(error.exit_code)
    except BrokenPipeError:
        # The reader (head, less) has ended, which is not a failure. Python would complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _leave(1)
    except Exception as error:
        if os.environ.get("HOPTREE_DEBUG"):
            raise
        failure = _unexpected(error)
        print_error(failure)
        _leave(failure.exit_code)


def _unexpected(error: Exception) -> HoptreeError:
    """Return the failure to print for an error that no command has translated."""
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return HoptreeError("The disk is full.", "Free some space, then run the same command: nothing paid is lost.")
    if isinstance(error, PermissionError) and error.filename:
        path = os.fsdecode(error.filename)
        return InputError(f"{path} cannot be used: {error.strerror}.", "Ask its owner for permission, or name another.")
    return InternalError(error)


def _call(arguments: list[str]) -> None:
    """Call a command; plain `ask` lines skip the parser to start sooner."""
    from hoptree.cli.commands import SHORT
    from hoptree.cli.options import read_config

    read_config(trusted=any(word.startswith("--base-url") for word in arguments))
    words = [*SHORT.get(arguments[0], arguments[:1]), *arguments[1:]] if arguments else []
    if words[:1] == ["ask"]:
        from hoptree.cli.ask import ask
        from hoptree.cli.options import read_plainly

        if (values := read_plainly(ask, words[1:])) is not None:
            try:
                ask(**values)
            except KeyboardInterrupt:
                sys.exit(130)
            return
    from hoptree.cli.main import app

    app(arguments, prog_name="hoptree")


def _leave(code: int) -> NoReturn:
    """Exit without waiting for an embedded model that still reads a prompt."""
    threading = sys.modules.get("threading")
    if threading and any(thread.name.startswith("hoptree-local") for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # replies and traces are on disk already
    sys.exit(code)


class Interrupted(HoptreeError):
    """Ctrl-C."""


def clean(text: str) -> str:
    """Remove terminal control sequences from text of a model or a document."""
    return _CONTROL.sub("", text)


def one_line(text: str) -> str:
    """Clean a name: line breaks in it would forge lines of our output."""
    return " ".join(clean(text).split())


def echo(text: str) -> None:
    """Print text on standard output, cleaned."""
    print(clean(text), flush=True)  # noqa: T201


def warn(sentence: str) -> None:
    """Print a warning or a hint on standard error."""
    print(f"hoptree: {one_line(sentence)}", file=sys.stderr, flush=True)  # noqa: T201


@contextmanager
def transient_line(text: str) -> Iterator[None]:
    """Show a line on a terminal while something slow begins, then erase it."""
    if not sys.stderr.isatty():
        yield
        return
    print(text, end="", file=sys.stderr, flush=True)  # noqa: T201
    try:
        yield
    finally:
        print(f"\r{' ' * len(text)}\r", end="", file=sys.stderr, flush=True)  # noqa: T201


def print_error(error: HoptreeError) -> None:
    """Print a failure on standard error, without the parser's help."""
    print(f"hoptree: {one_line(str(error))}", file=sys.stderr)  # noqa: T201


def fail(cause: str, remedy: str) -> None:
    """Print a failure after the output of a command, and exit with its code."""
    failure = HoptreeError(cause, remedy)
    print_error(failure)
    raise SystemExit(failure.exit_code)


def print_json(value: Any) -> None:
    """Print JSON, in ASCII where the text holds control characters."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    print(json.dumps(value, indent=2) if _CONTROL.search(text) else text)  # noqa: T201


def print_report(summary: T, report: Callable[[T], None], *, as_json: bool) -> None:
    """Print a summary as JSON, or have it reported in words."""
    if as_json:
        print_json(summary)
    else:
        report(summary)


@contextmanager
def written(path: Path, remedy: str) -> Iterator[None]:
    """Turn a file that cannot be written into an error of the command."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.", remedy) from error


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, left: Collection[str] = ()) -> None:
    """Print aligned columns, those named in `left` to the left."""
    lines = [[clean(cell) for cell in line] for line in (heads, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (
            cell.ljust(width) if head in left else cell.rjust(width)
            for head, cell, width in zip(heads, line, widths, strict=True)
        )
        echo(f"  {'  '.join(cells)}".rstrip())


def counted(count: int, singular: str, plural: str = "") -> str:
    """Return a number of things in words: 1 fact, 2,000 facts."""
    return f"{count:,} {singular if count == 1 else plural or f'{singular}s'}"


def listed(names: Sequence[str], most: int) -> str:
    """Join names with commas; beyond `most`, only their number is given."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def percent(share: float | None, unit: str = "") -> str:
    """Return a share as per cent with one decimal, or n/a."""
    return "n/a" if share is None else f"{100 * share:.1f}{unit}"


def chance(value: float) -> str:
    """Return a p-value, never as 0."""
    return f"p = {value:.4f}" if value >= 0.0001 else "p < 0.0001"


def interval(difference: float, low: float, high: float) -> str:
    """Return a difference in points with its confidence interval."""
    return f"{100 * difference:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def run_to_end(work: Coroutine[Any, Any, T], finished: str = "", *, cached: bool | None = None) -> T:
    """Run a coroutine; Ctrl-C cancels it, and the error says what is kept."""
    import asyncio

    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise Interrupted("Stopped.", what_stays(finished, cached=cached)) from None


def what_stays(finished: str = "", *, cached: bool | None) -> str:
    """Describe what an interrupted command keeps; `cached` is None without a model."""
    if cached is None:
        return "The same command begins again."
    if not finished and not cached:
        return "Nothing is kept without a cache: the same command begins again."
    if not cached:
        kept = f"{finished} are kept, calls for others are not"
    else:
        kept = f"{finished} and calls are kept" if finished else "calls are kept"
    return f"Finished {kept}: the same command goes on from there."


def run_at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that Ctrl-C ends immediately."""
    import asyncio
    import signal

    usual = signal.getsignal(signal.SIGINT)
    if usual is not signal.default_int_handler:  # ignored, replaced, or not the main thread's to change
        return asyncio.run(work)
    signal.signal(signal.SIGINT, lambda number, frame: signal.default_int_handler(number, frame))
    try:
        return asyncio.run(work)
    finally:
        signal.signal(signal.SIGINT, usual)


def stoppable(remedy: str | Callable[[Mapping[str, Any]], str]) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Make a command end cleanly on Ctrl-C; `remedy` says what is kept."""

    def decorate(command: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(command)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                command(*args, **kwargs)
            except KeyboardInterrupt:
                raise Interrupted("Stopped.", remedy if isinstance(remedy, str) else remedy(kwargs)) from None

        return wrapped

    return decorate


AS_BEFORE = "What was there before is as it was; the same command begins again."
