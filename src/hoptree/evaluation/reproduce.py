"""Repeat a run, and compare its answers and scores."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hoptree.core.errors import HoptreeError, InputError
from hoptree.evaluation.boundary import read_pairs
from hoptree.evaluation.datasets.reading import read_examples
from hoptree.evaluation.experiment import BOUNDARY_METHOD, BoundaryExperiment, Experiment, experiment_of
from hoptree.evaluation.run_folder import RUN, Row, read_rows, read_run
from hoptree.evaluation.running import Progress, RunOptions, run_experiment
from hoptree.evaluation.statistics import SIGNIFICANCE, PairedComparison, compare_pair, holm

METRICS = ("em", "f1")
TOLERANCE = 0.05  # share of a local model's answers that may differ by rounding
_HERE = ("local", "hf", "scripted")


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A run compared with its repetition."""

    run: str
    name: str
    folder: Path
    again: Path
    not_the_same: Mapping[str, tuple[Any, Any]]  # old and new value of every changed setting
    questions: int
    unlike: tuple[str, ...]  # ids of questions with another answer
    failed: tuple[int, int]
    failed_twice: int
    compared: Mapping[str, PairedComparison]  # run b is the repetition
    tolerance: float | None  # share of answers that may differ; None for any

    @property
    def identical(self) -> int:
        return self.questions - len(self.unlike) - self.failed_twice

    @property
    def share(self) -> float:
        """The share of answers that differ."""
        return len(self.unlike) / (self.questions - self.failed_twice)

    @property
    def reproduced(self) -> bool | None:
        """Whether the outcome is the same; None if too few answers differ for a test."""
        if self.reasons:
            return False
        least = len(METRICS) * 2.0 ** (1 - len(self.unlike))
        return None if self.share > TOLERANCE and least >= SIGNIFICANCE else True

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons why the run is not reproduced; empty if it is."""
        reasons = [
            f"{name.upper()} differs by more than chance"
            for name, pair in self.compared.items()
            if pair.adjusted_p < SIGNIFICANCE
        ]
        if self.tolerance is not None and self.share > self.tolerance:
            reasons.append(f"{self.share:.1%} of the answers differ, and {self.tolerance:.1%} may")
        return tuple(reasons)

    @property
    def verdict(self) -> str:
        f1 = self.compared["f1"]
        outcome = (
            f"{self.identical:,} of {self.questions:,} answers identical, "
            f"F1 {100 * f1.mean_b:.1f} against {100 * f1.mean_a:.1f}"
        )
        if self.reproduced is None:
            return f"cannot be told: {outcome}; {len(self.unlike)} that differ are too few for a test of the scores"
        return f"reproduced: {outcome}" if self.reproduced else f"not reproduced: {outcome}; {'; '.join(self.reasons)}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "name": self.name,
            "folder": str(self.folder),
            "again": str(self.again),
            "not_the_same": {name: {"was": was, "is": now} for name, (was, now) in self.not_the_same.items()},
            "questions": self.questions,
            "identical": self.identical,
            "unlike": list(self.unlike),
            "failed": {"was": self.failed[0], "is": self.failed[1], "both": self.failed_twice},
            "metrics": {name: pair.as_dict() for name, pair in self.compared.items()},
            "tolerance": self.tolerance,
            "reproduced": self.reproduced,
            "reasons": list(self.reasons),
            "verdict": self.verdict,
        }


async def reproduce(
    folder: Path,
    out: Path | None = None,
    *,
    moved: Mapping[str, Any] | None = None,
    tolerance: float | None = None,
    on_begin: Callable[[Mapping[str, tuple[Any, Any]], Path], None] = lambda changed, out: None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Reproduction:
    """Repeat a run without cached replies, and compare.

    `moved` are settings with another value now, such as the path of the data. `on_begin` gets the changes before the
    first question. `tolerance` is the share of answers that may differ: by default 5 % for a local model, any for one
    at an endpoint. `out` may hold an interrupted repetition of this run, but no other run.
    """
    run, before = read_run(folder), read_rows(folder)
    if not before:
        raise InputError(f"The run in {folder} has no answers to compare with.", "Finish it first.")
    if all(row.error for row in before):
        cause = f"Every question of the run in {folder} failed: there is nothing to compare with."
        raise InputError(cause, "Ask them again first: the same hoptree run with --retry-failed.")
    kind = BoundaryExperiment if run["rests_on"].get("method") == BOUNDARY_METHOD else Experiment
    experiment = replace(experiment_of(run, kind), judge="", **(moved or {}))
    try:
        data = read_examples(experiment.data).select(row.id for row in before)
    except InputError as error:
        cause = f"The questions of the run cannot be asked again: {error.cause}"
        remedy = "Give the command where the run was made, or say where its questions are now: --data FILE"
        raise InputError(cause, remedy) from error
    corpus = experiment.corpus
    if corpus is not None and corpus != "sample" and "://" not in corpus and not Path(corpus).exists():
        cause = f"The index of the run, {corpus}, is not there."
        remedy = "Give the command where the run was made, or say where the index is now: --corpus FOLDER"
        raise InputError(cause, remedy)
    out = _folder_for(out, folder, run["id"])
    changed: dict[str, tuple[Any, Any]] = {}

    def begun(again: Mapping[str, Any]) -> None:
        changed.update(differences(run, again))
        on_begin(changed, out)

    await run_experiment(
        replace(experiment, name=f"{run['name']}, again"),
        out,
        RunOptions(cache=None, reproduces=run["id"]),
        data=data,
        on_begin=begun,
        on_progress=on_progress,
    )
    if tolerance is None and experiment.model.partition("/")[0] in _HERE:
        tolerance = TOLERANCE
    return _compared(run, folder, before, out, changed, tolerance)


def differences(run: Mapping[str, Any], again: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the settings and environment in which two runs differ, by name."""
    old, new = run["rests_on"], again["rests_on"]
    changed = {name: (old.get(name), new.get(name)) for name in {**old, **new} if old.get(name) != new.get(name)}
    if len(run["questions"]) != len(again["questions"]):
        changed.pop("questions", None)  # of an unfinished run only the answered questions are repeated
    was, now = (
        {name: known.get(name) for name in ("python", "platform")} | dict(known.get("packages") or {})
        for known in (either.get("environment") or {} for either in (run, again))
    )
    return changed | {
        name: (was.get(name), now.get(name)) for name in sorted({**was, **now}) if was.get(name) != now.get(name)
    }


def _folder_for(out: Path | None, folder: Path, run: str) -> Path:
    """Return the folder of a new or interrupted repetition."""
    if out is None:
        place = folder.resolve()
        names = (f"{place.name}-again{'' if number == 1 else f'-{number}'}" for number in itertools.count(1))
        places = map(place.with_name, names)
        return next(out for out in places if not out.exists() or _is_interrupted(out, run))
    if out.resolve() == folder.resolve() or ((out / RUN).exists() and not _is_interrupted(out, run)):
        cause = f"{out} holds a run already, which is not a repetition of this one that was broken off."
        raise InputError(cause, "Choose an empty or new --out.")
    return out


def _is_interrupted(out: Path, run: str) -> bool:
    try:
        again = read_run(out)
        return again.get("reproduces") == run and len(read_rows(out)) < len(again["questions"])
    except InputError:
        return False


def _compared(
    run: Mapping[str, Any],
    folder: Path,
    before: Sequence[Row],
    out: Path,
    changed: Mapping[str, tuple[Any, Any]],
    tolerance: float | None,
) -> Reproduction:
    after = {row.id: row for row in read_rows(out)}
    failed = sum(bool(row.error) for row in before), sum(bool(row.error) for row in after.values())
    if failed[1] == len(after):
        first = next(iter(after.values()))
        cause = f"Every question failed when it was asked again; the first: {first.error_message}"
        raise HoptreeError(cause, "Nothing was compared. If the endpoint moved, give --base-url.")
    pairs = {
        name: compare_pair(
            {row.id: row.scores.get(name) for row in before}, {key: row.scores.get(name) for key, row in after.items()}
        )
        for name in METRICS
    }
    adjusted = holm([pair.p_value for pair in pairs.values()])
    # Boundary runs have two answers to a question.
    two_settings = run["rests_on"].get("method") == BOUNDARY_METHOD
    was, now = ({pair.id: pair.confident for pair in read_pairs(of)} if two_settings else {} for of in (folder, out))
    unlike = tuple(
        row.id
        for row in before
        if (row.answer, bool(row.error), was.get(row.id))
        != (after[row.id].answer, bool(after[row.id].error), now.get(row.id))
    )
    return Reproduction(
        run=run["id"],
        name=run["name"],
        folder=folder,
        again=out,
        not_the_same=changed,
        questions=len(before),
        unlike=unlike,
        failed=failed,
        failed_twice=sum(bool(row.error and after[row.id].error) for row in before),
        compared={name: replace(pair, adjusted_p=p) for (name, pair), p in zip(pairs.items(), adjusted, strict=True)},
        tolerance=tolerance,
    )
