"""`hoptree eval annotate` and `eval ratings`: was each module of RA-ISF right, by people and by a model?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from hoptree.cli.console import echo, percent, print_json, print_report, what_stays
from hoptree.cli.console import run as run_to_end
from hoptree.cli.options import AsJson, BaseURL, Concurrency, NoCache, OtherModel, RunFolders
from hoptree.cli.progress import shown

if TYPE_CHECKING:
    from hoptree.evaluation.annotation import Module, Sheet
    from hoptree.evaluation.ratings import ModelRatings


_TITLES: dict[Module, str] = {"know": "self-knowledge", "relevance": "relevance", "decompose": "decomposition"}
_WIDTH = 22
_MODEL = "the model"  # in tables, where names such as hf/FOLDER/FILE.gguf would leave no room


def annotate(
    runs: RunFolders,
    out: Annotated[Path, Option(help="The sheet to write (CSV); a copy of it for each annotator.")],
    sample: Annotated[
        int, Option(min=1, help="Decisions of each module from each run, each of another question.")
    ] = 40,
    seed: Annotated[int, Option(help="Draws them.")] = 1,
    everything: Annotated[bool, Option("--all", help="Every decision, not a sample.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a sheet of what RA-ISF's modules decided, for people to rate: yes if it was right, no if it was not.

    A row is a judgement of self-knowledge, a judgement of one passage, or one question with its sub-questions. The
    column 'criterion' says when it is right, 'rating' takes yes or no (empty: cannot tell), 'note' anything. Any
    spreadsheet opens it: text is never taken for a formula. Give each annotator a copy; rows may be sorted.

    \b
    hoptree eval annotate runs/ra-isf-table5 --sample 40 --seed 1 --out sheet.csv
    cp sheet.csv first.csv; cp sheet.csv second.csv       (… they fill in 'rating')
    hoptree eval ratings first.csv second.csv --model openai/NAME
    """
    from hoptree.evaluation.annotation import draw_of_runs, write_sheet
    from hoptree.evaluation.report.measures import find_runs

    samples = draw_of_runs(find_runs(runs), None if everything else sample, seed)
    chosen = [
        decision for module in _TITLES for drawn in samples for decision in drawn.decisions if decision.module == module
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
        parts = (f"{drawn.drawn[name]:,} of {drawn.of[name]:,} {title}" for name, title in _TITLES.items())
        echo(f"  {drawn.data:{_WIDTH}}{', '.join(parts)}")


def ratings(
    sheets: Annotated[list[Path], Argument(help="Sheets by hoptree eval annotate, one of each annotator.")],
    model: OtherModel = "",
    base_url: BaseURL = "",
    concurrency: Concurrency = None,
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Read sheets that people filled in: how often each module was right, and how far the raters agree.

    A cell that cannot be right is named by row and column. With --model, a model rates the same decisions without
    seeing what was decided; only the replies Yes and No are ratings, others are counted. It needs no filled sheet.

    \b
    hoptree eval ratings first.csv second.csv
    hoptree eval ratings first.csv second.csv --model openai/NAME --json
    """
    from hoptree.evaluation.annotation import read_sheets
    from hoptree.evaluation.ratings import sum_up

    read = read_sheets(sheets)
    by_model = None
    if model:
        work = _rate(read, model, base_url, concurrency, cached=not no_cache, quiet=as_json)
        by_model = run_to_end(work, stays=what_stays(cached=not no_cache))
    summary = sum_up(read, by_model)
    print_report(summary, _report, as_json=as_json)


async def _rate(
    sheets: Sequence[Sheet], spec: str, base_url: str, concurrency: int | None, *, cached: bool, quiet: bool
) -> ModelRatings:
    from hoptree.evaluation.ratings import rate_decisions
    from hoptree.models import open_model

    decisions = list({key: decision for sheet in sheets for key, decision in sheet.decisions.items()}.values())
    async with aclosing(open_model(spec, base_url=base_url)) as model:
        with shown(quiet) as show:
            return await rate_decisions(
                decisions,
                model,
                cache="default" if cached else None,
                concurrency=concurrency,
                on_progress=lambda done, total: show(done, total, lambda: "decisions rated"),
            )


def _report(summary: Mapping[str, Any]) -> None:
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
        agreement = {_title(part): agreed for part, agreed in summary["agreement"].items()}
        alphas = ", ".join(f"{title} {_figure(agreed['alpha'])}" for title, agreed in agreement.items())
        counts = ", ".join(f"{agreed['decisions']:,} {title}" for title, agreed in agreement.items())
        echo(f"  people agree, by Krippendorff's alpha: {alphas}")
        echo(f"    over what two or more of them rated: {counts}")
    if model:
        _report_model(model)


def _report_model(model: Mapping[str, Any]) -> None:
    parts = [
        f"{_title(part)} {percent(agreed['rate'], ' %')}, kappa {_figure(agreed['kappa'])} ({agreed['questions']:,})"
        for part, agreed in model["with_people"].items()
        if agreed["questions"]
    ]
    if parts:
        echo(f"  {_MODEL} says what most people say: {'; '.join(parts)}")
    rate = percent(model["unparsed_rate"], " %")
    echo(f"  {_MODEL} is {model['model']}, asked {model['asked']:,} times")
    echo(f"  {model['unparsed']:,} of its replies ({rate}) were neither Yes nor No, and are no ratings")
    if model["errors"]:
        echo(f"  {model['errors']:,} calls failed, and are no ratings: the same command asks them again")


def _report_means(name: str, means: Mapping[str, Mapping[str, Any]]) -> None:
    """Print a row for all data sets, and one for each where there are several."""
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


def _title(part: str) -> str:
    return next((title for module, title in _TITLES.items() if module == part), part)


def _figure(value: float | None) -> str:
    return "n/a" if value is None else f"{value:z.2f}"  # z: no -0.00
