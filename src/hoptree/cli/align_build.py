"""`hoptree align build`: training sets for models that play a part of a method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from hoptree.cli.console import clean, print_error, print_json, what_stays
from hoptree.cli.console import run as run_to_end
from hoptree.cli.options import AsJson, BaseURL, Concurrency, Model, NoCache, Settings, read_settings
from hoptree.cli.progress import shown
from hoptree.cli.search import Rerank, RetrieverKind
from hoptree.core.errors import HoptreeError, InputError
from hoptree.retrieval import DEFAULT_RETRIEVER


def print_beside_the_paper(lines: Sequence[Mapping[str, Any]], unit: Literal["words", "tokens"]) -> None:
    """Counts and mean lengths, which only tokens can be held against the paper's."""
    if not lines:
        return
    typer.echo(
        f"  {f'mean {unit}':14}{'rows':>8}{'prompt':>9}{'target':>9}   {'TAIKC: rows':>12}{'prompt':>9}{'target':>9}"
    )
    for line in lines:
        paper = line["paper"]
        typer.echo(
            f"  {line['part']:14}{line['rows']:>8,}{line['instruction']:>9.1f}{line['output']:>9.1f}   "
            f"{paper['rows']:>12,}{paper['instruction']:>9.1f}{paper['output']:>9.1f}  Table {paper['table']}"
        )
    if unit == "words":
        typer.echo("  (the paper counts tokens, as it seems: hoptree align train --dry-run says how many there are)")


Exclude = Annotated[
    list[Path],
    typer.Option(
        metavar="EVAL",
        help="Evaluation questions, or a folder of one or more runs: none of these, by id or words, is trained on.",
        show_default=False,
    ),
]


def build(
    kind: Annotated[
        str, typer.Argument(help="if, kbae or gold (TAIKC), ra-isf-know, ra-isf-relevance or ra-isf-decompose.")
    ],
    data: Annotated[list[Path], typer.Option(help="Train questions; several times for several files.")],
    out: Annotated[Path, typer.Option(help="The file to write (JSON Lines; a JSON list for LLaMA-Factory).")],
    exclude: Exclude = [],  # noqa: B006 - typer copies it
    only_train: Annotated[
        bool, typer.Option("--only-train", help="Leave out rows that are of no train split.")
    ] = False,
    any_split: Annotated[
        bool,
        typer.Option(
            "--any-split",
            help="Take rows of any split, too; --exclude or --half must say what of their data set is measured on.",
        ),
    ] = False,
    allow_evaluation_questions: Annotated[
        bool,
        typer.Option("--allow-evaluation-questions", help="Train on evaluation questions, too; every row says so."),
    ] = False,
    half: Annotated[
        str,
        typer.Option(
            help="Only the first or second half of each file; ids decide. The other half counts as excluded.",
            show_default=False,
        ),
    ] = "",
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only N questions: the first of each file in turn.", show_default=False)
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Draws the questions of --limit and the rows of --balance.", show_default=False)
    ] = None,
    balance: Annotated[
        float | None,
        typer.Option(
            min=1.0,
            help="kbae, know, relevance: a label at most so many times as often as the other.  [default: all rows]",
            show_default=False,
        ),
    ] = None,
    model: Model = "",
    judge: Annotated[
        str,
        typer.Option(
            metavar="MODEL",
            help="kbae: a model that says which answers are right.  [default: exact match]",
            show_default=False,
        ),
    ] = "",
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
    corpus: Annotated[
        str, typer.Option(help="if, gold, relevance: the index to search, or 'sample'.", show_default=False)
    ] = "",
    retriever: RetrieverKind = DEFAULT_RETRIEVER,
    rerank: Rerank = "",
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="gold, relevance: passages of each search.")] = 5,
    titles: Annotated[
        bool, typer.Option("--titles", help="gold, relevance: show titles, for methods with --set titles=on.")
    ] = False,
    robust: Annotated[bool, typer.Option("--robust", help="gold: the prompts of taikc with --set robust=on.")] = False,
    settings: Settings = [],  # noqa: B006 - typer copies it
    linked: Annotated[
        bool,
        typer.Option(
            "--linked",
            help="decompose: also chains, whose sub-questions rest on each other ('that person'), for ra_isf with "
            "--set link_siblings=on.",
        ),
    ] = False,
    form: Annotated[str, typer.Option("--format", help="chat, trl or llama-factory.")] = "chat",
    as_json: AsJson = False,
) -> None:
    """Make a training set for a model that plays a part of TAIKC or RA-ISF, with the prompts that they themselves send.

    Rows that say they are of a dev or test split are refused, and so is a file that is also excluded, or that is named
    for evaluation ("dev.jsonl") while none of its questions is excluded. --any-split takes those that --exclude does
    not know. A question is excluded by its data set and id, or if 80 % of the different words in it and in an
    evaluation question are in both. So is one that shares a step with an evaluation question: a single question that
    both are put together from (MuSiQue's ids), a fact by its subject and property, or a sub-question. Of evaluation
    questions that tell no steps, which are counted, only ids and words are compared. One that comes twice is taken
    once.

    if has a teacher (-m) answer by taikc, with its options (--set), and keeps what it said on the way to right answers.
    kbae asks the model itself each question, and learns to answer where it was right and to ask for documents where it
    was wrong; such a set is for that model alone. gold needs no model: it takes plans that come with Hoptree for
    questions of three data sets, the steps and facts that come with questions, and gold passages of --corpus.

    know asks the model each question, and learns from whether it was right. relevance takes gold passages, and what
    else a search finds. decompose takes the steps (MuSiQue, StrategyQA) or facts (2WikiMultihopQA) that come with the
    questions. Replies are remembered, so that the same command goes on where it was ended.

    \b
    hoptree align build if --data train.jsonl --exclude dev.jsonl --corpus docs.idx -m openai/NAME --out if.jsonl
    hoptree align build kbae --data nq.jsonl --half first -m hf/NAME --balance 1.5 --out kbae.jsonl
    hoptree align build gold --data musique.jsonl --exclude dev.jsonl --corpus docs.idx --out gold.jsonl
    hoptree align build ra-isf-know --data train.jsonl --exclude dev.jsonl -m openai/NAME --out know.jsonl
    hoptree align build ra-isf-relevance --data train.jsonl --corpus docs.idx --balance 1 --out relevance.jsonl
    hoptree align build ra-isf-decompose --data musique.jsonl --only-train --linked --out decompose.jsonl
    """
    from hoptree.training.build import Wanted, build, read_kind
    from hoptree.training.formats import read_format

    named = read_kind(kind)
    _check_settings(named, settings, robust=robust, judge=judge)
    wanted = Wanted(
        named,
        tuple(data),
        out,
        tuple(exclude),
        only_train=only_train,
        any_split=any_split,
        allow_evaluation=allow_evaluation_questions,
        half=half,
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
        judge=judge,
        options=read_settings(settings),
        robust=robust,
        form=read_format(form),
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


def counted(labels: Mapping[str, int]) -> str:
    """How many there are of each label, with their shares."""
    total = sum(labels.values())
    return ", ".join(f"{count:,} {label} ({count / total:.0%})" for label, count in sorted(labels.items()))


def _check_settings(kind: str, settings: list[str], *, robust: bool, judge: str) -> None:
    """Refuse what the kind would pass over in silence."""
    for given, option, of in (
        (bool(settings), "--set", "taikc-if"),
        (robust, "--robust", "taikc-gold"),
        (bool(judge), "--judge", "taikc-kbae"),
    ):
        if given and kind != of:
            raise InputError(f"{option} is for {of}, and not for {kind}.", f"Leave {option} out.")


def _report(told: Mapping[str, Any]) -> None:
    used, read = told["questions"]["in_rows"], told["questions"]["read"]
    typer.echo(clean(f"{told['kind']}: {_rows(told['rows'])} from {used:,} of {read:,} questions, in {told['out']}"))
    if "right_from_f1" in told:
        typer.echo(
            clean(f"  labels by the answers of {told['model']}, right from an F1 of {told['right_from_f1']:g} on")
        )
    if "right_by" in told:
        typer.echo(clean(f"  labels by the answers of {told['model']}, right by {told['right_by']}, and for it alone"))
    if "teacher" in told:
        typer.echo(clean(f"  {told['solved']:,} questions solved by {told['teacher']}"))
    for source, labels in told["sources"].items():
        typer.echo(clean(f"  {source:20} {counted(labels)}"))
    if len(told["sources"]) > 1:
        typer.echo(f"  {'all':20} {counted(told['labels'])}")
    for name in ("prompt", "target"):
        words = told[f"{name}_words"]
        typer.echo(f"  words a {name}: {words['mean']:,.1f} on average, {words['max']:,} at most")
    print_beside_the_paper(told.get("beside_the_paper", ()), "words")
    for warning in told["warnings"]:
        typer.echo(clean(f"hoptree: {warning}"), err=True)
    for why, count in told["left_out"].items():
        typer.echo(clean(f"  left out: {count:,} {why}"))
    for split, count in told["splits"].items() if told["any_split"] else ():
        if split not in ("", "train"):
            some = "question of the split '{}' was" if count == 1 else "questions of the split '{}' were"
            typer.echo(clean(f"  {count:,} {some.format(split)} taken, by --any-split"))
    if untold := told["splits"].get(""):
        typer.echo(f"  {untold:,} questions do not say of which split they are, nor does their file's name")
    if told["evaluation_questions"]:
        typer.echo(f"  {told['evaluation_questions']:,} ARE EVALUATION QUESTIONS, and their rows say so")
    _report_excluded(told)


def _report_excluded(told: Mapping[str, Any]) -> None:
    """What the questions were held against, and for how many of that only in part."""
    files, known = told["excluded"]["files"], told["excluded"]["questions"]
    if files:
        typer.echo(f"  checked against {known:,} evaluation questions of {_files(len(files))}{_other(told)}")
    elif known:
        typer.echo(f"  checked against {known:,} {'question' if known == 1 else 'questions'} of the other half")
    else:
        typer.echo("  no evaluation questions were excluded: name those you will measure on with --exclude")
    if blind := told["excluded"]["without_steps"]:
        some = f"{blind:,} of {known:,} excluded questions {'tells' if blind == 1 else 'tell'} no steps"
        typer.echo(f"  {some}: only their ids and words were compared")


def _other(told: Mapping[str, Any]) -> str:
    return " and the other half" if told.get("half") else ""


def _rows(count: int) -> str:
    return f"{count:,} {'row' if count == 1 else 'rows'}"


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
