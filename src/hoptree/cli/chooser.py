"""`hoptree methods chooser`: what `hop` believes answers by, fitted to runs and frozen in a file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
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
    help="""What hop believes answers by: a few weights, fitted to runs and frozen in a file.

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
    """Fit the weights to what was right in these runs, and tell how well they choose where they were not fitted.

    The questions must be others than those that are measured later. Each fifth of them is told by weights that were
    fitted to the other four. When to go on is chosen by replaying the runs: the best F1 for so many calls.
    """
    from hoptree.evaluation.fit_chooser import courses_in, courses_of, fit_chooser
    from hoptree.evaluation.run_folder import RESULTS, read_run, write_json

    courses = courses_in(runs)
    made_from = {
        "runs": [
            {
                "name": read_run(run)["name"],
                "id": read_run(run)["id"],
                "model": read_run(run)["rests_on"].get("model"),
                "questions": len(courses_of(run)),
                "results": hashlib.sha256((run / RESULTS).read_bytes()).hexdigest()[:12],
            }
            for run in runs
        ],
        "penalty": penalty,
        "calls": calls,
    }
    fitted = fit_chooser(courses, calls=calls, penalty=penalty, made_from=made_from)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json(out, fitted.chooser.as_dict())
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror or error}.", "Give another --out.") from error
    if as_json:
        print_json(fitted.as_dict())
        return
    _tell(fitted)
    echo(f"written to {out}; use it with --set chooser={out}")


@app.command()
def replay(
    runs: Annotated[list[Path], typer.Argument(help="Runs of hop that made every move (sure=1, worth=0).")],
    chooser: Annotated[
        Path | None, typer.Option(help="A file of chooser fit; else the packaged one.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What hop comes to on these questions by its policy, and with one move taken out at a time.

    Nothing is asked: the answers are those that the runs had. Without a move, the others go on by the same policy.
    """
    from hoptree.evaluation.fit_chooser import courses_in, replayed

    weighing = _opened(chooser)
    courses = courses_in(runs)
    moves = dict.fromkeys(moment.move for course in courses for moment in course.moments[1:])
    rows = {"hop": replayed(courses, weighing)}
    rows |= {f"without {move}": replayed(courses, weighing, without=[move]) for move in moves}
    rows["the first move alone"] = replayed(courses, weighing, without=list(moves))
    if as_json:
        print_json({name: {"f1": one.f1, "calls": one.calls, "tokens": one.tokens} for name, one in rows.items()})
        return
    echo(f"{len(courses):,} questions{'':16s}F1  calls  tokens  F1 for 1,000 tokens")
    for name, one in rows.items():
        each = 100_000 * one.f1 / one.tokens if one.tokens else 0.0
        echo(f"  {name:26s} {100 * one.f1:5.1f} {one.calls:6.2f} {one.tokens:7,.0f} {each:8.1f}")


@app.command()
def show(
    file: Annotated[Path | None, typer.Argument(help="A file of chooser fit.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Show the weights of a chooser in words, what each move is worth to it, and what it was fitted to."""
    chooser = _opened(file)
    if as_json:
        print_json(chooser.as_dict())
    else:
        _weights(chooser)


def _opened(file: Path | None) -> Chooser:
    from hoptree.methods.hop.chooser import frozen_chooser, read_chooser

    if file is None:
        return frozen_chooser()
    try:
        return read_chooser(file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}.", "Give a file of hoptree methods chooser fit.") from error


def _tell(fitted: Fitted) -> None:
    captured = "no gap" if fitted.captured is None else f"{fitted.captured:.0%} of the gap"
    error = fitted.calibration.ece
    echo(f"{fitted.questions:,} questions, {fitted.examples:,} answers")
    echo(
        f"F1 {100 * fitted.first:.1f} after the first reading, {100 * fitted.chosen:.1f} by choice, "
        f"{100 * fitted.oracle:.1f} by an oracle: {captured}"
    )
    echo(f"calibration error {error:.3f}" if error is not None else "no calibration error")
    echo("when to go on    F1  calls  tokens")
    for one in (fitted.policies[0], *_frontier(fitted.policies)):
        told = f"sure {one.policy.sure:g}, worth {one.policy.worth:g}"
        echo(f"  {told:24s} {100 * one.f1:5.1f} {one.calls:5.2f} {one.tokens:7,.0f}")
    _weights(fitted.chooser)


def _frontier(tried: Sequence[Replayed]) -> list[Replayed]:
    """The policies that none beats in both F1 and tokens, the cheapest first."""
    found: list[Replayed] = []
    for one in sorted(tried, key=lambda one: (one.tokens, -one.f1)):
        if not found or one.f1 > found[-1].f1:
            found.append(one)
    return found


def _weights(chooser: Chooser) -> None:
    from hoptree.methods.hop.chooser import in_words

    for name, weight in sorted(chooser.weights.items(), key=lambda one: -abs(one[1])):
        # A weight of less than half a thousandth is none, of whichever sign.
        echo(f"  {round(weight, 3) + 0.0:+7.3f}  {name}: {in_words(name, True)}")
    echo(f"  {chooser.bias:+7.3f}  to begin with")
    for move, one in sorted(chooser.outlooks.items()):
        echo(f"  {move}: settles {one.settles:.1%} of the doubt for {one.tokens:,.0f} tokens")
    echo(f"when to go on: under {chooser.policy.sure:g}, for {chooser.policy.worth:g} or more a thousand tokens")
    for line in _made_from(chooser.made_from):
        echo(line)


def _made_from(told: Mapping[str, Any]) -> Iterator[str]:
    """Where the numbers come from, run by run; a file that was written by hand may tell something else, or nothing."""
    runs = [one for one in told.get("runs") or () if isinstance(one, dict)]
    rest = {name: value for name, value in told.items() if name != "runs" or not runs}
    if told:
        yield "made from:"
    for one in runs:
        yield f"  {one.get('questions', '?')} questions of {one.get('name', 'a run')} (run {one.get('id', '?')})"
        yield f"    model {one.get('model') or 'unknown'}"
    if rest:
        yield "  " + ", ".join(f"{name} {value}" for name, value in rest.items())
