"""`hoptree eval boundary`: does a model know what it knows?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hoptree.cli.console import clean, print_json, what_stays
from hoptree.cli.console import run as run_to_end
from hoptree.cli.options import AsJson, BaseURL, Concurrency, Model, NoCache
from hoptree.core.errors import InputError

if TYPE_CHECKING:
    from hoptree.evaluation.plan import Planned
    from hoptree.evaluation.running import Progress


_FLIPS = 5
_LETTERS = 70
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
    out: Annotated[Path, typer.Option(help="The folder of the measurement; the same command goes on with it.")],
    experiment: Annotated[
        Path | None, typer.Argument(help="A file of measurements (YAML), with method: boundary.", show_default=False)
    ] = None,
    data: Annotated[
        list[Path],
        typer.Option(
            help="Questions with answers, best of one hop; several times for several files. With an experiment file: "
            "the folder its paths are relative to.",
            show_default=False,
        ),
    ] = [],  # noqa: B006 - typer copies it
    model: Model = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N of each file.", show_default=False)] = None,
    seed: Annotated[
        int | None, typer.Option(help="With --limit: N questions drawn by this number.", show_default=False)
    ] = None,
    judge: Annotated[
        str, typer.Option(metavar="MODEL", help="A model that judges the answers, too.", show_default=False)
    ] = "",
    judge_base_url: Annotated[
        str, typer.Option(help="Of the judge's endpoint, if it is another.", show_default=False)
    ] = "",
    base_url: BaseURL = "",
    concurrency: Concurrency = None,
    retry_failed: Annotated[bool, typer.Option(help="Ask questions that failed again.")] = False,
    anyway: Annotated[bool, typer.Option(help="Go on although data, prompts or model changed.")] = False,
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Measure whether a model knows what it knows, which TAIKC's default rests on.

    Each question is asked twice: for an answer, and for an answer or RAG_REQUIRED. A boundary is usable if at least
    half of what the model was sure of is right, and at least 15 points of F1 lie between that and its direct answers to
    what it refused, both by more than chance (95 %) and over 10 or more questions it was sure of and 10 it refused. A
    question that fails is wrong if asked directly, and neither sure nor refused: there is no verdict before it is asked
    again (--retry-failed). hoptree eval report draws the folders of several models together.

    \b
    hoptree eval boundary --data nq/dev.jsonl --data popqa/dev.jsonl --limit 100 --seed 1 -m openai/NAME --out runs/NAME
    hoptree eval boundary experiments/taikc/table4.yaml --data DATA -m openai/NAME --judge openai/JUDGE --out runs/NAME
    hoptree eval report runs --html boundary.html
    """
    from hoptree.evaluation.boundary import BoundaryExperiment
    from hoptree.evaluation.boundary_run import measure_all, planned_for
    from hoptree.evaluation.plan import read_plan
    from hoptree.evaluation.running import Ways

    given: dict[str, Any] = {
        **({"model": model} if model else {}),
        **({"base_url": base_url} if base_url else {}),
        **({"limit": limit} if limit is not None else {}),
        **({"seed": seed} if seed is not None else {}),
        **({"judge": judge} if judge else {}),
        **({"judge_base_url": judge_base_url} if judge_base_url else {}),
    }
    if experiment is not None:
        if len(data) > 1:
            raise InputError("An experiment file takes one folder of data.", "Give --data FOLDER once.")
        planned = read_plan(experiment, data[0] if data else experiment.parent, given)
    elif data:
        planned = planned_for(data, BoundaryExperiment(data[0], **given))
    else:
        raise InputError("There are no questions.", "Give --data QUESTIONS.jsonl, or an experiment file.")
    ways = Ways(
        anyway=anyway, retry_failed=retry_failed, cache=None if no_cache else "default", concurrency=concurrency
    )
    with _shown(as_json) as show:
        work = measure_all(planned, out, ways, on_progress=show)
        found = run_to_end(work, stays=what_stays("questions", cached=not no_cache))
    if as_json:
        print_json({"folder": str(out), "models": found})
    else:
        for one in found:
            _report(one)


@contextmanager
def _shown(quiet: bool) -> Iterator[Callable[[Planned, Progress], None]]:
    """How far the runs are, on the terminal only."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (BarColumn(20), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
    tasks: dict[Path, TaskID] = {}
    with Bar(*columns, TimeRemainingColumn(), console=console, disable=quiet or not console.is_terminal) as bar:

        def show(one: Planned, progress: Progress) -> None:
            if one.folder not in tasks:
                tasks[one.folder] = bar.add_task(clean(one.experiment.name))
            bar.update(tasks[one.folder], completed=len(progress.rows), total=progress.total)

        yield show


def _report(found: Mapping[str, Any]) -> None:
    typer.echo(clean(str(found["model"])))
    rows = {**found["sets"], **({"all": found["all"], "mean": found["mean"]} if found["all"] else {})}
    for columns in (_COLUMNS, _JUDGED):
        if any(row.get(name) is not None for row in rows.values() for name in columns):
            _table(rows, columns)
    whole = found["all"] or next(iter(found["sets"].values()))
    typer.echo(
        f"  sure and wrong: {whole['overconfident']:,}; refused and right: {whole['underconfident']:,}; "
        f"failed, and so wrong if asked directly: {whole['failed']:,}"
    )
    if by := whole["probability"]:
        typer.echo(f"  expected calibration error of the least token probability: {by['ece']:.3f}")
    for flip in whole["flips"][:_FLIPS]:
        typer.echo(clean(f"  {_cut(flip['question'])}  {_right(flip, 'direct')} -> {_right(flip, 'confident')}"))
    if len(whole["flips"]) > _FLIPS:
        typer.echo(f"  … and {len(whole['flips']) - _FLIPS:,} more answers that changed (--json lists them)")
    for warning in dict.fromkeys(warning for one in found["sets"].values() for warning in one["warnings"]):
        typer.echo(clean(f"  {warning}"))
    typer.echo(f"  {whole['verdict']}")


def _table(rows: Mapping[str, Mapping[str, Any]], columns: Mapping[str, str]) -> None:
    width = max(10, *(len(clean(name)) for name in rows))
    typer.echo("  ".join([" " * (width + 2), *columns.values()]))
    for name, row in rows.items():
        cells = [_cell(column, row.get(column)).rjust(len(title)) for column, title in columns.items()]
        typer.echo("  ".join([f"  {clean(name):{width}}", *cells]))


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "n/a"
    return f"{value:,}" if name in ("questions", "refused") else f"{100 * value:.1f}"


def _right(flip: Mapping[str, Any], setting: str) -> str:
    return f"{_cut(flip[setting]) or '(nothing)'}{' (right)' if flip[f'{setting}_correct'] else ''}"


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"
