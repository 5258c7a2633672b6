"""The command line: `hoptree`, and `python -m hoptree`; failures become one sentence and an exit code."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> None:
    """Run a command; an expected failure is one sentence and an exit code, never a traceback."""
    arguments = sys.argv[1:]
    try:
        if arguments in (["-h"], ["--help"]):  # without the parser, whose import takes longest
            from hoptree.cli.commands import top_help

            sys.stdout.write(top_help())
            return
        _run(arguments)
    except KeyboardInterrupt:  # outside of a command
        sys.exit(1)


def _run(arguments: list[str]) -> None:
    import errno
    import io
    import os

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without arrows still shows the answer
    from hoptree.cli.console import print_error
    from hoptree.core.errors import HoptreeError, InternalError

    try:
        _call(arguments)
    except SystemExit as leaving:
        _leave(leaving.code if isinstance(leaving.code, int) else 1 if leaving.code else 0)
    except HoptreeError as error:
        print_error(error)
        _leave(error.exit_code)
    except BrokenPipeError:
        # The reader (head, less) went away, which is no failure. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _leave(1)
    except Exception as error:
        if os.environ.get("HOPTREE_DEBUG"):
            raise
        full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        remedy = "Free some space, then run the same command: nothing paid is lost."
        print_error(HoptreeError("The disk is full.", remedy) if full else InternalError(error))
        _leave(1)


def _call(arguments: list[str]) -> None:
    """Call a command; a plain command line of `ask` is read without the parser, so that the question is out sooner."""
    if arguments[:1] == ["ask"]:
        from hoptree.cli.ask import ask
        from hoptree.cli.options import read_plainly

        if (values := read_plainly(ask, arguments[1:])) is not None:
            try:
                ask(**values)
            except KeyboardInterrupt:
                sys.exit(130)
            return
    from hoptree.cli.main import app

    app(prog_name="hoptree")


def _leave(code: int) -> NoReturn:
    """Exit without waiting for an embedded model that still reads a prompt."""
    import os

    threading = sys.modules.get("threading")
    if threading and any(thread.name.startswith("hoptree-local") for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # replies and traces are on disk already
    sys.exit(code)


if __name__ == "__main__":
    main()
