"""`hoptree eval reproduce`: run a run again, and say whether it came out the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hoptree.cli.console import chance, clean, print_json, what_stays
from hoptree.cli.console import run as run_to_end
from hoptree.cli.options import AsJson
from hoptree.cli.progress import describe, shown

if TYPE_CHECKING:
    from hoptree.evaluation.reproduce import Elsewhere, Reproduction


_LISTED = 5


def reproduce(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    out: Annotated[
        Path | None, typer.Option(help="The folder of the new run.  [default: RUN-again]", show_default=False)
    ] = None,
    model: Annotated[
        str, typer.Option("--model", "-m", help="If the model has another name now.", show_default=False)
    ] = "",
    base_url: Annotated[str, typer.Option(help="If the endpoint moved.", show_default=False)] = "",
    data: Annotated[
        Path | None, typer.Option(help="If the file of questions is somewhere else now.", show_default=False)
    ] = None,
    corpus: Annotated[str, typer.Option(help="If the index is somewhere else now.", show_default=False)] = "",
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            metavar="SHARE",
            help="The share of the answers that may differ.  [default: 0.05 for a model on this machine, 1 at an "
            "endpoint]",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask the same questions again, without remembered replies, and compare answers and scores.

    It says first what is not the same any more: data, index, prompts, model, versions. It leaves with 1 if a score
    differs by more than chance, or more answers differ than may, or so few were asked that it cannot be told, and with
    2 if the run cannot be made again. A run that was broken off goes on with the same command.

    \b
    hoptree eval reproduce runs/taikc
    hoptree eval reproduce runs/taikc --base-url http://localhost:9000/v1 --json
    """
    from hoptree.evaluation.reproduce import Elsewhere

    elsewhere = Elsewhere(data, corpus, model, base_url)
    work = _reproduced(run, out, elsewhere, tolerance, quiet=as_json)
    found = run_to_end(work, stays=what_stays("questions", cached=False))
    if as_json:
        print_json(found.as_dict())
    else:
        _report(found)
    if not found.reproduced:
        raise typer.Exit(1)


async def _reproduced(
    run: Path, out: Path | None, elsewhere: Elsewhere, tolerance: float | None, *, quiet: bool
) -> Reproduction:
    from hoptree.evaluation.reproduce import reproduce

    def begun(changed: Mapping[str, tuple[Any, Any]], out: Path) -> None:
        if not quiet:
            _begin(changed, out)

    with shown(quiet) as show:
        return await reproduce(
            run,
            out,
            elsewhere=elsewhere,
            tolerance=tolerance,
            on_begin=begun,
            on_progress=lambda now: show(len(now.rows), now.total, lambda: describe(now)),
        )


def _begin(changed: Mapping[str, tuple[Any, Any]], out: Path) -> None:
    typer.echo(clean(f"asked again in {out}"))
    for name, (was, now) in changed.items():
        typer.echo(clean(f"  not the same any more: {name} was {was}, is {now}"))
    if not changed:
        typer.echo("  everything it rests on is the same")


def _report(found: Reproduction) -> None:
    for name, pair in found.compared.items():
        low, high = pair.interval.low, pair.interval.high
        typer.echo(
            f"  {name.upper():3} {100 * pair.mean_b:5.1f} against {100 * pair.mean_a:.1f}: "
            f"{100 * pair.difference:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}], {chance(pair.adjusted_p)} (Holm)"
        )
    if any(found.failed):
        typer.echo(
            f"  {found.failed[1]:,} questions failed, {found.failed[0]:,} the first time, {found.failed_twice:,} both "
            "times; they count as wrong"
        )
    for name in found.unlike[:_LISTED]:
        typer.echo(clean(f"  another answer: {name}"))
    if len(found.unlike) > _LISTED:
        typer.echo(f"  … and {len(found.unlike) - _LISTED:,} more (--json lists them)")
    typer.echo(clean(found.verdict))
