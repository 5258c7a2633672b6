"""Run, judge and measure boundary awareness for one or more models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hoptree.core.errors import ConfigError, InputError
from hoptree.engine.calls import Calls, open_calls
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
from hoptree.models.model import Model

Listener = Callable[[Planned, Progress], None]


@dataclass(frozen=True, slots=True)
class _Asked:
    """The run of one data set, and its warnings."""

    folder: Path
    warnings: tuple[str, ...]


def planned_for(files: Sequence[Path], wanted: BoundaryExperiment) -> list[Planned]:
    """Plan the runs of one model over several files of questions, named by data set."""
    names = [replace(wanted, data=path).read_data().name for path in files]
    told = [
        name if names.count(name) == 1 else f"{path.resolve().parent.name} {path.name.partition('.')[0]}"
        for name, path in zip(names, files, strict=True)
    ]
    if len(set(told)) < len(told):
        raise InputError("A file of questions was given twice.", "Name each --data once.")
    return [
        Planned(name, "", (), replace(wanted, data=path, name=f"{wanted.model} on {name}"))
        for name, path in zip(told, files, strict=True)
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
    for one in planned:
        if not isinstance(one.experiment, BoundaryExperiment):
            raise ConfigError(
                f"'{one.run_name}' is a run of {one.experiment.method}.",
                f"hoptree run makes it; hoptree eval boundary is for runs with method: {METHOD}.",
            )
        label = one.experiment.name.removesuffix(f" on {one.data_name}")
        by_model.setdefault(label, {})[one.data_name] = one
    asked = {label: await _ask(sets, out, ways, on_progress) for label, sets in by_model.items()}
    found = []
    for label, sets in by_model.items():
        async with AsyncExitStack() as opened:
            judging = await _open_judge(next(iter(sets.values())).experiment, ways, opened)
            found.append(await _measured(label, asked[label], judging))
    return found


async def _ask(sets: Mapping[str, Planned], out: Path, ways: RunOptions, on_progress: Listener) -> dict[str, _Asked]:
    """Run what has no outcome yet, loading the model once."""
    first = next(iter(sets.values())).experiment
    model = open_model(first.model, base_url=first.base_url)
    asked = {}
    try:
        for name, one in sets.items():

            def show(progress: Progress, one: Planned = one) -> None:
                on_progress(one, progress)

            # Both answers are judged together, in the end: the run itself has no judge.
            wanted = replace(one.experiment, judge="", judge_base_url="")
            summary = await run_experiment(wanted, out / one.folder, ways, model=model, on_progress=show)
            asked[name] = _Asked(out / one.folder, tuple(summary["warnings"]))
    finally:
        await model.aclose()
    return asked


async def _open_judge(wanted: Experiment, ways: RunOptions, opened: AsyncExitStack) -> tuple[Model, Calls] | None:
    """Open the judge, if any, with the reply cache."""
    if not wanted.judge:
        return None
    model = wanted.open_judge()
    opened.push_async_callback(model.aclose)
    calls = open_calls(ways.cache, concurrency=ways.concurrency)
    opened.callback(calls.close)
    return model, calls


async def _measured(label: str, asked: Mapping[str, _Asked], judging: tuple[Model, Calls] | None) -> dict[str, Any]:
    pairs: dict[str, list[Pair]] = {name: read_pairs(one.folder) for name, one in asked.items()}
    judged: dict[str, Judgement] | None = None
    if judging:
        judged = {name: await judge_pairs(some, *judging) for name, some in pairs.items()}
    sets = {}
    for name, some in pairs.items():
        told = measure(some, judged[name] if judged else None)
        sets[name] = {"model": label, "data": name, **told, "warnings": list(asked[name].warnings)}
        write_json(asked[name].folder / BOUNDARY, sets[name])
    found: dict[str, Any] = {"model": label, "folders": {name: str(one.folder) for name, one in asked.items()}}
    found |= {"sets": sets, "all": None, "mean": None}
    if len(sets) > 1:
        found["all"], found["mean"] = measure_several(pairs, judged)
    return found
