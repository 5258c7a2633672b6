"""`hoptree eval annotate` and `hoptree eval ratings`: was each module of RA-ISF right, by people and by a model?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hoptree.cli.console import clean, print_json, what_stays
from hoptree.cli.console import run as run_to_end
from hoptree.cli.options import AsJson, BaseURL, Concurrency, NoCache
from hoptree.cli.progress import shown

if TYPE_CHECKING:
    from hoptree.evaluation.decisions import Module
    from hoptree.evaluation.ratings import ModelRatings
    from hoptree.evaluation.sheets import Sheet


_TITLES: dict[Module, str] = {"know": "self-knowledge", "relevance": "relevance", "decompose": "decomposition"}
_WIDTH = 22
_MODEL = "the model"
"""In tables, where names such as hf/FOLDER/FILE.gguf would leave no room."""


def annotate(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs of ra_isf, or folders that hold such folders.")],
    out: Annotated[Path, typer.Option(help="The sheet to write (CSV); a copy of it for each annotator.")],
    sample: Annotated[
        int, typer.Option(min=1, help="Decisions of each module from each run, each of another question.")
    ] = 40,
    seed: Annotated[int, typer.Option(help="Draws them.")] = 1,
    everything: Annotated[bool, typer.Option("--all", help="Every decision, not a sample.")] = False,
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
    from hoptree.evaluation.decisions import draw_of_runs
    from hoptree.evaluation.report.measures import find_runs
    from hoptree.evaluation.sheets import write_sheet

    found = draw_of_runs(find_runs(runs), None if everything else sample, seed)
    chosen = [one for module in _TITLES for run in found for one in run.decisions if one.module == module]
    write_sheet(out, chosen)
    if as_json:
        told = {run.data: {"folder": str(run.folder), "decisions": run.drawn, "of": run.of} for run in found}
        print_json({"out": str(out), "rows": len(chosen), "runs": told})
        return
    typer.echo(clean(f"{len(chosen):,} decisions to rate, in {out}"))
    for run in found:
        parts = (f"{run.drawn[name]:,} of {run.of[name]:,} {title}" for name, title in _TITLES.items())
        typer.echo(clean(f"  {run.data:{_WIDTH}}{', '.join(parts)}"))


def ratings(
    sheets: Annotated[list[Path], typer.Argument(help="Sheets by hoptree eval annotate, one of each annotator.")],
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            help="A model that rates the same decisions: openai/NAME, local/NAME, hf/NAME or scripted/FILE.",
            show_default=False,
        ),
    ] = "",
    base_url: BaseURL = "",
    concurrency: Concurrency = None,
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Read sheets that people filled in, and say how often each module was right, and how far the raters agree.

    A cell that cannot be right is named by row and column, and nothing is reckoned before it is mended. With --model, a
    model rates the same decisions: whether a question can be answered from memory and whether a passage helps, without
    being told what was decided, and whether sub-questions keep to their question. What it says in other words than Yes
    or No is no rating, and counted. Its replies are remembered; an empty sheet will do for it.

    \b
    hoptree eval ratings first.csv second.csv
    hoptree eval ratings first.csv second.csv --model openai/NAME --json
    """
    from hoptree.evaluation.ratings import sum_up
    from hoptree.evaluation.sheets import read_sheets

    read = read_sheets(sheets)
    by_model = None
    if model:
        work = _rated(read, model, base_url, concurrency, cache=not no_cache, quiet=as_json)
        by_model = run_to_end(work, stays=what_stays(cached=not no_cache))
    told = sum_up(read, by_model)
    if as_json:
        print_json(told)
    else:
        _report(told)


async def _rated(
    sheets: Sequence[Sheet], spec: str, base_url: str, concurrency: int | None, *, cache: bool, quiet: bool
) -> ModelRatings:
    from hoptree.evaluation.ratings import rate_decisions
    from hoptree.models import open_model

    decisions = list({key: one for sheet in sheets for key, one in sheet.decisions.items()}.values())
    model = open_model(spec, base_url=base_url)
    try:
        with shown(quiet) as show:
            return await rate_decisions(
                decisions,
                model,
                cache="default" if cache else None,
                concurrency=concurrency,
                on_progress=lambda done, total: show(done, total, lambda: "decisions rated"),
            )
    finally:
        await model.aclose()


def _report(told: Mapping[str, Any]) -> None:
    people, model = told["annotators"], told.get("model")
    typer.echo(f"{told['decisions']:,} decisions; right by their ratings, in per cent (how many were rated):")
    typer.echo(" " * (_WIDTH + 2) + "".join(f"{title:{_WIDTH}}" for title in _TITLES.values()).rstrip())
    if any(one["rated"] for one in people):
        _means("people" if len(people) > 1 else people[0]["name"], told["people"])
        if len(people) > 1:
            for one in people:
                _row(f"  {one['name']}", {name: mean["all"] for name, mean in one["means"].items()})
    else:
        typer.echo("  no person has rated anything yet")
    if model:
        _means(_MODEL, model["means"])
    for one in people:
        if one["blank"] and one["rated"]:
            typer.echo(clean(f"  {one['name']} left {one['blank']:,} of {one['decisions']:,} without a rating"))
    if len(people) > 1:
        parts = (f"{_title(part)} {_figure(one['alpha'])}" for part, one in told["agreement"].items())
        typer.echo(f"  people agree, by Krippendorff's alpha: {', '.join(parts)}")
        both = (f"{one['decisions']:,} {_title(part)}" for part, one in told["agreement"].items())
        typer.echo(f"    over what two or more of them rated: {', '.join(both)}")
    if model:
        _report_model(model)


def _report_model(model: Mapping[str, Any]) -> None:
    said = []
    for part, one in model["with_people"].items():
        if one["questions"]:
            title = _title(part)
            kappa = _figure(one["kappa"])
            said.append(f"{title} {100 * one['rate']:.1f} %, kappa {kappa} ({one['questions']:,})")
    if said:
        typer.echo(f"  {_MODEL} says what most people say: {'; '.join(said)}")
    rate = "n/a" if model["unparsed_rate"] is None else f"{100 * model['unparsed_rate']:.1f} %"
    typer.echo(clean(f"  {_MODEL} is {model['model']}, asked {model['asked']:,} times"))
    typer.echo(f"  {model['unparsed']:,} of its replies ({rate}) were neither Yes nor No, and are no ratings")
    if model["errors"]:
        typer.echo(f"  {model['errors']:,} calls failed, and are no ratings: the same command asks them again")


def _means(name: str, means: Mapping[str, Mapping[str, Any]]) -> None:
    """A row for all data sets, and one for each where there are several."""
    _row(name, {module: mean["all"] for module, mean in means.items()})
    sets = sorted({data for mean in means.values() for data in mean["data"]})
    for data in sets if len(sets) > 1 else ():
        _row(f"  on {data}", {module: mean["data"].get(data) for module, mean in means.items()})


def _row(name: str, means: Mapping[str, Mapping[str, float] | None]) -> None:
    cells = (
        "-" if one is None else f"{100 * one['mean']:.1f} ± {100 * one['plus_minus']:.1f} ({one['decisions']:,})"
        for one in means.values()
    )
    typer.echo(clean(f"  {name:{_WIDTH}}" + "".join(f"{cell:{_WIDTH}}" for cell in cells)).rstrip())


def _title(part: str) -> str:
    return next((title for module, title in _TITLES.items() if module == part), part)


def _figure(value: float | None) -> str:
    return "n/a" if value is None else f"{value:z.2f}"  # z: no -0.00
