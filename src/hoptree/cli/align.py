"""`hoptree align`: teaching a model the parts that it plays in a method."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hoptree.cli.align_build import build, counted
from hoptree.cli.align_eval import evaluate
from hoptree.cli.align_gguf import gguf
from hoptree.cli.align_plans import plans
from hoptree.cli.align_train import train
from hoptree.cli.console import clean, print_json
from hoptree.cli.options import AsJson

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Teach a model its part in a method: training sets, LoRA adapters, what they gained.",
)


app.command("build")(build)
app.command("plans")(plans)
app.command("train")(train)
app.command("eval")(evaluate)
app.command("gguf")(gguf)


@app.callback()
def align() -> None:
    """Teach a model its part in a method: build training sets, train a LoRA adapter, measure what it gained."""


@app.command("skr")
def skr(
    without: Annotated[Path, typer.Argument(help="The folder of a run without documents: cot.")],
    with_documents: Annotated[Path, typer.Argument(help="The folder of a run with them: iter_retgen, rounds=1.")],
    out: Annotated[Path, typer.Option(help="The file to write (JSON Lines).")],
    metric: Annotated[str, typer.Option(help="The score that says which answer is better.")] = "em",
    exclude: Annotated[
        list[Path],
        typer.Option(
            metavar="EVAL",
            help="Evaluation questions, or a folder of one or more runs: none of these, by id or words, is labelled.",
            show_default=False,
        ),
    ] = [],  # noqa: B006 - typer copies it
    allow_evaluation_questions: Annotated[
        bool,
        typer.Option("--allow-evaluation-questions", help="Label evaluation questions, too; every row says so."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Label questions by whether documents made their answer better or worse, for the method skr with how=knn.

    Both runs are of the same train questions and the same model. Questions that failed in one of them are left out;
    those that are as good with documents as without are labelled as ties, which the method counts.

    \b
    hoptree run --data train.jsonl --method cot -m openai/NAME --out runs/cot
    hoptree run --data train.jsonl --method iter_retgen --set rounds=1 --corpus docs.idx -m openai/NAME --out runs/read
    hoptree align skr runs/cot runs/read --out labels.jsonl
    hoptree run --data dev.jsonl --method skr --set how=knn --set labels=labels.jsonl --corpus docs.idx --out runs/skr
    """
    from hoptree.alignment.building.skr_labels import LabelsWanted, label_questions

    told = label_questions(
        LabelsWanted(without, with_documents, out, metric, tuple(exclude), allow_evaluation=allow_evaluation_questions)
    )
    if as_json:
        print_json(told)
        return
    typer.echo(clean(f"{told['questions']:,} questions labelled by {told['metric']}, in {told['out']}"))
    typer.echo(f"  documents made the answer: {counted(told['labels'])}")
    for why, count in told["left_out"].items():
        typer.echo(clean(f"  left out: {count:,} {why}"))
    for warning in told["warnings"]:
        typer.echo(clean(f"hoptree: {warning}"), err=True)
    if told["evaluation_allowed"]:
        typer.echo("  EVALUATION QUESTIONS ARE ALLOWED, and the rows say so")
    elif not told["excluded"]:
        typer.echo("  no evaluation questions were excluded: name those you will measure on with --exclude")
