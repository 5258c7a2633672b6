"""`hoptree eval judge`, `boundary`, `annotate` and `ratings`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from hoptree.cli import options
from hoptree.cli.console import echo, percent, print_json, print_report, print_table, run_to_end
from hoptree.cli.progress import progress_bar, run_bars, show_judge
from hoptree.core.errors import InputError
from hoptree.evaluation.annotation import MODULES, draw_of_runs, read_sheets, write_sheet
from hoptree.evaluation.boundary import measure_all, planned_for
from hoptree.evaluation.experiment import BoundaryExperiment
from hoptree.evaluation.plan import read_plan
from hoptree.evaluation.ratings import ModelRatings, rate_decisions, sum_up
from hoptree.evaluation.report.measures import find_runs
from hoptree.evaluation.running import RunOptions, judge_run
from hoptree.models import open_model


def judge(
    runs: options.RunFolders,
    model: options.OtherModel,
    base_url: options.BaseURL = "",
    concurrency: options.Concurrency = None,
    no_cache: options.NoCache = False,
    as_json: options.AsJson = False,
) -> None:
    """Have a model judge the answers of runs: does each imply an accepted answer?

    Verdicts are kept in the run's folder; the same command resumes, and judged answers cost nothing. Failed questions
    and blank answers are wrong without a call, and so is an answer whose verdict cannot be parsed. hoptree eval compare
    and eval report know the score as 'judge' (of the latest judge), and as 'judge:NAME'.

    \b
    hoptree eval judge runs/oner runs/taikc --model openai/NAME
    hoptree eval compare runs/oner runs/taikc --metric judge
    """

    async def judge_all() -> list[dict[str, Any]]:
        folders, cache, judged = find_runs(runs), None if no_cache else "default", []
        async with aclosing(open_model(model, base_url=base_url)) as judge:
            for folder in folders:
                with progress_bar(as_json) as update_bar:
                    progress = partial(show_judge, update_bar)
                    work = judge_run(folder, judge, cache=cache, concurrency=concurrency, on_progress=progress)
                    judged.append(await work)
        return judged

    summaries = run_to_end(judge_all(), "verdicts", cached=not no_cache)
    if as_json:
        print_json({"runs": summaries})
    else:
        for summary in summaries:
            _report(summary)


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
    for other, agreed in summary["agreement"].items():
        rate, kappa = percent(agreed["rate"], " %"), _two_digits(agreed["kappa"])
        echo(f"  with {other}: {rate} the same verdicts, kappa {kappa} ({agreed['questions']:,} answers)")


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
    ] = [],
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
    """Measure whether a model knows what it knows, on which TAIKC's default relies.

    Each question is asked twice: for an answer, and for an answer or RAG_REQUIRED. A boundary is usable if half of the
    confident answers are right, and their F1 is 15 points above that of direct answers to the refused questions, both
    significantly (95 %) over 10 questions each. A failed question prevents a verdict until --retry-failed.

    \b
    hoptree eval boundary --data nq/dev.jsonl --data popqa/dev.jsonl --limit 100 --seed 1 -m openai/NAME --out runs/NAME
    hoptree eval boundary experiments/taikc/table4.yaml --data DATA -m openai/NAME --judge openai/JUDGE --out runs/NAME
    hoptree eval report runs --html boundary.html
    """
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
    run_options = RunOptions(
        anyway=anyway, retry_failed=retry_failed, cache=None if no_cache else "default", concurrency=concurrency
    )
    with run_bars(as_json) as show:
        work = measure_all(planned, out, run_options, on_progress=show)
        models = run_to_end(work, "questions", cached=not no_cache)
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


_TITLES: dict[str, str] = {"know": "self-knowledge", "relevance": "relevance", "decompose": "decomposition"}
_WIDTH = 22
_MODEL = "the model"  # in tables: names such as hf/FOLDER/FILE.gguf are too long


def annotate(
    runs: options.RunFolders,
    out: Annotated[Path, Option(help="The sheet to write (CSV); a copy of it for each annotator.")],
    sample: Annotated[
        int, Option(min=1, help="Decisions of each module from each run, each of another question.")
    ] = 40,
    seed: Annotated[int, Option(help="Draws them.")] = 1,
    as_json: options.AsJson = False,
) -> None:
    """Write a sheet of the decisions of RA-ISF's modules, for people to rate.

    A row is a judgement of self-knowledge, a judgement of one passage, or one question with its sub-questions. The
    column 'criterion' says when it is right, 'rating' takes yes or no (empty: cannot tell), 'note' anything. Any
    spreadsheet opens it: no text is taken for a formula. Give each annotator a copy; rows may be sorted.

    \b
    hoptree eval annotate runs/ra-isf-table5 --sample 40 --seed 1 --out sheet.csv
    cp sheet.csv first.csv; cp sheet.csv second.csv       (… they fill in 'rating')
    hoptree eval ratings first.csv second.csv --model openai/NAME
    """
    samples = draw_of_runs(find_runs(runs), sample, seed)
    chosen = [
        decision for module in MODULES for drawn in samples for decision in drawn.decisions if decision.module == module
    ]
    write_sheet(out, chosen)
    if as_json:
        drawn_by_run = {
            drawn.data: {"folder": str(drawn.folder), "decisions": drawn.drawn, "of": drawn.of} for drawn in samples
        }
        print_json({"out": str(out), "rows": len(chosen), "runs": drawn_by_run})
        return
    echo(f"{len(chosen):,} decisions to rate, in {out}")
    for drawn in samples:
        parts = (f"{drawn.drawn[name]:,} of {drawn.of[name]:,} {_TITLES[name]}" for name in MODULES)
        echo(f"  {drawn.data:{_WIDTH}}{', '.join(parts)}")


def ratings(
    sheets: Annotated[list[Path], Argument(help="Sheets by hoptree eval annotate, one of each annotator.")],
    model: options.OtherModel = "",
    base_url: options.BaseURL = "",
    concurrency: options.Concurrency = None,
    no_cache: options.NoCache = False,
    as_json: options.AsJson = False,
) -> None:
    """Sum up rated sheets: how often modules were right, and how far raters agree.

    Invalid cells are named by row and column. With --model, a model rates the same decisions without seeing what was
    decided; only the replies Yes and No are ratings, others are counted. It needs no rated sheet.

    \b
    hoptree eval ratings first.csv second.csv
    hoptree eval ratings first.csv second.csv --model openai/NAME --json
    """
    read = read_sheets(sheets)
    decisions = {key: decision for sheet in read for key, decision in sheet.decisions.items()}

    async def rate() -> ModelRatings:
        async with aclosing(open_model(model, base_url=base_url)) as rater:
            with progress_bar(as_json) as update_bar:
                return await rate_decisions(
                    list(decisions.values()),
                    rater,
                    cache=None if no_cache else "default",
                    concurrency=concurrency,
                    on_progress=lambda done, total: update_bar(done, total, lambda: "decisions rated"),
                )

    by_model = run_to_end(rate(), cached=not no_cache) if model else None
    print_report(sum_up(read, by_model), _ratings_report, as_json=as_json)


def _ratings_report(summary: Mapping[str, Any]) -> None:
    people, model = summary["annotators"], summary.get("model")
    echo(f"{summary['decisions']:,} decisions; right by their ratings, in per cent (how many were rated):")
    echo(" " * (_WIDTH + 2) + "".join(f"{title:{_WIDTH}}" for title in _TITLES.values()).rstrip())
    if any(person["rated"] for person in people):
        _report_means("people" if len(people) > 1 else people[0]["name"], summary["people"])
        for person in people if len(people) > 1 else ():
            _report_row(f"  {person['name']}", {name: mean["all"] for name, mean in person["means"].items()})
    else:
        echo("  no person has rated anything yet")
    if model:
        _report_means(_MODEL, model["means"])
    for person in people:
        if person["blank"] and person["rated"]:
            echo(f"  {person['name']} left {person['blank']:,} of {person['decisions']:,} without a rating")
    if len(people) > 1:
        agreement = {_TITLES.get(part, part): agreed for part, agreed in summary["agreement"].items()}
        alphas = ", ".join(f"{title} {_two_digits(agreed['alpha'])}" for title, agreed in agreement.items())
        counts = ", ".join(f"{agreed['decisions']:,} {title}" for title, agreed in agreement.items())
        echo(f"  people agree, by Krippendorff's alpha: {alphas}")
        echo(f"    over what two or more of them rated: {counts}")
    if model:
        _report_model(model)


def _report_model(model: Mapping[str, Any]) -> None:
    parts = [
        f"{_TITLES.get(part, part)} {percent(agreed['rate'], ' %')}, "
        f"kappa {_two_digits(agreed['kappa'])} ({agreed['questions']:,})"
        for part, agreed in model["with_people"].items()
        if agreed["questions"]
    ]
    if parts:
        echo(f"  {_MODEL} says what most people say: {'; '.join(parts)}")
    rate = percent(model["unparsed_rate"], " %")
    echo(f"  {_MODEL} is {model['model']}, asked {model['asked']:,} times")
    echo(f"  {model['unparsed']:,} of its replies ({rate}) were neither Yes nor No, and are not ratings")
    if model["errors"]:
        echo(f"  {model['errors']:,} calls failed, and are not ratings: the same command asks them again")


def _report_means(name: str, means: Mapping[str, Mapping[str, Any]]) -> None:
    """Print a row for all data sets, and one for each of several."""
    _report_row(name, {module: mean["all"] for module, mean in means.items()})
    sets = sorted({data for mean in means.values() for data in mean["data"]})
    for data in sets if len(sets) > 1 else ():
        _report_row(f"  on {data}", {module: mean["data"].get(data) for module, mean in means.items()})


def _report_row(name: str, means: Mapping[str, Mapping[str, float] | None]) -> None:
    cells = (
        "-" if mean is None else f"{percent(mean['mean'])} ± {percent(mean['plus_minus'])} ({mean['decisions']:,})"
        for mean in means.values()
    )
    echo((f"  {name:{_WIDTH}}" + "".join(f"{cell:{_WIDTH}}" for cell in cells)).rstrip())


def _two_digits(value: float | None) -> str:
    return "n/a" if value is None else f"{value:z.2f}"  # z: no -0.00
