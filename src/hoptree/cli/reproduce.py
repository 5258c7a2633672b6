"""`hoptree eval reproduce`: run a run again, and say whether it came out the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hoptree.cli.console import chance, echo, interval, print_json, what_stays
from hoptree.cli.console import run as run_to_end
from hoptree.cli.options import AsJson
from hoptree.cli.progress import describe_run, shown

if TYPE_CHECKING:
    from hoptree.evaluation.reproduce import Elsewhere, Reproduction


_MAX_LISTED = 5


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

    It says first what is not the same any more: data, index, prompts, model, versions. It exits with 1 if a score
    differs by more than chance, or more answers differ than may, or too few were asked to tell, and with 2 if the run
    cannot be made again. A run that was broken off goes on with the same command.

    \b
    hoptree eval reproduce runs/taikc
    hoptree eval reproduce runs/taikc --base-url http://localhost:9000/v1 --json
    """
    from hoptree.evaluation.reproduce import Elsewhere

    work = _reproduce(run, out, Elsewhere(data, corpus, model, base_url), tolerance, quiet=as_json)
    outcome = run_to_end(work, stays=what_stays("questions", cached=False))
    if as_json:
        print_json(outcome.as_dict())
    else:
        _report(outcome)
    if not outcome.reproduced:
        raise typer.Exit(1)


async def _reproduce(
    run: Path, out: Path | None, elsewhere: Elsewhere, tolerance: float | None, *, quiet: bool
) -> Reproduction:
    from hoptree.evaluation.reproduce import reproduce

    def report_changes(changed: Mapping[str, tuple[Any, Any]], out: Path) -> None:
        if quiet:
            return
        echo(f"asked again in {out}")
        for name, (was, now) in changed.items():
            echo(f"  not the same any more: {name} was {was}, is {now}")
        if not changed:
            echo("  everything it rests on is the same")

    with shown(quiet) as show:
        return await reproduce(
            run,
            out,
            elsewhere=elsewhere,
            tolerance=tolerance,
            on_begin=report_changes,
            on_progress=lambda now: show(len(now.rows), now.total, lambda: describe_run(now)),
        )


def _report(outcome: Reproduction) -> None:
    for name, pair in outcome.compared.items():
        difference = interval(pair.difference, pair.interval.low, pair.interval.high)
        echo(
            f"  {name.upper():3} {100 * pair.mean_b:5.1f} against {100 * pair.mean_a:.1f}: {difference}, "
            f"{chance(pair.adjusted_p)} (Holm)"
        )
    if any(outcome.failed):
        echo(
            f"  {outcome.failed[1]:,} questions failed, {outcome.failed[0]:,} the first time, "
            f"{outcome.failed_twice:,} both times; they count as wrong"
        )
    for name in outcome.unlike[:_MAX_LISTED]:
        echo(f"  another answer: {name}")
    if (left := len(outcome.unlike) - _MAX_LISTED) > 0:
        echo(f"  … and {left:,} more (--json lists them)")
    echo(outcome.verdict)
