"""`hoptree`: run a command, which is imported only then; turn failures into one sentence and an exit code."""

from __future__ import annotations

import errno
import io
import os
import sys
from importlib import import_module
from typing import Any, ClassVar, NoReturn

import typer
from typer.core import TyperGroup

from hoptree import __version__
from hoptree.cli.commands import COMMANDS, EVALUATION_COMMANDS, Table, evaluation_help, suggest_command, top_help


class _LazyGroup(TyperGroup):
    """Commands of a table, each imported when it is looked up."""

    table: ClassVar[Table]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._targets = {name: target for commands in self.table.values() for name, (target, _) in commands.items()}
        self.commands = dict.fromkeys(self._targets)  # type: ignore[assignment]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self._targets and (meant := suggest_command(args[0])):
            ctx.fail(f"No such command '{args[0]}'. Did you mean 'hoptree {meant}'?")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in self._targets and self.commands[cmd_name] is None:
            self.commands[cmd_name] = _load(cmd_name, self._targets[cmd_name])
        return self.commands.get(cmd_name)


class _TopGroup(_LazyGroup):
    """All commands."""

    table = COMMANDS

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(top_help())


class _EvaluationGroup(_LazyGroup):
    """The commands behind `hoptree eval`."""

    table = EVALUATION_COMMANDS

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(evaluation_help())


def _load(name: str, target: str) -> Any:
    module, _, attribute = target.partition(":")
    command = getattr(import_module(f"hoptree.cli.{module}"), attribute)
    if isinstance(command, typer.Typer):
        return typer.main.get_group(command)
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(name)(command)
    return typer.main.get_command(single)


app = typer.Typer(
    cls=_TopGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
evaluation = typer.Typer(cls=_EvaluationGroup, no_args_is_help=True, rich_markup_mode=None)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hoptree {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Options of hoptree itself."""


def main() -> None:
    """Run a command; an expected failure is one sentence and an exit code, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without arrows still shows the answer
    from hoptree.cli.console import print_error
    from hoptree.core.errors import HoptreeError, InternalError

    try:
        app(prog_name="hoptree")
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


def _leave(code: int) -> NoReturn:
    """Exit without waiting for an embedded model that still reads a prompt."""
    threading = sys.modules.get("threading")
    if threading and any(thread.name.startswith("hoptree-local") for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # replies and traces are on disk already
    sys.exit(code)
