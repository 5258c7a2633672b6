"""`hoptree align eval`: what adapters are worth, beside the model they were trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hoptree.cli.align_eval_output import report
from hoptree.cli.console import print_json, what_stays
from hoptree.cli.console import run as run_to_end
from hoptree.cli.options import AsJson, NoCache
from hoptree.cli.progress import bars, describe
from hoptree.errors import InputError

if TYPE_CHECKING:
    from hoptree.alignment.measuring.trials import Trial
    from hoptree.cli.progress import Show
    from hoptree.evaluation.running import Progress

__all__ = ["evaluate"]


def evaluate(
    experiments: Annotated[list[Path], typer.Argument(help="Files of runs (YAML), of methods or method: boundary.")],
    model: Annotated[
        str, typer.Option("--model", "-m", help="The base: hf/NAME, hf/FOLDER or hf/FILE.gguf.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="The folder of all runs; the same command goes on with it.")],
    adapter: Annotated[
        list[Path],
        typer.Option(
            metavar="FOLDER",
            help="An adapter of hoptree align train; several times for several. Tables name it by its folder.",
            show_default=False,
        ),
    ] = [],  # noqa: B006 - typer copies it
    data: Annotated[
        Path | None,
        typer.Option(help="The folder that the files' paths are relative to.  [default: theirs]", show_default=False),
    ] = None,
    only: Annotated[
        list[str],
        typer.Option(metavar="NAME", help="Only this data set or this run; several times.", show_default=False),
    ] = [],  # noqa: B006 - typer copies it
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N questions.", show_default=False)] = None,
    judge: Annotated[
        str, typer.Option(metavar="MODEL", help="A model that judges the answers, too.", show_default=False)
    ] = "",
    at_once: Annotated[
        int, typer.Option(metavar="RUNS", min=1, help="Runs of one model that are made at the same time.")
    ] = 1,
    retry_failed: Annotated[bool, typer.Option(help="Ask questions that failed again.")] = False,
    anyway: Annotated[bool, typer.Option(help="Go on although data, index, prompts or model changed.")] = False,
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Make every run of the files with the base and with each adapter, and say what the adapters changed.

    These are runs as of hoptree run and hoptree boundary, in folders of their own: what is finished costs nothing, and
    hoptree report, compare and show read them. Scores are held against the base question by question: the interval of
    the difference (paired bootstrap, 95 %), and p after Holm's correction over all comparisons of one score.

    \b
    hoptree align eval experiments/alignment/boundary.yaml experiments/alignment/small-model.yaml --data DATA \\
        -m hf/NAME --adapter adapters/if --adapter adapters/kbae --adapter adapters/both --out runs/aligned
    hoptree report runs/aligned --html aligned.html
    """
    from hoptree.alignment.measuring.gains import boundary_gains, run_gains
    from hoptree.alignment.measuring.trials import measure, plan_trials
    from hoptree.alignment.measuring.versions import versions_of
    from hoptree.evaluation.running import Ways

    if not adapter:
        raise InputError("There is no adapter to hold against the base.", "Give one: --adapter FOLDER.")
    versions = versions_of(model, adapter)
    settings: dict[str, Any] = {
        **({"limit": limit} if limit is not None else {}),
        **({"judge": judge} if judge else {}),
    }
    trials = plan_trials(experiments, data, versions, settings=settings, only=only)
    ways = Ways(anyway=anyway, retry_failed=retry_failed, cache=None if no_cache else "default")
    with _shown(as_json) as show:
        work = measure(trials, out, ways, at_once=at_once, on_progress=show)
        measured = run_to_end(work, stays=what_stays("questions", cached=not no_cache))
    told = {
        "folder": str(out),
        "versions": [version.as_dict() for version in versions],
        "runs": run_gains(measured),
        "boundaries": boundary_gains(measured),
    }
    if as_json:
        print_json(told)
    else:
        report(told)


@contextmanager
def _shown(quiet: bool) -> Iterator[Callable[[Trial, Progress], None]]:
    """A bar for each run under way, on the terminal only."""
    with bars(quiet) as bar:
        open_bars: dict[Path, tuple[ExitStack, Show]] = {}

        def show(trial: Trial, now: Progress) -> None:
            place = trial.planned.folder
            if place not in open_bars:
                stack = ExitStack()
                open_bars[place] = stack, stack.enter_context(bar(trial.planned.experiment.name))
            stack, tell = open_bars[place]
            tell(len(now.rows), now.total, lambda: describe(now))
            if len(now.rows) == now.total:
                stack.close()

        yield show
