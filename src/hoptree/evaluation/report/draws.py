"""How far results hang on which worked examples are shown: runs that differ in their draw alone (MIND, Table 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean, stdev

from hoptree.evaluation.report.alike import shared_name, varied
from hoptree.evaluation.report.lookups import look_ups_of
from hoptree.evaluation.report.measures import COSTS, YES_NO, mean_cost, mean_score
from hoptree.evaluation.report.runs import DataGroup, Run
from hoptree.evaluation.report.tables import Cell, Number, Table, TableRow

__all__ = ["DRAW", "draws_table"]

DRAW = "draw"
_NOTE = (
    "Runs that differ in which worked examples they show alone: the mean of their means, each draw counting the same, "
    "and its standard deviation over draws (of a sample). It says nothing of chance among questions, which the "
    "intervals of the first table do."
)


def _triggers(run: Run) -> Number | None:
    found = look_ups_of(run)
    return Number(mean(one.triggers for one in found.values()), digits=2) if found else None


_MEASURES: dict[str, Callable[[Run], Number | None]] = {
    "EM": lambda run: mean_score(run, "em"),
    "F1": lambda run: mean_score(run, "f1"),
    YES_NO.title: lambda run: mean_score(run, YES_NO.name),
    "Triggers": _triggers,
    "Searches": lambda run: mean_cost(run, COSTS["searches"]),
    "Tokens": lambda run: mean_cost(run, COSTS["tokens"]),
}


def draws_table(group: DataGroup) -> Table | None:
    """A row for all draws of a run together; None where no run was made with two."""
    asked = any(mean_score(run, YES_NO.name) is not None for run in group.runs)
    measures = {name: measure for name, measure in _MEASURES.items() if asked or name != YES_NO.title}
    rows = []
    for runs in varied(group.runs, DRAW):
        method = str(runs[0].about["rests_on"].get("method", ""))
        name = shared_name(runs) or method
        if not all(run.finished for run in runs):
            name += " (not finished)"
        cells: list[Cell] = [Number(len(runs), digits=0)]
        for measure in measures.values():
            cells += _spread([measure(run) for run in runs])
        rows.append(TableRow(name, " ".join(run.id for run in runs), tuple(cells)))
    columns = ("Draws", *(column for name in measures for column in (name, f"{name}, sd")))
    return Table(f"{group.name}: over demonstration draws", columns, tuple(rows), (_NOTE,)) if rows else None


def _spread(found: Sequence[Number | None]) -> tuple[Number | None, Number | None]:
    """Mean and standard deviation; n/a where one of the draws has no figure."""
    known = [one for one in found if one is not None]
    if len(known) < len(found) or len(known) < 2:
        return None, None
    values, digits = [one.value for one in known], max(one.digits for one in known)
    return Number(mean(values), digits=digits), Number(stdev(values), digits=digits + 1)
