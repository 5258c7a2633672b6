"""`hoptree methods chooser`: the weights that hop rates answers by."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from hoptree.cli.console import echo, print_json, written
from hoptree.cli.options import AsJson
from hoptree.evaluation.fit_chooser import PENALTY, Course, Judged, fit_chooser, read_courses
from hoptree.evaluation.fit_chooser import replay as replayed
from hoptree.evaluation.run_folder import RESULTS, read_run, write_json
from hoptree.methods.hop.chooser import EFFORTS, Logistic, open_chooser

app = typer.Typer(
    no_args_is_help=True,
    help="""The weights by which hop rates answers and moves, fitted to runs and frozen in a file.

    \b
    hoptree run --method hop --set effort=high --data train.jsonl --corpus docs.idx --out runs/all-moves
    hoptree methods chooser fit runs/all-moves runs/others-all-moves --out my-chooser.json
    hoptree ask "…" --method hop --set chooser=my-chooser.json --corpus docs.idx
    hoptree methods chooser replay runs/dev-all-moves              what it would come to there, and without each move
    hoptree methods chooser show                                   the one that comes with Hoptree""",
)


@app.command()
def fit(
    runs: Annotated[list[Path], typer.Argument(help="Runs of hop that made every move (effort=high).")],
    out: Annotated[Path, typer.Option(help="The file to write.")],
    as_json: AsJson = False,
) -> None:
    """Fit the weights to runs, and evaluate them on each data set left out.

    Give runs of several data sets, and of questions that no table asks. Runs of one data set by several models are left
    out together. The effort levels are chosen by the data set on which they lose most.
    """
    courses: list[Course] = []
    made_from: dict[str, Any] = {"runs": [], "penalty": PENALTY}
    for run in runs:
        header, read = read_run(run), read_courses(run)
        courses += read
        made_from["runs"].append(
            {
                "name": header["name"],
                "id": header["id"],
                "model": header["rests_on"].get("model"),
                "questions": len(read),
                "results": hashlib.sha256((run / RESULTS).read_bytes()).hexdigest()[:12],
            }
        )
    fitted = fit_chooser(courses, made_from=made_from)
    with written(out, "Give another --out."):
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json(out, fitted.chooser.as_dict())
    if as_json:
        print_json(fitted.as_dict())
        return
    for effort, judged in fitted.left_out.items():
        _report(f"effort {effort}, each data set left out", judged)
    _report("effort medium without log-probabilities, each data set left out", fitted.without_logprobs)
    by_model: dict[str, list[Judged]] = {}
    for row in fitted.by_model:
        by_model.setdefault(row.model, []).append(row)
    for model, of_model in by_model.items() if len(by_model) > 1 else ():
        _report(f"effort medium, each data set left out, {model}", of_model)
    echo(f"written to {out}; use it with --set chooser={out}")


@app.command()
def replay(
    runs: Annotated[list[Path], typer.Argument(help="Runs of hop that made every move (effort=high).")],
    chooser: Annotated[
        Path | None, typer.Option(help="A file of chooser fit; else the packaged one.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Replay runs by a chooser at each effort, and with one move taken out at a time.

    No model is asked: the answers are those of the runs. Without a move, the others go on by the same weights.
    """
    weights = open_chooser(str(chooser or "")).with_logprobs
    courses = [course for run in runs for course in read_courses(run)]
    moves = dict.fromkeys(moment.move for course in courses for moment in course.moments[1:])
    rows = {f"effort {effort}": [replayed(course, weights, effort) for course in courses] for effort in EFFORTS}
    rows |= {f"high, no {move}": [replayed(course, weights, "high", [move]) for course in courses] for move in moves}
    rows["one reading"] = [replayed(course, weights, "high", list(moves)) for course in courses]
    means = {
        name: {what: sum(getattr(outcome, what) for outcome in each) / len(each) for what in ("f1", "calls", "tokens")}
        for name, each in rows.items()
    }
    if as_json:
        print_json(means)
        return
    echo(f"{len(courses):,} questions{'':16s}F1  calls  tokens")
    for name, row in means.items():
        echo(f"  {name:26s} {100 * row['f1']:5.1f} {row['calls']:6.2f} {row['tokens']:7,.0f}")


@app.command()
def show(
    file: Annotated[Path | None, typer.Argument(help="A file of chooser fit.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Show the weights of a chooser, its effort levels, and the runs it was fitted to."""
    chooser = open_chooser(str(file or ""))
    if as_json:
        print_json(chooser.as_dict())
        return
    for name, weights in (("with", chooser.with_logprobs), ("without", chooser.without_logprobs)):
        echo(f"models {name} log-probabilities")
        _report_weights("an answer is right", weights.right)
        for move, after in weights.after.items():
            _report_weights(f"the best answer is right after {move} ({after.tokens:,.0f} tokens)", after.right)
        levels = ", ".join(f"{effort} {least:g}" for effort, least in weights.min_gain.items())
        echo(f"  least gain for a thousand tokens: {levels}")
    _report_origin(chooser.made_from)


def _report(title: str, judged: Sequence[Judged]) -> None:
    echo(title)
    echo(f"  {'':18s} questions  one reading  every move (calls)    F1 (calls)  split  oracle  error  kept  lift")
    for row in judged:
        echo(
            f"  {row.data:18s} {row.questions:9,d} {100 * row.one_reading:12.1f} {100 * row.every_move:11.1f} "
            f"({row.every_calls:4.1f}) {100 * row.f1:7.1f} ({row.calls:4.1f}) {row.split:7.0%} {100 * row.oracle:6.1f} "
            f"{100 * row.error:6.1f} {row.kept:5.0%} {row.lift:5.2f}"
        )


def _report_weights(title: str, logistic: Logistic) -> None:
    echo(f"  that {title}: {logistic.bias:+.3f}")
    for name, weight in sorted(logistic.weights.items(), key=lambda item: -abs(item[1])):
        echo(f"    {weight:+7.3f}  {name}")


def _report_origin(made_from: Mapping[str, Any]) -> None:
    """Print where the weights come from, run by run."""
    runs = [run for run in made_from.get("runs") or () if isinstance(run, dict)]
    others = {name: value for name, value in made_from.items() if not runs or name not in ("runs", "efforts", "sets")}
    if made_from:
        echo("made from:")
    for run in runs:
        echo(f"  {run.get('questions', '?')} questions of {run.get('name', 'a run')} (run {run.get('id', '?')})")
        echo(f"    model {run.get('model') or 'unknown'}")
    if others:
        echo("  " + ", ".join(f"{name} {value}" for name, value in others.items()))
