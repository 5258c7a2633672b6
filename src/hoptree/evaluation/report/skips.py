"""Whether answers change where memory saves a search: a run beside the same one without memory (MIND)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from hoptree.evaluation.metrics import normalise
from hoptree.evaluation.report.alike import all_but, option_of
from hoptree.evaluation.report.lookups import LookUps
from hoptree.evaluation.report.measures import mean_score, scores_of
from hoptree.evaluation.report.runs import DataGroup, Run
from hoptree.evaluation.report.tables import Cell, Number, Table, TableRow

__all__ = ["skips_table"]

_NOTE = (
    "Runs with memory; each is held against the run that differs in memory alone (n/a where there is none). Questions "
    "with skips: those for which memory saved a search at least once. Other answer: not the same as without memory, "
    "in normal form. Memory also shows its facts to the model, so answers change without any skip, too: the last "
    "column is what to hold the others against. Lost and won: of the questions with skips, those that are right (EM) "
    "only without memory, and only with it."
)


def skips_table(group: DataGroup, known: Mapping[Path, Mapping[str, LookUps]]) -> Table | None:
    """A row for each run that remembers; None where no run does."""
    without = {all_but(run, "memory"): run for run in group.runs if option_of(run, "memory") is False}
    rows = []
    for run in group.runs:
        if option_of(run, "memory") is True and run.folder in known:
            cells = _cells(run, known[run.folder], without.get(all_but(run, "memory")))
            rows.append(TableRow(run.named, run.id, cells))
    columns = (
        "Skips",
        "Questions with skips",
        "Held against",
        "Other answer, skipped, %",
        "EM, skipped",
        "EM, without memory",
        "Lost",
        "Won",
        "Other answer, not skipped, %",
    )
    return Table(f"{group.name}: what skipping a search changed", columns, tuple(rows), (_NOTE,)) if rows else None


def _cells(run: Run, look_ups: Mapping[str, LookUps], other: Run | None) -> tuple[Cell, ...]:
    skipped = {name for name, one in look_ups.items() if one.skipped}
    counts = (Number(sum(one.skipped for one in look_ups.values()), digits=0), Number(len(skipped), digits=0))
    if other is None:
        return (*counts, None, None, mean_score(run, "em", skipped), None, None, None, None)
    both = {row.id for row in run.rows} & {row.id for row in other.rows}
    there = skipped & both
    ours, theirs = (scores_of(one, "em") for one in (run, other))
    return (
        *counts,
        other.named,
        _changed(run, other, there),
        mean_score(run, "em", there),
        mean_score(other, "em", there),
        Number(sum((theirs[name] or 0) > (ours[name] or 0) for name in there), digits=0),
        Number(sum((ours[name] or 0) > (theirs[name] or 0) for name in there), digits=0),
        _changed(run, other, both - skipped),
    )


def _changed(run: Run, other: Run, among: Collection[str]) -> Number | None:
    ours, theirs = ({row.id: normalise(row.answer) for row in one.rows} for one in (run, other))
    return Number(100 * sum(ours[name] != theirs[name] for name in among) / len(among)) if among else None
