"""`hoptree align`: training sets for models that play a part of a method."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hoptree.cli.console import clean, print_error, print_json, what_stays
from hoptree.cli.console import run as run_to_end
from hoptree.cli.options import AsJson, BaseURL, Concurrency, Model, NoCache
from hoptree.cli.progress import shown
from hoptree.cli.search import Rerank, RetrieverKind
from hoptree.errors import HoptreeError

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Training sets for models that play a part of a method."
)


@app.callback()
def align() -> None:
    """Make training sets for models that play a part of a method, from train questions only."""


@app.command("build")
def build(
    kind: Annotated[str, typer.Argument(help="ra-isf-know, ra-isf-relevance or ra-isf-decompose.")],
    data: Annotated[list[Path], typer.Option(help="Train questions; several times for several files.")],
    out: Annotated[Path, typer.Option(help="The file to write (JSON Lines).")],
    exclude: Annotated[
        list[Path],
        typer.Option(
            metavar="EVAL",
            help="Evaluation questions, or a folder of one or more runs: none of these, by id or words, is trained on.",
            show_default=False,
        ),
    ] = [],  # noqa: B006 - typer copies it
    only_train: Annotated[
        bool, typer.Option("--only-train", help="Leave out rows that are of no train split.")
    ] = False,
    allow_evaluation_questions: Annotated[
        bool,
        typer.Option("--allow-evaluation-questions", help="Train on evaluation questions, too; every row says so."),
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N questions.", show_default=False)] = None,
    seed: Annotated[
        int | None, typer.Option(help="Draws the questions of --limit and the rows of --balance.", show_default=False)
    ] = None,
    balance: Annotated[
        float | None,
        typer.Option(
            min=1.0,
            help="know, relevance: a label at most so many times as often as the other.  [default: all rows]",
            show_default=False,
        ),
    ] = None,
    model: Model = "",
    right_f1: Annotated[
        float | None,
        typer.Option(
            help="know: F1 from which an answer is right; 1 takes equal words only.  [default: 0.8]",
            show_default=False,
        ),
    ] = None,
    base_url: BaseURL = "",
    concurrency: Concurrency = None,
    no_cache: NoCache = False,
    corpus: Annotated[str, typer.Option(help="relevance: the index to search, or 'sample'.", show_default=False)] = "",
    retriever: RetrieverKind = "bm25",
    rerank: Rerank = "",
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="relevance: passages of each search.")] = 5,
    titles: Annotated[
        bool, typer.Option("--titles", help="relevance: show titles, for ra_isf with --set titles=on.")
    ] = False,
    linked: Annotated[
        bool,
        typer.Option(
            "--linked",
            help="decompose: also chains, whose sub-questions rest on each other ('that person'), for ra_isf with "
            "--set link_siblings=on.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a training set for one of RA-ISF's sub-models, in chat form, with the prompts that ra_isf itself sends.

    Rows that say they are of a dev or test split are refused, and so is a file that is also excluded, or that is named
    for evaluation ("dev.jsonl") while none of its questions is excluded. A question is excluded by its data set and id,
    or if 80 % of the different words in it and in an evaluation question are in both. One that comes twice is taken
    once.

    know asks the model each question, and learns from whether it was right; replies are remembered, so that the same
    command goes on where it was ended. relevance takes gold passages, and what else a search finds. decompose takes
    the steps (MuSiQue, StrategyQA) or facts (2WikiMultihopQA) that come with the questions.

    \b
    hoptree align build ra-isf-know --data train.jsonl --exclude dev.jsonl -m openai/NAME --out know.jsonl
    hoptree align build ra-isf-relevance --data train.jsonl --corpus docs.idx --balance 1 --out relevance.jsonl
    hoptree align build ra-isf-decompose --data musique.jsonl --only-train --linked --out decompose.jsonl
    """
    from hoptree.alignment.building import Wanted, build, read_kind

    wanted = Wanted(
        read_kind(kind),
        tuple(data),
        out,
        tuple(exclude),
        only_train=only_train,
        allow_evaluation=allow_evaluation_questions,
        limit=limit,
        seed=seed,
        balance=balance,
        base_url=base_url,
        cache=None if no_cache else "default",
        concurrency=concurrency,
        corpus=corpus,
        retriever=retriever,
        rerank=rerank,
        k=k,
        titles=titles,
        linked=linked,
        **({"model": model} if model else {}),  # type: ignore[arg-type]
        **({"right_f1": right_f1} if right_f1 is not None else {}),  # type: ignore[arg-type]
    )
    with shown(as_json) as show:
        work = build(wanted, on_progress=lambda done, total: show(done, total, lambda: "questions"))
        told = run_to_end(work, stays=what_stays(cached=not no_cache))
    if as_json:
        print_json(told)
    else:
        _report(told)
    if failed := told.get("failed"):
        one = len(failed) == 1
        cause = f"{len(failed):,} {'question was' if one else 'questions were'} not answered, and no row came of "
        cause += "it." if one else "them."
        failure = HoptreeError(
            cause, f"The same command asks {'it' if one else 'them'} again; the others cost nothing."
        )
        print_error(failure)
        raise typer.Exit(failure.exit_code)


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
    from hoptree.alignment.retrieval_labels import LabelsWanted, label_questions

    told = label_questions(
        LabelsWanted(without, with_documents, out, metric, tuple(exclude), allow_evaluation=allow_evaluation_questions)
    )
    if as_json:
        print_json(told)
        return
    typer.echo(clean(f"{told['questions']:,} questions labelled by {told['metric']}, in {told['out']}"))
    typer.echo(f"  documents made the answer: {_counted(told['labels'])}")
    for why, count in told["left_out"].items():
        typer.echo(clean(f"  left out: {count:,} {why}"))
    for warning in told["warnings"]:
        typer.echo(clean(f"hoptree: {warning}"), err=True)
    if told["evaluation_allowed"]:
        typer.echo("  EVALUATION QUESTIONS ARE ALLOWED, and the rows say so")
    elif not told["excluded"]:
        typer.echo("  no evaluation questions were excluded: name those you will measure on with --exclude")


def _report(told: Mapping[str, Any]) -> None:
    asked, read = told["questions"]["asked"], told["questions"]["read"]
    typer.echo(clean(f"{told['kind']}: {_rows(told['rows'])} from {asked:,} of {read:,} questions, in {told['out']}"))
    if "model" in told:
        typer.echo(
            clean(f"  labels by the answers of {told['model']}, right from an F1 of {told['right_from_f1']:g} on")
        )
    for source, labels in told["sources"].items():
        typer.echo(clean(f"  {source:20} {_counted(labels)}"))
    if len(told["sources"]) > 1:
        typer.echo(f"  {'all':20} {_counted(told['labels'])}")
    for name in ("prompt", "target"):
        words = told[f"{name}_words"]
        typer.echo(f"  words a {name}: {words['mean']:,.1f} on average, {words['max']:,} at most")
    for warning in told["warnings"]:
        typer.echo(clean(f"hoptree: {warning}"), err=True)
    for why, count in told["left_out"].items():
        typer.echo(clean(f"  left out: {count:,} {why}"))
    if untold := told["splits"].get(""):
        typer.echo(f"  {untold:,} questions do not say of which split they are, nor does their file's name")
    if told["evaluation_questions"]:
        typer.echo(f"  {told['evaluation_questions']:,} ARE EVALUATION QUESTIONS, and their rows say so")
    files = told["excluded"]["files"]
    if files:
        typer.echo(f"  checked against {told['excluded']['questions']:,} evaluation questions of {_files(len(files))}")
    else:
        typer.echo("  no evaluation questions were excluded: name those you will measure on with --exclude")


def _rows(count: int) -> str:
    return f"{count:,} {'row' if count == 1 else 'rows'}"


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def _counted(labels: Mapping[str, int]) -> str:
    total = sum(labels.values())
    return ", ".join(f"{count:,} {label} ({count / total:.0%})" for label, count in sorted(labels.items()))
