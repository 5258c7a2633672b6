"""`hoptree align train`, `align eval` and `align gguf`: LoRA adapters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from hoptree.cli import console
from hoptree.cli.console import echo, percent, print_report, run_to_end, stoppable, warn
from hoptree.cli.options import Anyway, AsJson, AtOnce, Judge, Limit, NoCache, Only, RetryFailed, given
from hoptree.cli.progress import bars, lines, on_terminal, run_bars
from hoptree.core.errors import HoptreeError, InputError

_SCORES = {"em": "EM", "f1": "F1", "judge": "Judged"}
_BOUNDARY = {
    "questions": "Asked",
    "refused_share": "Refused",
    "direct_f1": "Direct F1",
    "confident_f1": "Confident F1",
    "knowledge_gap_f1": "Refused F1",
    "gap_f1": "Gap",
    "precision": "Right if sure",
    "sure_and_right": "Sure and right",
    "right_decisions": "Right decisions",
    "consistency_f1": "Consistency",
    "consistency_judged": "Same, judged",
}
_CHANGES = {
    "right_decisions": "Right decisions",
    "sure_and_right": "Sure and right",
    "gap_f1": "Gap",
    "refused_share": "Refused",
    "direct_f1": "Direct F1",
}


@stoppable("Steps up to the last save are kept: the same command goes on from there.")
def train(
    model: Annotated[str, Option("--model", "-m", help="The base: hf/NAME, hf/FOLDER or hf/FILE.gguf.")],
    data: Annotated[list[Path], Option(help="A set of hoptree align build; several times for several sets.")],
    out: Annotated[Path, Option(help="The folder of the adapter; the same command goes on in it.")],
    rank: Annotated[int, Option(help="Of the adapter.")] = 16,
    alpha: Annotated[int, Option(help="Over the rank: how much the adapter counts.")] = 32,
    learning_rate: Annotated[
        float | None, Option(help="The highest.  [default: the papers': 5e-5; 5e-4 for sets of RA-ISF alone]")
    ] = None,
    epochs: Annotated[int, Option(help="How often each example is learnt.")] = 3,
    batch: Annotated[int, Option(help="Examples at once …")] = 2,
    accumulation: Annotated[
        int, Option(help="… times these make a step. Sequences are packed, so only the product counts.")
    ] = 8,
    dropout: Annotated[float, Option(help="Share of the adapter's inputs left out.")] = 0.0,
    warmup: Annotated[
        float, Option(help="Share of the steps in which the rate rises; then it falls along a cosine.")
    ] = 0.03,
    targets: Annotated[str, Option(help="Layers that learn: names divided by commas, or all-linear.")] = "all-linear",
    max_length: Annotated[
        int, Option(help="Tokens of a packed sequence; a longer example is refused. A processor packs none.")
    ] = 2048,
    seed: Annotated[int, Option(help="Of the first weights, the order and dropout.")] = 0,
    dtype: Annotated[str, Option(help="Of the base: bf16 or fp32.  [default: bf16 with an accelerator]")] = "",
    device: Annotated[str, Option(help="cpu, cuda, cuda:0 or mps.  [default: an accelerator, if any]")] = "",
    save_every: Annotated[int, Option(help="Steps between saves.")] = 50,
    checkpointing: Annotated[
        bool, Option("--checkpointing", help="Compute more and need less memory; changes nothing else.")
    ] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Check everything, say what it would take, and write nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a LoRA adapter on chat sets, with the loss on the replies alone.

    Prompts are those that the model is asked with. The encoder of a T5 or another encoder-decoder reads the prompts,
    and its decoder learns the replies.

    All rows are checked before anything is written: roles, empty replies, duplicate ids, examples that are too long,
    and labels that depend on what another model knows. An interrupted training resumes from its last save; a folder of
    another training is refused. The folder is one of peft, with a card (hoptree.json) that names the base by its
    digest, the sets and the recipe, and with the losses (log.jsonl, loss.svg).

    \b
    hoptree align train -m hf/NAME --data if.jsonl --data kbae.jsonl --out adapters/both
    hoptree ask "Who …?" -m 'hf/NAME?adapter=adapters/both'
    torchrun --nproc-per-node 4 -m hoptree align train -m hf/NAME --data if.jsonl --out adapters/if
    """
    from hoptree.training.lora.dataset import Pace, Recipe
    from hoptree.training.lora.train import TrainingSpec, is_first_process
    from hoptree.training.lora.train import train as train_adapter

    recipe = Recipe(
        rank=rank,
        alpha=alpha,
        **given(learning_rate=learning_rate),
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
    quiet = as_json or not is_first_process()
    pace = Pace(device, save_every, checkpointing)
    spec = TrainingSpec(model, tuple(data), out, recipe, pace, dry_run, paper_rate=learning_rate is None)
    try:
        with bars(quiet) if quiet or on_terminal() else lines() as bar, bar("align train") as update_bar:
            summary = train_adapter(
                spec,
                on_progress=lambda done, total, loss: update_bar(done, total, lambda: f"steps, loss {loss:.3f}"),
                on_stage=(lambda sentence: None) if quiet else warn,
            )
    except HoptreeError as error:
        if is_first_process():
            raise
        raise typer.Exit(error.exit_code) from None  # the first process reports it for all
    if not is_first_process():
        return
    print_report(summary, _report_training, as_json=as_json)


def _report_training(summary: Mapping[str, Any]) -> None:
    tokens = summary["tokens"]
    echo(f"{summary['base']['name']}: {summary['examples']:,} examples, {summary['steps']:,} steps")
    for part in summary["sets"]:
        echo(f"  {part['file']}: {', '.join(f'{count:,} {kind}' for kind, count in part['kinds'].items())}")
    echo(
        f"  tokens of an epoch: {tokens['prompt']:,} of prompts, {tokens['reply']:,} of replies; "
        f"{tokens['longest']:,} in the longest example"
    )
    print_beside_the_paper(summary.get("beside_the_paper") or (), "tokens")
    same = summary.get("same_prompts") or {}
    if same.get("same_reply"):
        echo(f"  rows that ask and say the same as one before: {same['same_reply']:,}")
    if same.get("other_reply"):
        echo(f"  rows that ask the same as one before, with ANOTHER REPLY: {same['other_reply']:,}, {same['first']}")
    if unknown := summary.get("rows_without_kind"):
        echo(f"  rows that do not say what they are (meta.kind): {unknown:,}; whose labels they have is not known")
    if summary.get("dry_run"):
        echo(f"  packed into {summary['sequences_an_epoch']:,} sequences an epoch")
        seconds = _duration(summary["seconds"])
        echo(f"  about {summary['seconds_a_step']:.2f} s a step, {seconds} in all; nothing was written")
    else:
        _report_losses(summary)


def _report_losses(summary: Mapping[str, Any]) -> None:
    from hoptree.core.files import read_lines
    from hoptree.training.lora.checkpoint import loss_line

    loss, out = summary["loss"], Path(summary["out"])
    losses = [row["loss"] for _, row in read_lines(out / "log.jsonl")]
    if losses:
        echo(f"  loss {loss['first']:.3f} {loss_line(losses)} {loss['last']:.3f}")
    echo(f"  by epoch: {', '.join(f'{mean:.3f}' for mean in loss['epochs'])}")
    echo(
        f"trained in {_duration(summary['seconds'])}: {out}"
        if summary["new_steps"]
        else f"it was trained before: {out}"
    )
    echo(f"use it: -m 'hf/{summary['base']['name']}?adapter={out}'")


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{seconds / 3600:.1f} h"


def print_beside_the_paper(lines: Sequence[Mapping[str, Any]], unit: Literal["words", "tokens"]) -> None:
    """Print counts and mean lengths beside those of TAIKC's tables."""
    if not lines:
        return
    echo(f"  {f'mean {unit}':14}{'rows':>8}{'prompt':>9}{'target':>9}   {'TAIKC: rows':>12}{'prompt':>9}{'target':>9}")
    for line in lines:
        paper = line["paper"]
        echo(
            f"  {line['part']:14}{line['rows']:>8,}{line['instruction']:>9.1f}{line['output']:>9.1f}   "
            f"{paper['rows']:>12,}{paper['instruction']:>9.1f}{paper['output']:>9.1f}  Table {paper['table']}"
        )
    if unit == "words":
        echo("  (the paper counts tokens, as it seems: hoptree align train --dry-run says how many there are)")


def evaluate(
    experiments: Annotated[list[Path], Argument(help="Files of runs (YAML), of methods or method: boundary.")],
    model: Annotated[str, Option("--model", "-m", help="The base: hf/NAME, hf/FOLDER or hf/FILE.gguf.")],
    out: Annotated[Path, Option(help="The folder of all runs; the same command goes on with it.")],
    adapter: Annotated[
        list[Path], Option(metavar="FOLDER", help="An adapter of hoptree align train; several times for several.")
    ] = [],
    data: Annotated[
        Path | None, Option(help="The folder that the files' paths are relative to.  [default: theirs]")
    ] = None,
    only: Only = [],
    limit: Limit = None,
    judge: Judge = "",
    at_once: AtOnce = 1,
    retry_failed: RetryFailed = False,
    anyway: Anyway = False,
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Make every run of the files with the base and each adapter, and compare them.

    These are runs as of hoptree run and hoptree eval boundary, each in its own folder: finished ones cost nothing, and
    hoptree show, eval report and eval compare read them. Scores are compared with the base question by question: the
    interval of the difference (paired bootstrap, 95 %), and p by Holm's correction over all comparisons of a score.

    \b
    hoptree align eval experiments/alignment/boundary.yaml experiments/alignment/small-model.yaml --data DATA \\
        -m hf/NAME --adapter adapters/if --adapter adapters/kbae --adapter adapters/both --out runs/aligned
    hoptree eval report runs/aligned --html aligned.html
    """
    from hoptree.evaluation.running import RunOptions
    from hoptree.training.adapter_eval import boundary_gains, measure, plan_trials, run_gains, versions_of

    if not adapter:
        raise InputError("There is no adapter to hold against the base.", "Give one: --adapter FOLDER.")
    versions = versions_of(model, adapter)
    trials = plan_trials(experiments, data, versions, settings=given(limit=limit, judge=judge), only=only)
    run_options = RunOptions(anyway=anyway, retry_failed=retry_failed, cache=None if no_cache else "default")
    with run_bars(as_json) as show:
        work = measure(
            trials, out, run_options, at_once=at_once, on_progress=lambda trial, now: show(trial.planned, now)
        )
        measured = run_to_end(work, "questions", cached=not no_cache)
    summary = {
        "folder": str(out),
        "versions": [version.as_dict() for version in versions],
        "runs": run_gains(measured),
        "boundaries": boundary_gains(measured),
    }
    print_report(summary, report_gains, as_json=as_json)


def report_gains(summary: Mapping[str, Any]) -> None:
    """Print tables of all runs, and their folder."""
    for version in summary["versions"]:
        training = ""
        if version["examples"] is not None:
            sets = ", ".join(str(part.get("file")) for part in version["sets"] or () if isinstance(part, Mapping))
            training = f", trained on {version['examples']:,} examples{f' of {sets}' if sets else ''}"
        echo(f"{version['name']}: {version['model']}{training}")
    for data in dict.fromkeys(row["data"] for row in summary["runs"]):
        rows = _side_by_side([row for row in summary["runs"] if row["data"] == data])
        echo(f"{data}: {rows[0]['questions']:,} questions")
        columns = {name: title for name, title in _SCORES.items() if any(name in row for row in rows)}
        _table(
            ["Run", "Model", *columns.values(), *(f"{title} against base" for title in columns.values())],
            [
                [row["run"], row["version"], *(percent(row.get(name)) for name in columns)]
                + [_change(row["against_base"].get(name)) for name in columns]
                for row in rows
            ],
        )
        if compared := [row for row in rows if row["against_plain"]]:
            names = dict.fromkeys(name for row in compared for name in row["against_plain"])
            _table(
                ["Run", "Model", *(f"F1 against {name}" for name in names)],
                [
                    [row["run"], row["version"], *(_change(row["against_plain"].get(name)) for name in names)]
                    for row in compared
                ],
            )
        for row in rows:
            name = f"{row['run']}, {row['version']}"
            if row["failed"]:
                echo(f"  {name}: {row['failed']:,} failed and count as wrong; --retry-failed asks them again")
            if len(row["rests_on"]) > 1:
                echo(f"  {name}: a mixture of {len(row['rests_on'])} runs (--anyway)")
            for warning in row["warnings"]:
                echo(f"  {name}: {warning}")
    if boundaries := _side_by_side(summary["boundaries"]):
        _report_boundaries(boundaries)
    if summary["runs"] or boundaries:
        echo("p: paired, after Holm's correction over all comparisons of a score with the base, or with plain runs")
    folder = summary["folder"]
    echo(f"everything is in {folder}; all of it on a page: hoptree eval report {folder} --html FILE")


def _side_by_side(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Group the versions of each run."""
    order = dict.fromkeys((row["data"], row["run"]) for row in rows)
    return [row for key in order for row in rows if (row["data"], row["run"]) == key]


def _report_boundaries(rows: Sequence[Mapping[str, Any]]) -> None:
    echo("boundary: does the model know what it knows?")
    columns = {name: title for name, title in _BOUNDARY.items() if any(row.get(name) is not None for row in rows)}
    several_runs = len({row["run"] for row in rows}) > 1
    head = ["Data", *(["Run"] if several_runs else []), "Model"]
    named = [([row["data"], *([row["run"]] if several_runs else []), row["version"]], row) for row in rows]
    _table([*head, *columns.values()], [[*name, *(_figure(row, column) for column in columns)] for name, row in named])
    _table(
        [*head, *(f"{title} against base" for title in _CHANGES.values())],
        [
            [*name, *(_change(row["against_base"].get(column)) for column in _CHANGES)]
            for name, row in named
            if row["against_base"]
        ],
    )
    for warning in dict.fromkeys(warning for row in rows for warning in row.get("warnings", ())):
        echo(f"  {warning}")
    pooled = {row["run"] for row in rows if row["folder"] is None}  # rows over several data sets have no folder
    for name, row in named:
        if "verdict" in row and (row["folder"] is None) == (row["run"] in pooled):
            echo(f"  {', '.join(name)}: {row['verdict']}")


def _figure(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if name == "questions":
        return "" if value is None else f"{value:,}"
    plus_minus = row.get("gap_f1_plus_minus") if name == "gap_f1" else None
    return percent(value) + (f" ± {percent(plus_minus)}" if plus_minus is not None else "")


def _change(pair: Mapping[str, Any] | None) -> str:
    """Return a difference with its interval and p, or with its margin."""
    if pair is None:
        return ""
    if "interval" not in pair:
        margin = f" ± {percent(pair['plus_minus'])}" if pair["plus_minus"] is not None else ""
        return f"{100 * pair['difference']:+.1f}{margin}"
    difference = console.interval(pair["difference"], pair["interval"]["low"], pair["interval"]["high"])
    return f"{difference}, {console.chance(pair['adjusted_p'])}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    left = [title for title in heads if title in ("Data", "Run", "Model") or " against " in title]
    console.print_table(heads, rows, left=left)


def gguf(
    adapter: Annotated[Path, Argument(help="The folder of an adapter of hoptree align train.")],
    base: Annotated[str, Option(help="The model that llama.cpp runs: FILE.gguf, or a name of the catalogue.")],
    out: Annotated[Path, Option(help="The file to write.")],
    as_json: AsJson = False,
) -> None:
    """Write an adapter as a LoRA file for llama.cpp, for GGUF models (--lora).

    Models of the kinds llama and qwen2 can be converted. All layers are compared with those of the base, which may have
    fewer bits than the weights that were trained.

    \b
    hoptree align gguf adapters/both --base qwen --out both.gguf
    llama-server -m qwen2.5-coder-1.5b-instruct-q4_k_m.gguf --lora both.gguf --port 8080
    hoptree ask "Who …?" --corpus docs.idx -m openai/both --base-url http://localhost:8080/v1
    """
    from hoptree.models.hf_weights import adapter_folder, resolve_source
    from hoptree.training.lora.gguf import convert

    file = resolve_source(base).file
    if file is None:
        raise InputError(f"{base} is not a GGUF file.", "Give --base FILE.gguf: what llama.cpp runs.")
    written = convert(adapter_folder(str(adapter)), file, out)
    layers = f"{written['layers']:,} layers of rank {written['rank']} for {written['base']} ({written['kind']}): {out}"
    print_report(written, lambda _: echo(layers), as_json=as_json)
