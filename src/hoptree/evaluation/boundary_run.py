"""Run, judge and measure boundary awareness for one or more models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hoptree.core.errors import ConfigError, InputError
from hoptree.engine.calls import open_calls
from hoptree.evaluation.boundary import (
    BOUNDARY,
    METHOD,
    BoundaryExperiment,
    Judgement,
    Pair,
    judge_pairs,
    measure,
    measure_several,
    read_pairs,
)
from hoptree.evaluation.experiment import Experiment
from hoptree.evaluation.plan import Planned
from hoptree.evaluation.run_folder import write_json
from hoptree.evaluation.running import Progress, RunOptions, run_experiment
from hoptree.models import open_model

Listener = Callable[[Planned, Progress], None]


def planned_for(files: Sequence[Path], experiment: BoundaryExperiment) -> list[Planned]:
    """Plan the runs of one model over several files of questions, named by data set."""
    short = [replace(experiment, data=path).read_data().name for path in files]
    names = [
        name if short.count(name) == 1 else f"{path.resolve().parent.name} {path.name.partition('.')[0]}"
        for name, path in zip(short, files, strict=True)
    ]
    if len(set(names)) < len(names):
        raise InputError("A file of questions was given twice.", "Name each --data once.")
    return [
        Planned(name, "", (), replace(experiment, data=path, name=f"{experiment.model} on {name}"))
        for name, path in zip(names, files, strict=True)
    ]


async def measure_all(
    planned: Sequence[Planned],
    out: Path,
    ways: RunOptions,
    *,
    on_progress: Listener = lambda planned, progress: None,
) -> list[dict[str, Any]]:
    """Measure each model on every data set, pooled, and on average.

    Judges are opened after all questions are asked, so that no two models are in memory at once.
    """
    by_model: dict[str, dict[str, Planned]] = {}
    for run in planned:
        if not isinstance(run.experiment, BoundaryExperiment):
            raise ConfigError(
                f"'{run.run_name}' is a run of {run.experiment.method}.",
                f"hoptree run makes it; hoptree eval boundary is for runs with method: {METHOD}.",
            )
        label = run.experiment.name.removesuffix(f" on {run.data_name}")
        by_model.setdefault(label, {})[run.data_name] = run
    warnings = {label: await _ask(runs, out, ways, on_progress) for label, runs in by_model.items()}
    measured = []
    for label, runs in by_model.items():
        folders = {name: out / run.folder for name, run in runs.items()}
        pairs = {name: read_pairs(folder) for name, folder in folders.items()}
        judged = await _judge(pairs, next(iter(runs.values())).experiment, ways)
        sets = {}
        for name, of_set in pairs.items():
            measures = measure(of_set, judged[name] if judged else None)
            sets[name] = {"model": label, "data": name, **measures, "warnings": warnings[label][name]}
            write_json(folders[name] / BOUNDARY, sets[name])
        pooled, mean = measure_several(pairs, judged) if len(sets) > 1 else (None, None)
        paths = {name: str(folder) for name, folder in folders.items()}
        measured.append({"model": label, "folders": paths, "sets": sets, "all": pooled, "mean": mean})
    return measured


async def _ask(runs: Mapping[str, Planned], out: Path, ways: RunOptions, on_progress: Listener) -> dict[str, list[str]]:
    """Run what has no outcome yet, loading the model once; return the warnings by data set."""
    first = next(iter(runs.values())).experiment
    model = open_model(first.model, base_url=first.base_url)
    warnings = {}
    try:
        for name, run in runs.items():
            # Both answers are judged together, in the end: the run itself has no judge.
            experiment = replace(run.experiment, judge="", judge_base_url="")
            summary = await run_experiment(
                experiment, out / run.folder, ways, model=model, on_progress=partial(on_progress, run)
            )
            warnings[name] = list(summary["warnings"])
    finally:
        await model.aclose()
    return warnings


async def _judge(
    pairs: Mapping[str, Sequence[Pair]], experiment: Experiment, ways: RunOptions
) -> dict[str, Judgement] | None:
    """Have all pairs judged, if there is a judge; replies are cached."""
    if not experiment.judge:
        return None
    model = experiment.open_judge()
    calls = open_calls(ways.cache, concurrency=ways.concurrency)
    try:
        return {name: await judge_pairs(of_set, model, calls) for name, of_set in pairs.items()}
    finally:
        calls.close()
        await model.aclose()
