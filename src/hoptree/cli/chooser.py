"""`hoptree methods chooser`: the weights by which `hop` rates answers, fitted to runs and frozen in a file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hoptree.cli.console import echo, print_json
from hoptree.cli.options import AsJson
from hoptree.core.errors import InputError

if TYPE_CHECKING:
    from hoptree.evaluation.fit_chooser import Fitted, Replayed
    from hoptree.methods.hop.chooser import Chooser


app = typer.Typer(
    no_args_is_help=True,
    help="""The weights by which hop rates answers, fitted to runs and frozen in a file.

    \b
    hoptree run --method hop --set sure=1 --set worth=0 --data train.jsonl --corpus docs.idx --out runs/all-moves
    hoptree methods chooser fit runs/all-moves --out my-chooser.json
    hoptree ask "…" --method hop --set chooser=my-chooser.json --corpus docs.idx
    hoptree methods chooser replay runs/dev-all-moves              what it would come to there, and without each move
    hoptree methods chooser show                                   the one that comes with Hoptree""",
)


@app.command()
def fit(
    runs: Annotated[list[Path], typer.Argument(help="Runs of hop that made every move (sure=1, worth=0).")],
    out: Annotated[Path, typer.Option(help="The file to write.")],
    calls: Annotated[float, typer.Option(min=1.0, help="Calls a question that the policy may take on average.")] = 4.0,
    penalty: Annotated[float, typer.Option(min=0.0, help="What weights cost: more for fewer questions.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Fit the weights to what was right in these runs, and say how well they choose where they were not fitted.

    The questions must be others than those that are measured later. Each fifth of them is rated by weights that were
    fitted to the other four. When to go on is chosen by replaying the runs: the best F1 for so many calls.
    """
    from hoptree.evaluation.fit_chooser import courses_in, courses_of, fit_chooser
    from hoptree.evaluation.run_folder import RESULTS, read_run, write_json

    courses = courses_in(runs)
    made_from: dict[str, Any] = {"runs": [], "penalty": penalty, "calls": calls}
    for run in runs:
        header = read_run(run)
        made_from["runs"].append(
            {
                "name": header["name"],
                "id": header["id"],
                "model": header["rests_on"].get("model"),
                "questions": len(courses_of(run)),
                "results": hashlib.sha256((run / RESULTS).read_bytes()).hexdigest()[:12],
            }
        )
    fitted = fit_chooser(courses, calls=calls, penalty=penalty, made_from=made_from)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json(out, fitted.chooser.as_dict())
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror or error}.", "Give another --out.") from error
    if as_json:
        print_json(fitted.as_dict())
        return
    _report(fitted)
    echo(f"written to {out}; use it with --set chooser={out}")


@app.command()
def replay(
    runs: Annotated[list[Path], typer.Argument(help="Runs of hop that made every move (sure=1, worth=0).")],
    chooser: Annotated[
        Path | None, typer.Option(help="A file of chooser fit; else the packaged one.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Replay runs by the policy of a chooser, and with one move taken out at a time.

    Nothing is asked: the answers are those of the runs. Without a move, the others go on by the same policy.
    """
    from hoptree.evaluation.fit_chooser import courses_in, replayed

    weights = _open(chooser)
    courses = courses_in(runs)
    moves = dict.fromkeys(moment.move for course in courses for moment in course.moments[1:])
    rows = {"hop": replayed(courses, weights)}
    rows |= {f"without {move}": replayed(courses, weights, without=[move]) for move in moves}
    rows["the first move alone"] = replayed(courses, weights, without=list(moves))
    if as_json:
        print_json({name: {"f1": row.f1, "calls": row.calls, "tokens": row.tokens} for name, row in rows.items()})
        return
    echo(f"{len(courses):,} questions{'':16s}F1  calls  tokens  F1 for 1,000 tokens")
    for name, row in rows.items():
        per_thousand = 100_000 * row.f1 / row.tokens if row.tokens else 0.0
        echo(f"  {name:26s} {100 * row.f1:5.1f} {row.calls:6.2f} {row.tokens:7,.0f} {per_thousand:8.1f}")


@app.command()
def show(
    file: Annotated[Path | None, typer.Argument(help="A file of chooser fit.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Show the weights of a chooser in words, what each move is worth to it, and what it was fitted to."""
    chooser = _open(file)
    if as_json:
        print_json(chooser.as_dict())
    else:
        _report_weights(chooser)


def _open(file: Path | None) -> Chooser:
    from hoptree.methods.hop.chooser import frozen_chooser, read_chooser

    if file is None:
        return frozen_chooser()
    try:
        return read_chooser(file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}.", "Give a file of hoptree methods chooser fit.") from error


def _report(fitted: Fitted) -> None:
    captured = "no gap" if fitted.captured is None else f"{fitted.captured:.0%} of the gap"
    error = fitted.calibration.ece
    echo(f"{fitted.questions:,} questions, {fitted.examples:,} answers")
    echo(
        f"F1 {100 * fitted.first:.1f} after the first reading, {100 * fitted.chosen:.1f} by choice, "
        f"{100 * fitted.oracle:.1f} by an oracle: {captured}"
    )
    echo(f"calibration error {error:.3f}" if error is not None else "no calibration error")
    echo("when to go on    F1  calls  tokens")
    for tried in (fitted.policies[0], *_frontier(fitted.policies)):
        policy = f"sure {tried.policy.sure:g}, worth {tried.policy.worth:g}"
        echo(f"  {policy:24s} {100 * tried.f1:5.1f} {tried.calls:5.2f} {tried.tokens:7,.0f}")
    _report_weights(fitted.chooser)


def _frontier(tried: Sequence[Replayed]) -> list[Replayed]:
    """Return the policies that none beats in both F1 and tokens, the cheapest first."""
    frontier: list[Replayed] = []
    for policy in sorted(tried, key=lambda policy: (policy.tokens, -policy.f1)):
        if not frontier or policy.f1 > frontier[-1].f1:
            frontier.append(policy)
    return frontier


def _report_weights(chooser: Chooser) -> None:
    from hoptree.methods.hop.chooser import in_words

    for name, weight in sorted(chooser.weights.items(), key=lambda item: -abs(item[1])):
        # + 0.0: a weight of less than half a thousandth is none, of whichever sign.
        echo(f"  {round(weight, 3) + 0.0:+7.3f}  {name}: {in_words(name, True)}")
    echo(f"  {chooser.bias:+7.3f}  to begin with")
    for move, outlook in sorted(chooser.outlooks.items()):
        echo(f"  {move}: settles {outlook.settles:.1%} of the doubt for {outlook.tokens:,.0f} tokens")
    echo(f"when to go on: under {chooser.policy.sure:g}, for {chooser.policy.worth:g} or more a thousand tokens")
    _report_origin(chooser.made_from)


def _report_origin(made_from: Mapping[str, Any]) -> None:
    """Print where the weights come from, run by run; a file written by hand may say something else, or nothing."""
    runs = [run for run in made_from.get("runs") or () if isinstance(run, dict)]
    rest = {name: value for name, value in made_from.items() if name != "runs" or not runs}
    if made_from:
        echo("made from:")
    for run in runs:
        echo(f"  {run.get('questions', '?')} questions of {run.get('name', 'a run')} (run {run.get('id', '?')})")
        echo(f"    model {run.get('model') or 'unknown'}")
    if rest:
        echo("  " + ", ".join(f"{name} {value}" for name, value in rest.items()))
