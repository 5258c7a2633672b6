"""Measuring adapters: every run of some experiment files with the base and with each adapter.

The runs are those that `hoptree run` and `hoptree boundary` would make if the files named the versions as their models:
FOLDER/DATA/RUN--VERSION, or FOLDER/DATA/VERSION where a file has one run.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hoptree.alignment.measuring.versions import Version
from hoptree.errors import HoptreeError, InputError
from hoptree.evaluation.boundary_asking import BoundaryExperiment
from hoptree.evaluation.boundary_run import measure_all
from hoptree.evaluation.experiment import Experiment
from hoptree.evaluation.indexes import index_for
from hoptree.evaluation.plan import Planned, chosen, read_plan
from hoptree.evaluation.running import Progress, Ways, run_experiment
from hoptree.models import open_model
from hoptree.models.model import Model
from hoptree.runtime.schedule import together

__all__ = ["Measured", "Trial", "measure", "plan_trials"]

Listener = Callable[["Trial", Progress], None]


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One run of an experiment file with one version of the model; `run` is what the file calls it."""

    version: Version
    run: str
    planned: Planned

    @property
    def data(self) -> str:
        return self.planned.data_name

    @property
    def boundary(self) -> bool:
        """Whether it measures what the model knows of what it knows."""
        return isinstance(self.planned.experiment, BoundaryExperiment)


@dataclass(frozen=True, slots=True)
class Measured:
    """What the trials came to: the summary of each run, and the boundary of each version over all its data sets."""

    runs: Sequence[tuple[Trial, Mapping[str, Any]]]
    boundaries: Sequence[tuple[Trial, Mapping[str, Any]]]


def plan_trials(
    files: Sequence[Path],
    data: Path | None,
    versions: Sequence[Version],
    *,
    settings: Mapping[str, Any] | None = None,
    only: Sequence[str] = (),
) -> list[Trial]:
    """All runs of the files with every version; `data` is the folder of the data, or else each file's own.

    `only` names data sets and runs, as for `hoptree run`. Two files that name the same run of the same data set are
    refused: their folders would be the same.
    """
    trials = [
        trial
        for version in versions
        for path in files
        for trial in _of_file(
            path, read_plan(path, data or path.parent, {**(settings or {}), "model": version.model}), version
        )
    ]
    if only:
        named = [Planned(trial.data, trial.run, (), trial.planned.experiment) for trial in trials]
        kept = {id(one) for one in chosen(named, only)}
        trials = [trial for trial, one in zip(trials, named, strict=True) if id(one) in kept]
    folder, times = Counter(trial.planned.folder for trial in trials).most_common(1)[0]
    if times > 1:
        raise InputError(
            f"{times} runs would be kept in {folder}.", "Measure the files one after another, each with its own --out."
        )
    return trials


def _of_file(path: Path, planned: Sequence[Planned], version: Version) -> list[Trial]:
    """The runs of a file under names that tell the versions apart, as `models` in the file would."""
    if not planned:
        raise InputError(f"{path} has no runs.", "Name data and runs in it.")
    alone = len({one.run_name for one in planned}) == 1
    trials = []
    for one in planned:
        # Where a file names models, a run that stands alone is called by the model's name.
        run = one.experiment.method if one.run_name == version.model else one.run_name
        name = version.name if alone else f"{run}, {version.name}"
        experiment = replace(one.experiment, name=f"{name} on {one.data_name}")
        trials.append(Trial(version, run, replace(one, run_name=name, experiment=experiment)))
    return trials


async def measure(
    trials: Sequence[Trial],
    out: Path,
    ways: Ways,
    *,
    at_once: int = 1,
    on_progress: Listener = lambda trial, progress: None,
) -> Measured:
    """Make all runs that are not finished, and say what they came to.

    One version after another, so that no two are in memory at once; `at_once` runs of it share its batch. A judge of
    boundaries is opened when everything is asked.
    """
    indexes: dict[tuple[Path, ...], Path] = {}
    summaries: dict[Trial, Mapping[str, Any]] = {}
    for name in dict.fromkeys(trial.version.name for trial in trials):
        some = [trial for trial in trials if trial.version.name == name]
        model = open_model(some[0].version.model)
        try:
            made = await _make(some, model, out, ways, at_once, indexes, on_progress)
        finally:
            await model.aclose()
        summaries |= dict(zip(some, made, strict=True))
    bounds = {trial: trial.planned for trial in trials if trial.boundary}
    # What failed was asked again just now, if it was to be.
    told = await measure_all(list(bounds.values()), out, replace(ways, retry_failed=False))
    runs = [(trial, summary) for trial, summary in summaries.items() if trial not in bounds]
    named = {trial.planned.run_name: trial for trial in bounds}
    return Measured(runs, [(named[one["model"]], one) for one in told])


async def _make(
    trials: Sequence[Trial],
    model: Model,
    out: Path,
    ways: Ways,
    at_once: int,
    indexes: dict[tuple[Path, ...], Path],
    on_progress: Listener,
) -> list[dict[str, Any]]:
    """The runs of one version, so many at the same time."""
    turn = asyncio.Semaphore(at_once)

    async def make(trial: Trial) -> dict[str, Any]:
        async with turn:
            folder = out / trial.planned.folder
            try:
                wanted = _with_index(trial, out / "indexes", indexes)
                return await run_experiment(
                    wanted, folder, ways, model=model, on_progress=lambda progress: on_progress(trial, progress)
                )
            except HoptreeError as error:
                error.cause = f"{trial.planned.experiment.name}: {error.cause}"
                raise

    return await together(make(trial) for trial in trials)


def _with_index(trial: Trial, folder: Path, made: dict[tuple[Path, ...], Path]) -> Experiment:
    """What is to be run, with an index of its corpora; both answers of a boundary are judged together, in the end."""
    planned = trial.planned
    if trial.boundary:
        return replace(planned.experiment, judge="", judge_base_url="")
    if not planned.corpora:
        return planned.experiment
    if planned.corpora not in made:
        made[planned.corpora] = index_for(planned.corpora, folder)
    return replace(planned.experiment, corpus=str(made[planned.corpora]))
