"""`hoptree methods`."""

from __future__ import annotations

from typing import Annotated

import typer

from hoptree.cli.console import print_json

__all__ = ["methods"]


def methods(
    name: Annotated[str | None, typer.Argument(help="Only this one.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """List the methods, what they need, their options, and the roles that can have models of their own."""
    import inspect

    from hoptree.methods.registry import find_method, list_methods

    chosen = (find_method(name),) if name else list_methods()
    if as_json:
        print_json([method.as_dict() for method in chosen])
        return
    for method in chosen:
        needs = f"  (needs {', '.join(method.needs)})" if method.needs else ""
        typer.echo(f"{method.name}: {method.title}{needs}")
        about = inspect.getdoc(method.run) or ""
        typer.echo("\n".join(f"    {line}" for line in about.splitlines()))
        for option in method.options:
            default = ("on" if option.default else "off") if isinstance(option.default, bool) else option.default
            typer.echo(f"      --set {option.name}={default}    {option.describe()}")
        if len(method.roles) > 1:
            typer.echo(f"      --role ROLE=MODEL    {'|'.join(method.roles)}")
