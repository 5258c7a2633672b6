"""The plot of who answered: a bar a run, divided among the modules of its method."""

from __future__ import annotations

from hoptree.evaluation.report.figures import Figure
from hoptree.evaluation.report.modules import modules_of
from hoptree.evaluation.report.plots import shares
from hoptree.evaluation.report.runs import DataGroup

__all__ = ["module_figures"]


def module_figures(group: DataGroup, name: str) -> list[Figure]:
    """One for a data set with runs whose method has modules; `name` begins its ids."""
    known = [(run, modules) for run in group.runs if (modules := modules_of(run))]
    if not known:
        return []
    series = list(dict.fromkeys(module for _, modules in known for module in modules))
    rows = [(run.label, [len(modules.get(module, ())) / len(run.rows) for module in series]) for run, modules in known]
    title = f"{group.name}: the module that answered"
    plot = shares(f"{name}-modules", title, series, rows, "share of questions, %")
    ids = tuple(dict.fromkeys(run.id for run, _ in known))
    return [Figure(title, "Of the question itself, not of its sub-questions.", plot, tuple(enumerate(series)), ids)]
