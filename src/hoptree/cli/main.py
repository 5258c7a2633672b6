"""The parser of `hoptree`: a command is imported when it is looked up."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from copy import copy
from importlib import import_module
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, get_args, get_origin

import typer
from typer.core import TyperGroup

from hoptree import __version__
from hoptree.cli.commands import (
    COMMANDS,
    EVALUATION_COMMANDS,
    SHORT,
    SHORT_HELP,
    Table,
    evaluation_help,
    suggest_command,
    top_help,
)
from hoptree.cli.options import Argument, Option


class _LazyGroup(TyperGroup):
    """Commands of a table, each imported when it is looked up."""

    table: ClassVar[Table] = COMMANDS
    help_text = staticmethod(top_help)

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._targets = {name: target for commands in self.table.values() for name, (target, _) in commands.items()}
        self.commands = dict.fromkeys(self._targets)  # type: ignore[assignment]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, *options = SHORT.get(args[0], ("",))
        if name in self._targets:
            command = copy(self.get_command(ctx, name))
            command.help = inspect.cleandoc(SHORT_HELP[args[0]])
            return args[0], command, [*options, *args[1:]]
        if args[0] not in self._targets:
            places = [f"{path} {args[0]}" for path in _groups_with(args[0], self, ctx)] or [suggest_command(args[0])]
            if meant := " or ".join(f"'hoptree {place}'" for place in places if place):
                ctx.fail(f"No such command '{args[0]}'. Did you mean {meant}?")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return what a shell offers here, with the short commands."""
        short = [name for name, (target, _) in SHORT.items() if target in self._targets and name.startswith(incomplete)]
        # Versions of typer have the class of click in different places.
        offered = (SimpleNamespace(value=name, type="plain", help=None) for name in short)
        return [*offered, *super().shell_complete(ctx, incomplete)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in self._targets and self.commands[cmd_name] is None:
            self.commands[cmd_name] = load_command(cmd_name, self._targets[cmd_name])
        return self.commands.get(cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(self.help_text())


def _groups_with(name: str, group: Any, ctx: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the paths of the groups below a group that have a command of this name."""
    if name in group.commands:
        yield " ".join(path)
    for inner in group.commands:
        command = group.get_command(ctx, inner)
        if isinstance(command, TyperGroup):
            yield from _groups_with(name, command, ctx, (*path, inner))


class _EvaluationGroup(_LazyGroup):
    """The commands behind `hoptree eval`."""

    table = EVALUATION_COMMANDS
    help_text = staticmethod(evaluation_help)


def load_command(name: str, target: str) -> Any:
    """Import a command, and convert it for the parser."""
    module, _, attribute = target.partition(":")
    command = getattr(import_module(f"hoptree.cli.{module}"), attribute)
    if isinstance(command, typer.Typer):
        _declare(command)
        return typer.main.get_group(command)
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(name)(command)
    _declare(single)
    return typer.main.get_command(single)


def _declare(group: typer.Typer) -> None:
    """Replace our declarations in a group's signatures by typer's."""
    for info in group.registered_commands:
        command: Any = info.callback
        signature = inspect.signature(command, eval_str=True)
        parameters = [part.replace(annotation=_for_typer(part.annotation)) for part in signature.parameters.values()]
        command.__signature__ = signature.replace(parameters=parameters)
    for nested in group.registered_groups:
        if nested.typer_instance is not None:
            _declare(nested.typer_instance)


def _for_typer(annotation: Any) -> Any:
    if get_origin(annotation) is not Annotated:
        return annotation
    kind, declared = get_args(annotation)
    if isinstance(declared, Option):
        return Annotated[kind, typer.Option(*declared.names, **declared.settings)]
    return Annotated[kind, typer.Argument(**declared.settings)] if isinstance(declared, Argument) else annotation


app = typer.Typer(
    cls=_LazyGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
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
