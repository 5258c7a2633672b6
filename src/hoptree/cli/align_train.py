"""`hoptree align train`: a LoRA adapter from chat sets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from hoptree.cli.align_build import print_beside_the_paper
from hoptree.cli.console import clean, print_json, say, stoppable
from hoptree.cli.options import AsJson
from hoptree.cli.progress import Show, bars, lines, on_terminal
from hoptree.core.errors import HoptreeError


@stoppable(lambda options: "Steps up to the last save are kept: the same command goes on from there.")
def train(
    model: Annotated[
        str, typer.Option("--model", "-m", help="The base: hf/NAME, hf/FOLDER or hf/FILE.gguf.", show_default=False)
    ],
    data: Annotated[list[Path], typer.Option(help="A set of hoptree align build; several times for several sets.")],
    out: Annotated[Path, typer.Option(help="The folder of the adapter; the same command goes on in it.")],
    rank: Annotated[int, typer.Option(help="Of the adapter.")] = 16,
    alpha: Annotated[int, typer.Option(help="Over the rank: how much the adapter counts.")] = 32,
    learning_rate: Annotated[float, typer.Option(help="The highest.")] = 5e-5,
    epochs: Annotated[int, typer.Option(help="How often each example is learnt.")] = 3,
    batch: Annotated[int, typer.Option(help="Examples at once …")] = 2,
    accumulation: Annotated[
        int, typer.Option(help="… times these make a step. Sequences are packed, so only the product counts.")
    ] = 8,
    dropout: Annotated[float, typer.Option(help="Share of the adapter's inputs left out.")] = 0.0,
    warmup: Annotated[
        float, typer.Option(help="Share of the steps in which the rate rises; then it falls along a cosine.")
    ] = 0.03,
    targets: Annotated[
        str, typer.Option(help="Layers that learn: names divided by commas, or all-linear.")
    ] = "all-linear",
    max_length: Annotated[
        int, typer.Option(help="Tokens of a packed sequence; a longer example is refused. A processor packs none.")
    ] = 2048,
    seed: Annotated[int, typer.Option(help="Of the first weights, the order and dropout.")] = 0,
    dtype: Annotated[
        str, typer.Option(help="Of the base: bf16 or fp32.  [default: bf16 with an accelerator]", show_default=False)
    ] = "",
    device: Annotated[
        str, typer.Option(help="cpu, cuda, cuda:0 or mps.  [default: an accelerator, if any]", show_default=False)
    ] = "",
    save_every: Annotated[int, typer.Option(help="Steps between saves.")] = 50,
    checkpointing: Annotated[
        bool, typer.Option("--checkpointing", help="Compute more and need less memory; changes nothing else.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, say what it would take, and write nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a LoRA adapter on chat sets, with the loss on the replies alone, and the prompts as the model is asked.

    All rows are checked before anything is written: roles, empty replies, ids that come twice, examples that are too
    long, and labels that say what another model knows. A training that was ended goes on from its last save; a folder
    of another training is refused. The folder is one of peft, with a card (hoptree.json) that names the base by its
    digest, the sets and the recipe, and with the losses (log.jsonl, loss.svg).

    \b
    hoptree align train -m hf/NAME --data if.jsonl --data kbae.jsonl --out adapters/both
    hoptree ask "Who …?" -m 'hf/NAME?adapter=adapters/both'
    torchrun --nproc-per-node 4 -m hoptree align train -m hf/NAME --data if.jsonl --out adapters/if
    """
    from hoptree.training.lora.learner import first_of_all
    from hoptree.training.lora.recipe import Pace, Recipe
    from hoptree.training.lora.train import TrainingWanted, train

    recipe = Recipe(
        rank=rank,
        alpha=alpha,
        learning_rate=learning_rate,
        epochs=epochs,
        batch=batch,
        accumulation=accumulation,
        dropout=dropout,
        warmup=warmup,
        targets=targets,
        max_length=max_length,
        seed=seed,
        dtype=dtype,
    )
    quiet = as_json or not first_of_all()
    wanted = TrainingWanted(model, tuple(data), out, recipe, Pace(device, save_every, checkpointing), dry_run)
    try:
        with _shown(quiet) as show:
            told = train(
                wanted,
                on_progress=lambda done, total, loss: show(done, total, lambda: f"steps, loss {loss:.3f}"),
                on_stage=(lambda said: None) if quiet else say,
            )
    except HoptreeError as error:
        if first_of_all():
            raise
        raise typer.Exit(error.exit_code) from None  # the first one tells it for all
    if not first_of_all():
        return
    if as_json:
        print_json(told)
    else:
        _report(told)


@contextmanager
def _shown(quiet: bool) -> Iterator[Show]:
    """How far it is: a bar on a terminal, and in a log a line every few minutes."""
    with bars(quiet) if quiet or on_terminal() else lines() as work, work("align train") as show:
        yield show


def _report(told: Mapping[str, Any]) -> None:
    tokens = told["tokens"]
    typer.echo(clean(f"{told['base']['name']}: {told['examples']:,} examples, {told['steps']:,} steps"))
    for one in told["sets"]:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in one["kinds"].items())
        typer.echo(clean(f"  {one['file']}: {kinds}"))
    typer.echo(
        f"  tokens of an epoch: {tokens['prompt']:,} of prompts, {tokens['reply']:,} of replies; "
        f"{tokens['longest']:,} in the longest example"
    )
    print_beside_the_paper(told.get("beside_the_paper") or (), "tokens")
    if told["evaluation_questions"]:
        typer.echo(f"  {told['evaluation_questions']:,} ARE EVALUATION QUESTIONS, and the card says so")
    _report_repeats(told.get("same_prompts") or {})
    if untold := told.get("rows_without_kind"):
        typer.echo(f"  rows that do not say what they are (meta.kind): {untold:,}; whose labels they have is not known")
    if told.get("dry_run"):
        typer.echo(f"  packed into {told['sequences_an_epoch']:,} sequences an epoch")
        typer.echo(
            f"  about {told['seconds_a_step']:.2f} s a step, {_time(told['seconds'])} in all; nothing was written"
        )
        return
    _report_losses(told)


def _report_repeats(same: Mapping[str, Any]) -> None:
    if same.get("same_reply"):
        typer.echo(f"  rows that ask and say the same as one before: {same['same_reply']:,}")
    if same.get("other_reply"):
        typer.echo(
            clean(
                f"  rows that ask the same as one before, with ANOTHER REPLY: {same['other_reply']:,}, {same['first']}"
            )
        )


def _report_losses(told: Mapping[str, Any]) -> None:
    from hoptree.evaluation.jsonl_log import read_lines
    from hoptree.training.lora.checkpoint import loss_line

    loss, out = told["loss"], Path(told["out"])
    losses = [row["loss"] for _, row in read_lines(out / "log.jsonl")]
    if losses:
        typer.echo(f"  loss {loss['first']:.3f} {loss_line(losses)} {loss['last']:.3f}")
    typer.echo(f"  by epoch: {', '.join(f'{mean:.3f}' for mean in loss['epochs'])}")
    if told["new_steps"]:
        typer.echo(clean(f"trained in {_time(told['seconds'])}: {out}"))
    else:
        typer.echo(clean(f"it was trained before: {out}"))
    typer.echo(clean(f"use it: -m 'hf/{told['base']['name']}?adapter={out}'"))


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{seconds / 3600:.1f} h"
