"""`hoptree align`: teaching a model the parts that it plays in a method."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from hoptree.cli.align_build import Exclude, build, counted
from hoptree.cli.align_eval import evaluate
from hoptree.cli.align_train import train
from hoptree.cli.console import clean, print_json
from hoptree.cli.options import AsJson
from hoptree.core.errors import InputError


def gguf(
    adapter: Annotated[Path, typer.Argument(help="The folder of an adapter of hoptree align train.")],
    base: Annotated[str, typer.Option(help="The model that llama.cpp runs: FILE.gguf, or a name of the catalogue.")],
    out: Annotated[Path, typer.Option(help="The file to write.")],
    as_json: AsJson = False,
) -> None:
    """Write an adapter as a LoRA file for llama.cpp, whose server puts it on a GGUF model (--lora).

    Models of the kinds llama and qwen2 can be converted for. All layers are held against those of the base, which may
    have fewer bits than the weights that were trained on.

    \b
    hoptree align gguf adapters/both --base qwen --out both.gguf
    llama-server -m qwen2.5-coder-1.5b-instruct-q4_k_m.gguf --lora both.gguf --port 8080
    hoptree ask "Who …?" --corpus docs.idx -m openai/both --base-url http://localhost:8080/v1
    """
    from hoptree.models.hf_weights import adapter_folder, resolve_source
    from hoptree.training.lora.gguf import convert

    file = resolve_source(base).file
    if file is None:
        raise InputError(f"{base} is no GGUF file.", "Give --base FILE.gguf: what llama.cpp runs.")
    told = convert(adapter_folder(str(adapter)), file, out)
    if as_json:
        print_json(told)
        return
    typer.echo(clean(f"{told['layers']:,} layers of rank {told['rank']} for {told['base']} ({told['kind']}): {out}"))


_SHOWN = 5


def plans(
    data: Annotated[
        list[Path],
        typer.Option(help="Questions that the plans are for; several times for several files.", show_default=False),
    ] = [],  # noqa: B006 - typer copies it
    exclude: Exclude = [],  # noqa: B006 - typer copies it
    as_json: AsJson = False,
) -> None:
    """Count the plans that `align build gold` trains on, by data set and by how many sub-questions they have.

    With --data each is held against its question: TAIKC must be able to carry it out as it stands. With --exclude it
    is told which of these questions are evaluation questions, by id or by words. Either ends with exit code 1.

    \b
    hoptree align plans
    hoptree align plans --data 2wikimultihopqa/dev_open.jsonl --exclude 2wikimultihopqa/dev.jsonl
    """
    from hoptree.training.leakage import Excluded
    from hoptree.training.plans.written_plans import check_plans, packaged_plans
    from hoptree.training.questions import read_training_questions

    found = packaged_plans()
    sizes: dict[str, Counter[int]] = {}
    for plan in found.values():
        sizes.setdefault(plan.dataset, Counter())[plan.size] += 1
    by_set = {name: dict(sorted(counts.items())) for name, counts in sorted(sizes.items())}
    told = {"plans": len(found), "sub_questions": by_set}
    checked = check_plans(found, read_training_questions(data), Excluded(exclude)) if data else None
    if as_json:
        print_json({**told, **({"check": checked} if checked else {})})
    else:
        typer.echo(f"{len(found):,} plans, by the number of their sub-questions:")
        for name, counts in by_set.items():
            parts = ", ".join(f"{count:,} of {size}" for size, count in counts.items())
            typer.echo(clean(f"  {name:20} {sum(counts.values()):>4,}: {parts}"))
    if checked is None:
        return
    if not as_json:
        held, without = checked["checked"], checked["without_question"]
        typer.echo(f"  {held:,} held against their questions, {without:,} have none in --data")
        typer.echo(f"  checked against {checked['excluded_questions']:,} evaluation questions")
        for what, keys in (("cannot be carried out", "faults"), ("is an evaluation question", "evaluation_questions")):
            for key, why in list(checked[keys].items())[:_SHOWN]:
                typer.echo(clean(f"  {key} {what}: {why}"))
            if len(checked[keys]) > _SHOWN:
                typer.echo(f"  … and {len(checked[keys]) - _SHOWN:,} more (--json lists them)")
        if not checked["faults"] and not checked["evaluation_questions"]:
            typer.echo("  all can be carried out as they stand, and none is an evaluation question")
    if checked["faults"] or checked["evaluation_questions"]:
        raise typer.Exit(1)


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
    from hoptree.training.skr_labels import LabelsWanted, label_questions

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
