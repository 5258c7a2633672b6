"""How many questions of each run came with a warning, by its kind, counted from the traces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hoptree.evaluation.report.runs import DataGroup, Run
from hoptree.evaluation.report.some_events import some_events
from hoptree.evaluation.report.tables import Number, Table, TableRow
from hoptree.evaluation.run_folder import TRACES
from hoptree.evaluation.warned import warned_of

__all__ = ["warnings_table"]

_MARKS = (b'"warning"',)
_NOTE = "Questions whose answer came with a warning of this kind; hoptree show tells its words. n/a: no traces."


def warnings_table(group: DataGroup) -> Table | None:
    """A row for every run of a data set, a column for every kind; none where nothing warned."""
    counts = {run.id: _counted(run) for run in group.runs}
    kinds = sorted({kind for found in counts.values() for kind in found or ()})
    if not kinds:
        return None
    rows = []
    for run in group.runs:
        found = counts[run.id]
        cells = tuple(None if found is None else Number(found.get(kind, 0), digits=0) for kind in kinds)
        rows.append(TableRow(run.named, run.id, cells))
    return Table(f"{group.name}: questions with a warning", tuple(kinds), tuple(rows), (_NOTE,))


def _counted(run: Run) -> Mapping[str, int] | None:
    """Questions that have an outcome, by the kinds they warned of; None without traces."""
    path = run.folder / TRACES
    if not path.exists():
        return None
    asked = {row.trace for row in run.rows}
    warned = warned_of(event for event in some_events(path, _MARKS, _counts) if event["run"] in asked)
    return {kind: found.questions for kind, found in warned.items()}


def _counts(event: Mapping[str, Any]) -> bool:
    return event["event"] == "warning" and isinstance(event["kind"], str) and isinstance(event["message"], str)
