"""`hoptree eval boundary`: does a model know what it knows?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hoptree.cli.console import echo, percent, print_json, print_table, what_stays
from hoptree.cli.console import run as run_to_end
from hoptree.cli.options import (
    Anyway,
    AsJson,
    BaseURL,
    Concurrency,
    Judge,
    JudgeBaseURL,
    Model,
    NoCache,
    RetryFailed,
    Seed,
    given,
)
from hoptree.cli.progress import run_bars
from hoptree.core.errors import InputError

_MAX_FLIPS = 5
_MAX_CHARS = 70
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
    seed: Seed = None,
    judge: Judge = "",
    judge_base_url: JudgeBaseURL = "",
    base_url: BaseURL = "",
    concurrency: Concurrency = None,
    retry_failed: RetryFailed = False,
    anyway: Anyway = False,
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

    settings = given(model=model, base_url=base_url, limit=limit, seed=seed, judge=judge, judge_base_url=judge_base_url)
    if experiment is not None:
        if len(data) > 1:
            raise InputError("An experiment file takes one folder of data.", "Give --data FOLDER once.")
        planned = read_plan(experiment, data[0] if data else experiment.parent, settings)
    elif data:
        planned = planned_for(data, BoundaryExperiment(data[0], **settings))
    else:
        raise InputError("There are no questions.", "Give --data QUESTIONS.jsonl, or an experiment file.")
    ways = Ways(
        anyway=anyway, retry_failed=retry_failed, cache=None if no_cache else "default", concurrency=concurrency
    )
    with run_bars(as_json) as show:
        work = measure_all(planned, out, ways, on_progress=show)
        models = run_to_end(work, stays=what_stays("questions", cached=not no_cache))
    if as_json:
        print_json({"folder": str(out), "models": models})
    else:
        for measured in models:
            _report(measured)


def _report(measured: Mapping[str, Any]) -> None:
    echo(str(measured["model"]))
    rows = {**measured["sets"], **({"all": measured["all"], "mean": measured["mean"]} if measured["all"] else {})}
    for columns in (_COLUMNS, _JUDGED):
        if any(row.get(name) is not None for row in rows.values() for name in columns):
            cells = [[name, *(_cell(column, row.get(column)) for column in columns)] for name, row in rows.items()]
            print_table(["", *columns.values()], cells, left=("",))
    overall = measured["all"] or next(iter(measured["sets"].values()))
    echo(
        f"  sure and wrong: {overall['overconfident']:,}; refused and right: {overall['underconfident']:,}; "
        f"failed, and so wrong if asked directly: {overall['failed']:,}"
    )
    if probability := overall["probability"]:
        echo(f"  expected calibration error of the least token probability: {probability['ece']:.3f}")
    for flip in overall["flips"][:_MAX_FLIPS]:
        echo(f"  {_cut(flip['question'])}  {_answer(flip, 'direct')} -> {_answer(flip, 'confident')}")
    if (left := len(overall["flips"]) - _MAX_FLIPS) > 0:
        echo(f"  … and {left:,} more answers that changed (--json lists them)")
    for warning in dict.fromkeys(warning for one in measured["sets"].values() for warning in one["warnings"]):
        echo(f"  {warning}")
    echo(f"  {overall['verdict']}")


def _cell(name: str, value: float | None) -> str:
    return f"{value:,}" if value is not None and name in ("questions", "refused") else percent(value)


def _answer(flip: Mapping[str, Any], setting: str) -> str:
    return f"{_cut(flip[setting]) or '(nothing)'}{' (right)' if flip[f'{setting}_correct'] else ''}"


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_CHARS else f"{text[: _MAX_CHARS - 1]}…"
