"""The tables of a report: results by data set, type and hops, means over data sets, and what runs depend on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hoptree.evaluation.report.answering_modules import module_tables
from hoptree.evaluation.report.boundary import boundary_tables
from hoptree.evaluation.report.hypothesis_tables import errors_table, hypothesis_tables, hypothesis_tables_by_data
from hoptree.evaluation.report.lookups import draws_table, lookup_tables, searches_by_data
from hoptree.evaluation.report.measures import (
    COSTS,
    RARE_SCORES,
    SCORES,
    TITLES,
    YES_NO,
    DataGroup,
    Run,
    best_run,
    has_score,
    mean_cost,
    mean_score,
    row_of_runs,
)
from hoptree.evaluation.report.run_tables import judges_table, replies_table, routes_table, warnings_table
from hoptree.evaluation.report.tables import NOTES, Number, Table, TableRow, count, make_table

PARTS = ("type", "hops")
_SPLIT = ("em", "f1")
_OVERALL = ("em", "f1", "judge")
"""The scores that TAIKC's Table 2 averages."""
_RUN_COLUMNS = (
    *("Data", "Method", "Options", "Model", "Retriever", "Graph", "Fidelity", "Prompts", "Data digest", "Version"),
    *("Changed under way", "Folder"),
)


def tables_of(groups: Sequence[DataGroup]) -> list[Table]:
    """Return all tables in the order they are printed."""
    tables = [table for group in groups for table in group_tables(group)]
    return [*tables, *overall_tables(groups), *boundary_tables(groups), runs_table(groups)]


def group_tables(group: DataGroup) -> list[Table]:
    """Return the tables of one data set."""
    tables: list[Table | None] = [_results(group)]
    for part in PARTS:
        members = groups_by(group, part)
        if len(members) > 1:
            tables += [_split(group, part, members, metric) for metric in _SPLIT]
    tables += [*module_tables(group), *hypothesis_tables(group), *lookup_tables(group)]
    tables += [draws_table(group), errors_table(group), judges_table(group), routes_table(group)]
    tables += [replies_table(group), warnings_table(group), _failures(group)]
    return [table for table in tables if table is not None]


def groups_by(group: DataGroup, part: str) -> dict[str, set[str]]:
    """Return the ids of the questions of each type, or of each number of hops; "none" holds those without."""
    ids: dict[str, set[str]] = {}
    for run in group.runs:
        for row in run.rows:
            ids.setdefault(str(getattr(row, part) or "none"), set()).add(row.id)
    return dict(sorted(ids.items())) if set(ids) != {"none"} else {}


def _results(group: DataGroup) -> Table:
    scores = (*SCORES, *(name for name in RARE_SCORES if has_score(group.runs, name)))
    best = {name: best_run(group.runs, name) for name in scores}
    rows = []
    for run in group.runs:
        asked = Number(len(run.rows), digits=0, after="" if run.finished else f"of {run.total:,} (not finished)")
        failed = count(sum(bool(row.error) for row in run.rows))
        abstained = count(sum(row.abstained and not row.error for row in run.rows))
        means = [(mean_score(run, name), best[name] is run) for name in scores]
        marked = [replace(mean, best=True) if mean and is_best else mean for mean, is_best in means]
        costs = [mean_cost(run, cost) for cost in COSTS.values()]
        rows.append(TableRow(run.label, run.id, (asked, failed, abstained, *marked, *costs)))
    columns = (
        *("Questions", "Failed", "Abstained"),
        *(TITLES[name] for name in scores),
        *(cost.title for cost in COSTS.values()),
    )
    notes = (*NOTES["results"], *(NOTES["yes_no"] if YES_NO in scores else ()))
    return Table(f"{group.name}: {group.questions:,} questions", columns, tuple(rows), notes)


def _split(group: DataGroup, part: str, members: Mapping[str, set[str]], metric: str) -> Table | None:
    rows = [run.row(mean_score(run, metric, ids) for ids in members.values()) for run in group.runs]
    columns = [f"{name} (n={len(ids):,})" for name, ids in members.items()]
    return make_table(f"{group.name}: {TITLES[metric]} by {part}", columns, rows)


def _failures(group: DataGroup) -> Table | None:
    times = [(run, Counter(row.error for row in run.rows if row.error)) for run in group.runs]
    kinds = sorted({kind for _, errors in times for kind in errors})
    rows = [run.row(count(errors[kind]) for kind in kinds) for run, errors in times if kinds]
    return make_table(f"{group.name}: questions that failed", kinds, rows, "They count as wrong.")


def overall_tables(groups: Sequence[DataGroup]) -> list[Table]:
    """Return the tables of what was run on every one of several data sets."""
    runs = runs_on_all(groups)
    if not runs:
        return []
    searches = searches_by_data(groups, runs)
    return [_overall(groups, runs), *hypothesis_tables_by_data(groups, runs), *([searches] if searches else [])]


def _overall(groups: Sequence[DataGroup], everywhere: Mapping[str, Sequence[Run]]) -> Table:
    """Return means over data sets, each data set counting the same."""
    known = [name for name in _OVERALL if any(has_score(runs, name) for runs in everywhere.values())]
    rows = []
    for label, runs in everywhere.items():
        scores = [[mean_score(run, name) for run in runs] for name in known]
        flat = [score for by_data in scores for score in by_data]
        name = label if all(run.finished for run in runs) else f"{label} (not finished)"
        rows.append(row_of_runs(name, runs, (mean_of(flat), *map(mean_of, scores), *flat)))
    means = [f"Mean {TITLES[name]}" for name in known]
    columns = ("Average", *means, *(f"{group.name} {TITLES[name]}" for name in known for group in groups))
    note = "Each data set counts the same in the means. Average: of all the scores to the right of the means."
    return Table(f"All {len(groups)} data sets", columns, tuple(rows), (note,))


def runs_on_all(groups: Sequence[DataGroup]) -> dict[str, list[Run]]:
    """Return what was run on every one of several data sets, by its label."""
    by_label = [{run.label: run for run in group.runs} for group in groups]
    labels = [run.label for run in groups[0].runs if all(run.label in runs for runs in by_label)]
    return {label: [runs[label] for runs in by_label] for label in labels} if len(groups) > 1 else {}


def mean_of(cells: Sequence[Number | None]) -> Number | None:
    """Return the mean of data sets, each counting the same; None if one of them has no figure."""
    values = [cell.value for cell in cells if cell is not None]
    return Number(sum(values) / len(values)) if values and len(values) == len(cells) else None


def runs_table(groups: Sequence[DataGroup]) -> Table:
    """Return what each run depends on: what must be the same to reproduce its figures."""
    rows = []
    for group in groups:
        for run in group.runs:
            rests_on, experiment = run.about["rests_on"], run.about["experiment"]
            cells = (
                group.name,
                run.method,
                ", ".join(f"{name}={value}" for name, value in run.options.items()),
                str(experiment.get("model", "")),
                _retriever(experiment) if rests_on.get("corpus") else "none",
                str(rests_on.get("graph") or "none"),
                str(run.about.get("fidelity", "")),
                str(rests_on.get("prompts", "")),
                str(rests_on.get("data", ""))[:12],
                str(rests_on.get("version", "")),
                _changes(run),
                str(run.folder),
            )
            rows.append(run.row(cells))
    return Table("Runs, and what they rest on", _RUN_COLUMNS, tuple(rows))


def _changes(run: Run) -> str:
    """Return what the outcomes depend on, if that is not the same for all of them."""
    times = Counter(row.rests_on for row in run.rows)
    if len(times) > 1:
        (first, number), *others = times.items()
        return ", ".join((f"{number:,} rest on {first}", *(f"{more:,} on {other}" for other, more in others)))
    return f"{len(run.about['changes'])} times" if run.about.get("changes") else "no"


def _retriever(experiment: Mapping[str, object]) -> str:
    return " + ".join(str(name) for name in (experiment.get("retriever"), experiment.get("rerank")) if name)
