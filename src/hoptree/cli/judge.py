"""`hoptree eval judge`, `reproduce` and `boundary`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from hoptree.cli import options
from hoptree.cli.console import chance, echo, interval, percent, print_json, print_table, what_stays
from hoptree.cli.console import run as run_to_end
from hoptree.cli.progress import describe_judge, describe_run, run_bars, shown
from hoptree.core.errors import InputError

if TYPE_CHECKING:
    from hoptree.evaluation.reproduce import Elsewhere, Reproduction


def judge(
    runs: options.RunFolders,
    model: options.OtherModel,
    base_url: options.BaseURL = "",
    concurrency: options.Concurrency = None,
    no_cache: options.NoCache = False,
    as_json: options.AsJson = False,
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
    from hoptree.evaluation.running import judge_run
    from hoptree.models import open_model

    async def judge_one(folder: Path) -> dict[str, Any]:
        with shown(quiet) as show:
            return await judge_run(
                folder,
                model,
                cache="default" if cached else None,
                concurrency=concurrency,
                on_progress=lambda now: show(now.done, now.total, lambda: describe_judge(now)),
            )

    async with aclosing(open_model(spec, base_url=base_url)) as model:
        return [await judge_one(folder) for folder in folders]


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


_MAX_LISTED = 5


def reproduce(
    run: Annotated[Path, Argument(help="The folder of a run.")],
    out: Annotated[Path | None, Option(help="The folder of the new run.  [default: RUN-again]")] = None,
    model: Annotated[str, Option("--model", "-m", help="If the model has another name now.")] = "",
    base_url: Annotated[str, Option(help="If the endpoint moved.")] = "",
    data: Annotated[Path | None, Option(help="If the file of questions is somewhere else now.")] = None,
    corpus: Annotated[str, Option(help="If the index is somewhere else now.")] = "",
    tolerance: Annotated[
        float | None,
        Option(
            min=0, max=1, metavar="SHARE", help="Share of answers that may differ.  [default: 0.05; 1 at an endpoint]"
        ),
    ] = None,
    as_json: options.AsJson = False,
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
        _reproduce_report(outcome)
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


def _reproduce_report(outcome: Reproduction) -> None:
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


_MAX_FLIPS = 5
_MAX_CHARS = 70
_COLUMNS = {
    "questions": "Asked",
    "refused": "Refused",
    "refused_share": "Share",
    "direct_f1": "Direct F1",
    "confident_f1": "Confident F1",
    "kept_f1": "Kept F1",
    "knowledge_gap_f1": "Refused F1",
    "gap_f1": "Gap",
    "consistency_f1": "Consistency",
    "precision": "Right if sure",
}
_JUDGED = {
    "direct_judged": "Direct judged",
    "confident_judged": "Confident judged",
    "knowledge_gap_judged": "Refused judged",
    "consistency_judged": "Same, judged",
}


def boundary(
    out: Annotated[Path, Option(help="The folder of the measurement; the same command goes on with it.")],
    experiment: Annotated[Path | None, Argument(help="A file of measurements (YAML), with method: boundary.")] = None,
    data: Annotated[
        list[Path],
        Option(help="Questions with answers, best of one hop; several times. Of an experiment file: its data folder."),
    ] = [],  # noqa: B006 - typer copies it
    model: options.Model = "",
    limit: Annotated[int | None, Option(min=1, help="Only the first N of each file.")] = None,
    seed: options.Seed = None,
    judge: options.Judge = "",
    judge_base_url: options.JudgeBaseURL = "",
    base_url: options.BaseURL = "",
    concurrency: options.Concurrency = None,
    retry_failed: options.RetryFailed = False,
    anyway: options.Anyway = False,
    no_cache: options.NoCache = False,
    as_json: options.AsJson = False,
) -> None:
    """Measure whether a model knows what it knows, which TAIKC's default rests on.

    Each question is asked twice: for an answer, and for an answer or RAG_REQUIRED. A boundary is usable if half of what
    the model was sure of is right, and 15 points of F1 lie between that and its direct answers to what it refused, both
    by more than chance (95 %) over 10 questions each. A failed question leaves no verdict until --retry-failed.

    \b
    hoptree eval boundary --data nq/dev.jsonl --data popqa/dev.jsonl --limit 100 --seed 1 -m openai/NAME --out runs/NAME
    hoptree eval boundary experiments/taikc/table4.yaml --data DATA -m openai/NAME --judge openai/JUDGE --out runs/NAME
    hoptree eval report runs --html boundary.html
    """
    from hoptree.evaluation.boundary import measure_all, planned_for
    from hoptree.evaluation.experiment import BoundaryExperiment
    from hoptree.evaluation.plan import read_plan
    from hoptree.evaluation.running import RunOptions

    settings = options.given(
        model=model, base_url=base_url, limit=limit, seed=seed, judge=judge, judge_base_url=judge_base_url
    )
    if experiment is not None:
        if len(data) > 1:
            raise InputError("An experiment file takes one folder of data.", "Give --data FOLDER once.")
        planned = read_plan(experiment, data[0] if data else experiment.parent, settings)
    elif data:
        planned = planned_for(data, BoundaryExperiment(data[0], **settings))
    else:
        raise InputError("There are no questions.", "Give --data QUESTIONS.jsonl, or an experiment file.")
    ways = RunOptions(
        anyway=anyway, retry_failed=retry_failed, cache=None if no_cache else "default", concurrency=concurrency
    )
    with run_bars(as_json) as show:
        work = measure_all(planned, out, ways, on_progress=show)
        models = run_to_end(work, stays=what_stays("questions", cached=not no_cache))
    if as_json:
        print_json({"folder": str(out), "models": models})
    else:
        for measured in models:
            _boundary_report(measured)


def _boundary_report(measured: Mapping[str, Any]) -> None:
    echo(str(measured["model"]))
    rows = {**measured["sets"], **({"all": measured["all"], "mean": measured["mean"]} if measured["all"] else {})}
    for columns in (_COLUMNS, _JUDGED):
        if any(row.get(name) is not None for row in rows.values() for name in columns):
            cells = [[name, *(_cell(column, row.get(column)) for column in columns)] for name, row in rows.items()]
            print_table(["", *columns.values()], cells, left=("",))
    overall = measured["all"] or next(iter(measured["sets"].values()))
    echo(
        f"  sure and wrong: {overall['overconfident']:,}; refused and right: {overall['underconfident']:,}; "
        f"failed, and so wrong if asked directly: {overall['failed']:,}"
    )
    if probability := overall["probability"]:
        echo(f"  expected calibration error of the least token probability: {probability['ece']:.3f}")
    for flip in overall["flips"][:_MAX_FLIPS]:
        echo(f"  {_cut(flip['question'])}  {_answer(flip, 'direct')} -> {_answer(flip, 'confident')}")
    if (left := len(overall["flips"]) - _MAX_FLIPS) > 0:
        echo(f"  … and {left:,} more answers that changed (--json lists them)")
    for warning in dict.fromkeys(warning for figures in measured["sets"].values() for warning in figures["warnings"]):
        echo(f"  {warning}")
    echo(f"  {overall['verdict']}")


def _cell(name: str, value: float | None) -> str:
    return f"{value:,}" if value is not None and name in ("questions", "refused") else percent(value)


def _answer(flip: Mapping[str, Any], setting: str) -> str:
    return f"{_cut(flip[setting]) or '(nothing)'}{' (right)' if flip[f'{setting}_correct'] else ''}"


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_CHARS else f"{text[: _MAX_CHARS - 1]}…"
