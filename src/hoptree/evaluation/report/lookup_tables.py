"""What looking up by doubt came to: triggers, searches and memory, and what filters drop (MIND, Tables 1 and 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hoptree.evaluation.report.alike import option_of
from hoptree.evaluation.report.bridges import bridges_of
from hoptree.evaluation.report.lookups import FILTERS, LookUps, look_ups_of
from hoptree.evaluation.report.measures import COSTS, mean_cost, mean_figure
from hoptree.evaluation.report.runs import DataGroup, Run
from hoptree.evaluation.report.skips import skips_table
from hoptree.evaluation.report.tables import Cell, Number, Table, TableRow

__all__ = ["lookup_tables", "searches_by_data"]

Known = Mapping[Path, Mapping[str, LookUps]]
"""What was looked up in runs, by question id."""
_TITLES = {"cot": "CoT", "confidence": "confidence"}
_LOOKED_UP_NOTE = (
    "Means of one question with 95 % intervals. Judged: sentences or steps that were held against a threshold; "
    "triggers: those that were in doubt. Searches: MIND's robust form searches twice where the first finds nothing "
    "new, FLARE once for the question itself. Skipped: triggers that were not searched for, since memory had the "
    "fact; facts and conflicts: what memory held in the end (subjects and relations with different objects by "
    "different passages). n/a: the run has no memory."
)
_FILTERS_NOTE = (
    "Each search counts for itself, so a name counts as often as it might be searched with. A filter is shown the "
    "names that the one before it left; those that the robust form never drops, and those in doubt, which it does not "
    "search with, are shown to none. CoT not understood: replies that named no candidate, so that all were kept."
)
_BRIDGES_NOTE = (
    "Bridges: supporting titles that the question does not name (what stands in brackets behind a title left out). "
    "Named: those that were among the names before some search, and so could be dropped at all; kept: how often a "
    "bridge that a filter was shown was still there behind it; searched with: of those named, those that were kept "
    "before one search or more."
)


def lookup_tables(group: DataGroup) -> list[Table]:
    """The tables about the runs of a data set that look up what they doubt; none where there is no such run."""
    known = {run.folder: found for run in group.runs if (found := look_ups_of(run))}
    runs = [run for run in group.runs if run.folder in known]
    if not runs:
        return []
    filtering = [run for run in runs if any(one.filterings for one in known[run.folder].values())]
    tables = (_looked_up(group, runs, known), _filters(group, filtering, known), skips_table(group, known))
    return [table for table in tables if table is not None]


def _looked_up(group: DataGroup, runs: Sequence[Run], known: Known) -> Table:
    """MIND's Table 2, and what it rests on."""
    rows = []
    for run in runs:
        found = list(known[run.folder].values())
        remembers = option_of(run, "memory") is True
        cells: tuple[Cell, ...] = (
            mean_figure([one.judged for one in found], 2),
            mean_figure([one.triggers for one in found], 2),
            Number(100 * sum(bool(one.triggers) for one in found) / len(found)),
            mean_cost(run, COSTS["searches"]),
            mean_figure([one.skipped for one in found], 2) if remembers else None,
            mean_figure([one.facts or 0 for one in found], 1) if remembers else None,
            mean_figure([one.conflicts for one in found], 2) if remembers else None,
            mean_cost(run, COSTS["calls"]),
            mean_cost(run, COSTS["tokens"]),
        )
        rows.append(TableRow(run.named, run.id, cells))
    counts = ("Judged", "Triggers", "Questions that trigger, %", "Searches")
    columns = (*counts, "Skipped by memory", "Facts", "Conflicts", "Calls", "Tokens")
    return Table(f"{group.name}: triggers, searches and memory", columns, tuple(rows), (_LOOKED_UP_NOTE,))


def _filters(group: DataGroup, runs: Sequence[Run], known: Known) -> Table | None:
    """How much each filter drops, and how much of it was needed."""
    rows = [TableRow(run.named, run.id, _filtered(run, known[run.folder])) for run in runs]
    columns = (
        "Searches with names",
        "Names each",
        *(f"Dropped by {_TITLES[place]}, %" for place in FILTERS),
        "Dropped, %",
        "CoT not understood, %",
        "Bridges",
        "Named, %",
        *(f"Kept by {_TITLES[place]}, %" for place in FILTERS),
        "Kept, %",
        "Searched with, %",
    )
    notes = (_FILTERS_NOTE, _BRIDGES_NOTE)
    return Table(f"{group.name}: what filters drop", columns, tuple(rows), notes) if rows else None


def _filtered(run: Run, found: Mapping[str, LookUps]) -> tuple[Cell, ...]:
    filterings = [filtering for one in found.values() for filtering in one.filterings]
    names = sum(len(one.names) for one in filterings)
    asked = sum("cot" in one.filters and bool(one.reached("cot")) for one in filterings)
    bridges = bridges_of((row, found[row.id]) for row in run.rows if row.id in found)
    return (
        Number(len(filterings), digits=0),
        Number(names / len(filterings)),
        *(
            _share(
                sum(name.dropped_by == place for one in filterings for name in one.names),
                sum(len(one.reached(place)) for one in filterings if place in one.filters),
            )
            for place in FILTERS
        ),
        _share(sum(bool(name.dropped_by) for one in filterings for name in one.names), names),
        _share(sum(one.unread for one in found.values()), asked),
        Number(bridges.titles, digits=0),
        _share(bridges.found, bridges.titles),
        *(_share(bridges.kept[place], bridges.reached[place]) for place in (*FILTERS, "all")),
        _share(bridges.used, bridges.found),
    )


def _share(some: int, of: int) -> Number | None:
    return Number(100 * some / of) if of else None


def searches_by_data(groups: Sequence[DataGroup], everywhere: Mapping[str, Sequence[Run]]) -> Table | None:
    """MIND's Table 2 as the paper prints it, for what was run on every data set; None without a doubting method."""
    rows = []
    for label, runs in everywhere.items():
        if all(map(look_ups_of, runs)):
            cells = tuple(mean_cost(run, COSTS["searches"]) for run in runs)
            rows.append(TableRow(label, " ".join(run.id for run in runs), cells))
    columns = tuple(group.name for group in groups)
    note = "Means of one question with 95 % intervals, for methods that look up what they doubt."
    return Table("Searches by data set", columns, tuple(rows), (note,)) if rows else None
