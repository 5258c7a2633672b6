"""`hoptree eval judge`: a language model decides which answers of a run are right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hoptree.cli.console import echo, percent, print_json, what_stays
from hoptree.cli.console import run as run_to_end
from hoptree.cli.options import AsJson, BaseURL, Concurrency, NoCache
from hoptree.cli.progress import describe_judge, shown


def judge(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, or folders that hold such folders.")],
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            help="The model that judges: openai/NAME, local/NAME, hf/NAME or scripted/FILE.",
            show_default=False,
        ),
    ],
    base_url: BaseURL = "",
    concurrency: Concurrency = None,
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Have the answers of runs judged: does each imply an accepted answer?

    Verdicts are kept in the run's folder; the same command goes on where it was ended, and what is judged costs
    nothing. Failed questions and blank answers are wrong without asking, and so is an answer whose verdict cannot be
    read. hoptree eval compare and eval report know the score as 'judge' (of the judge asked last), and as 'judge:NAME'.

    \b
    hoptree eval judge runs/oner runs/taikc --model openai/NAME
    hoptree eval compare runs/oner runs/taikc --metric judge
    """
    from hoptree.evaluation.report.measures import find_runs

    work = _judge_all(find_runs(runs), model, base_url, concurrency, cached=not no_cache, quiet=as_json)
    summaries = run_to_end(work, stays=what_stays("verdicts", cached=not no_cache))
    if as_json:
        print_json({"runs": summaries})
    else:
        for summary in summaries:
            _report(summary)


async def _judge_all(
    folders: list[Path], spec: str, base_url: str, concurrency: int | None, *, cached: bool, quiet: bool
) -> list[dict[str, Any]]:
    from hoptree.evaluation.judge_run import judge_run
    from hoptree.models import open_model

    model = open_model(spec, base_url=base_url)
    summaries = []
    try:
        for folder in folders:
            with shown(quiet) as show:
                summary = await judge_run(
                    folder,
                    model,
                    cache="default" if cached else None,
                    concurrency=concurrency,
                    on_progress=lambda now, show=show: show(now.done, now.total, lambda: describe_judge(now)),  # type: ignore[misc]
                )
            summaries.append(summary)
    finally:
        await model.aclose()
    return summaries


def _report(summary: dict[str, Any]) -> None:
    figures = summary["judge"]
    judged, asked = figures["questions"], figures["asked"]
    echo(f"{summary['name']}: {judged:,} answers judged by {figures['model']}, in {summary['folder']}")
    if judged < summary["questions"]:
        echo(f"  the run is not finished: {summary['questions'] - judged:,} questions have no answer yet")
    echo(f"  accuracy  {percent(figures['accuracy'], ' %')}: {asked:,} asked about, {judged - asked:,} blank or failed")
    echo(f"  unparsed  {percent(figures['unparsed_rate'], ' %')} of the replies were neither Yes nor No: they are a No")
    echo(
        f"  with EM   {percent(figures['agreement_with_em'], ' %')} of {figures['clear']:,} clear verdicts the same; "
        f"{figures['judge_only']:,} only the judge finds right, {figures['em_only']:,} only exact match"
    )
    if figures["errors"]:
        echo(f"  {figures['errors']:,} calls failed: they are a No; the same command asks them again")
    for other, both in summary["agreement"].items():
        kappa = "n/a" if both["kappa"] is None else f"{both['kappa']:.2f}"
        rate = percent(both["rate"], " %")
        echo(f"  with {other}: {rate} the same verdicts, kappa {kappa} ({both['questions']:,} answers)")
