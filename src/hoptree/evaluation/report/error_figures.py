"""The plot of what went wrong: a bar a run, divided among the classes of errors (TreeQA, Figure 6)."""

from __future__ import annotations

from hoptree.evaluation.report.errors import CLASSES, errors_of
from hoptree.evaluation.report.figures import Figure
from hoptree.evaluation.report.plots import shares
from hoptree.evaluation.report.runs import DataGroup

__all__ = ["error_figures"]


def error_figures(group: DataGroup, name: str) -> list[Figure]:
    """One for a data set with runs that validate hypotheses and have wrong answers; `name` begins its ids."""
    known = [(run, found) for run in group.runs if any((found := errors_of(run)).values())]
    if not known:
        return []
    series = [one for one in CLASSES if any(found[one] for _, found in known)]
    rows = [(run.label, [len(found[one]) / sum(map(len, found.values())) for one in series]) for run, found in known]
    title = f"{group.name}: what went wrong, guessed"
    plot = shares(f"{name}-errors", title, series, rows, "share of answers without an exact match, %")
    ids = tuple(dict.fromkeys(run.id for run, _ in known))
    caption = "Guessed by the rules below the table of the same name."
    return [Figure(title, caption, plot, tuple(enumerate(series)), ids)]
