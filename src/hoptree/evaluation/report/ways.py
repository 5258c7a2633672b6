"""Which way a method chose for each question, where it chooses: a router that always says the same is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from hoptree.evaluation.report.measures import mean_score
from hoptree.evaluation.report.runs import DataGroup, Run
from hoptree.evaluation.report.some_events import some_events
from hoptree.evaluation.report.tables import Number, Table, TableRow
from hoptree.evaluation.run_folder import TRACES

__all__ = ["ways_of", "ways_table"]

_MARKS = (b'"decision"',)
_KINDS = ("route", "need", "retrieve", "ended", "agreement")
"""Decisions that tell how a question was answered; of several kinds the first that there is."""
_SAID = {
    "route": ("documents", "memory"),
    "need": ("documents", "memory"),
    "retrieve": ("documents", "memory"),
    "agreement": ("chains agree", "chains disagree"),
}
_LETTERS = 80
_COLUMNS = ("Questions", "Share, %", "EM", "F1")
_NOTE = (
    "Of the questions of a run: how many were answered in each way that the method chose, or how its search ended, and "
    "how well. A second way (→) was chosen after the first one's answer was not believed. Where one way has nearly all "
    "questions, the run measures that way, and not the choice."
)


def ways_table(group: DataGroup) -> Table | None:
    """A row for every way of every run; None where no run chooses."""
    rows = []
    for run in group.runs:
        ways = ways_of(run)
        told = sum(map(len, ways.values()))
        for way, ids in sorted(ways.items(), key=lambda one: (-len(one[1]), one[0])):
            count, share = Number(len(ids), digits=0), Number(100 * len(ids) / told)
            scores = (mean_score(run, "em", ids), mean_score(run, "f1", ids))
            rows.append(TableRow(f"{run.named}: {way}", run.id, (count, share, *scores)))
    return Table(f"{group.name}: ways chosen", _COLUMNS, tuple(rows), (_NOTE,)) if rows else None


def ways_of(run: Run) -> dict[str, set[str]]:
    """The ids of the questions of each way; those of which nothing is told are left out."""
    path = run.folder / TRACES
    try:
        known = path.stat()
    except OSError:
        return {}
    by_trace = _read(path, known.st_size, known.st_mtime_ns)
    found: dict[str, set[str]] = {}
    for row in run.rows:
        if row.trace in by_trace:
            found.setdefault(by_trace[row.trace], set()).add(row.id)
    return found


@lru_cache(64)
def _read(path: Path, size: int, changed: int) -> Mapping[str, str]:
    """By trace; a report's page and its tables both ask for it."""
    decided: dict[str, list[tuple[str, str]]] = {}
    for event in some_events(path, _MARKS, lambda event: event["event"] == "decision" and event["kind"] in _KINDS):
        decided.setdefault(event["run"], []).append((event["kind"], _said(event["kind"], event.get("value"))))
    return {trace: _way(some) for trace, some in decided.items()}


def _said(kind: str, value: Any) -> str:
    yes, no = _SAID.get(kind, ("yes", "no"))
    return (yes if value else no) if isinstance(value, bool) else str(value)[:_LETTERS]


def _way(decided: Sequence[tuple[str, str]]) -> str:
    kind = next(kind for kind in _KINDS if any(kind == one for one, _ in decided))
    return " → ".join(dict.fromkeys(value for one, value in decided if one == kind))
