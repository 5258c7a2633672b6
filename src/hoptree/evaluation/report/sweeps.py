"""What an option is worth: score against its value, over runs that differ in nothing else (RA-ISF, Figures 2 to 4)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hoptree.evaluation.report.alike import all_but, shared_name
from hoptree.evaluation.report.draws import DRAW
from hoptree.evaluation.report.figures import Figure
from hoptree.evaluation.report.measures import SCORES, mean_score
from hoptree.evaluation.report.plots import Dot, swept
from hoptree.evaluation.report.runs import DataGroup, Run

__all__ = ["Sweep", "sweep_figures", "sweeps_of"]

_METRICS = ("em", "f1")
_LEVELS = 6
"""Runs of other methods that are drawn beside the lines; more would hide them."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """The runs that differ in the value of one option alone, in its order; `name` tells them from other such runs."""

    name: str
    runs: tuple[tuple[float, Run], ...]


def sweeps_of(group: DataGroup) -> dict[str, list[Sweep]]:
    """By option: those that have numbers for values, and two or more of them; a draw is no quantity."""
    options = dict.fromkeys(name for run in group.runs for name in _numbers(run) if name != DRAW)
    found: dict[str, list[Sweep]] = {}
    for option in options:
        alike: dict[str, dict[float, Run]] = {}
        for run in group.runs:
            if (value := _numbers(run).get(option)) is not None:
                alike.setdefault(all_but(run, option), {}).setdefault(value, run)
        lines = [tuple(sorted(some.items(), key=lambda one: one[0])) for some in alike.values() if len(some) > 1]
        if lines:
            found[option] = [Sweep(name, line) for name, line in zip(_names(lines), lines, strict=True)]
    return found


def _numbers(run: Run) -> dict[str, float]:
    options = run.about["rests_on"].get("options")
    said = options.items() if isinstance(options, Mapping) else ()
    return {str(name): value for name, value in said if type(value) in (int, float) and math.isfinite(value)}


def _names(lines: Sequence[Sequence[tuple[float, Run]]]) -> list[str]:
    """What the names of all runs of a line share, if that tells the lines apart."""
    methods = [str(line[0][1].about["rests_on"].get("method", "")) for line in lines]
    if len(lines) == 1:
        return methods
    for more in (_common, _model):
        names = [
            f"{method}, {said}" if (said := more(line)) else method for method, line in zip(methods, lines, strict=True)
        ]
        if len(set(names)) == len(names):
            return names
    return [f"{method}, as {line[0][1].label}" for method, line in zip(methods, lines, strict=True)]


def _common(line: Sequence[tuple[float, Run]]) -> str:
    return shared_name([run for _, run in line])


def _model(line: Sequence[tuple[float, Run]]) -> str:
    return str(line[0][1].about["experiment"].get("model", ""))


def sweep_figures(group: DataGroup, name: str) -> list[Figure]:
    """Two plots an option that is swept, one a score; `name` begins their ids."""
    return [
        figure
        for place, (option, sweeps) in enumerate(sweeps_of(group).items())
        for metric in _METRICS
        if (figure := _figure(group, option, sweeps, metric, f"{name}-{metric}{place}"))
    ]


def _figure(group: DataGroup, option: str, sweeps: Sequence[Sweep], metric: str, name: str) -> Figure | None:
    score = next(score.title for score in SCORES if score.name == metric)
    lines = [
        [dot for value, run in sweep.runs if (dot := _dot(run, metric, series, sweep.name, value))]
        for series, sweep in enumerate(sweeps)
    ]
    others = _others(group, sweeps)
    levels = [dot for place, run in enumerate(others, len(sweeps)) if (dot := _dot(run, metric, place, run.label, 0))]
    if not any(lines):
        return None
    title = f"{group.name}: {score} by {option}"
    plot = swept(name, title, option, score, [line for line in lines if line], levels)
    drawn = [run for sweep in sweeps for _, run in sweep.runs] + others
    legend = [sweep.name for sweep in sweeps] + [run.named for run in others]
    caption = "Runs that differ in this option alone; lines up and down are 95 % intervals."
    if any(not run.finished for run in drawn):
        caption += " Some are not finished."
    ids = tuple(dict.fromkeys(run.id for run in drawn))
    return Figure(title, caption, plot, tuple(enumerate(legend)), ids, shaped=True)


def _others(group: DataGroup, sweeps: Sequence[Sweep]) -> list[Run]:
    """The runs of other methods, to hold the lines against."""
    methods = {run.about["rests_on"].get("method") for sweep in sweeps for _, run in sweep.runs}
    others = [run for run in group.runs if run.about["rests_on"].get("method") not in methods]
    return others if len(others) <= _LEVELS else []


def _dot(run: Run, metric: str, series: int, name: str, value: float) -> Dot | None:
    found = mean_score(run, metric)
    return None if found is None else Dot(series, name, value, found.value, found.low, found.high)
