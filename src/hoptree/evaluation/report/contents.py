"""Which tables a report has: results of each data set, by type and by hops, means over data sets, what runs rest on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from hoptree.evaluation.report.answering_modules import module_tables
from hoptree.evaluation.report.boundary import boundary_tables
from hoptree.evaluation.report.hypothesis_tables import correction_tables, errors_table, tables_by_data
from hoptree.evaluation.report.lookups import draws_table, lookup_tables, searches_by_data
from hoptree.evaluation.report.measures import (
    COSTS,
    RARE,
    SCORES,
    YES_NO,
    DataGroup,
    Run,
    best_of,
    marked,
    mean_cost,
    mean_score,
)
from hoptree.evaluation.report.run_tables import judges_table, replies_table, warnings_table, ways_table
from hoptree.evaluation.report.tables import Cell, Number, Table, TableRow

PARTS = ("type", "hops")
_SPLIT = ("em", "f1")
_OVERALL = ("em", "f1", "judge")
"""TAIKC's Table 2 averages these."""
_NOTES = (
    "Means with 95 % bootstrap intervals: scores in points of 100, costs of one question (money: of 1,000, in the "
    "currency of the prices given, as if no reply had been remembered). A failed question counts as wrong. "
    "Contains: an accepted answer stands in the answer as whole words, which TreeQA and others call Hits@1.",
    "Seconds: from asking to the answer, waiting for other questions' calls included; the critical path leaves that "
    "waiting out.",
    "Bold: better than each other finished run of the table by more than chance (paired permutation test, Holm, "
    "p under 0.05).",
)
_YES_NO_NOTE = "Yes/no: of the questions whose answer is one of the two, how many answers begin with the right one."


def tables_of(groups: Sequence[DataGroup]) -> list[Table]:
    """All tables, in the order they are printed."""
    found = [table for group in groups for table in group_tables(group)]
    return [*found, *overall_tables(groups), *boundary_tables(groups), runs_table(groups)]


def group_tables(group: DataGroup) -> list[Table]:
    """The tables of one data set."""
    tables = [_results(group)]
    for part in PARTS:
        members = groups_by(group, part)
        if len(members) > 1:
            tables += [_split(group, part, members, metric) for metric in _SPLIT]
    tables += [*module_tables(group), *correction_tables(group), *lookup_tables(group)]
    counted = (ways_table(group), replies_table(group), warnings_table(group), _failures(group))
    others = (draws_table(group), errors_table(group), judges_table(group), *counted)
    return [*tables, *filter(None, others)]


def groups_by(group: DataGroup, part: str) -> dict[str, set[str]]:
    """The ids of the questions of each type, or of each number of hops; those that have none are under "none"."""
    found: dict[str, set[str]] = {}
    for run in group.runs:
        for row in run.rows:
            name = row.type if part == "type" else str(row.hops or "")
            found.setdefault(name or "none", set()).add(row.id)
    return {name: found[name] for name in sorted(found)} if set(found) != {"none"} else {}


def _results(group: DataGroup) -> Table:
    counts = ("Questions", "Failed", "Abstained")
    shown = (*SCORES, *(score for score in RARE if _known({"": group.runs}, score.name)))
    columns = (*counts, *(score.title for score in shown), *(cost.title for cost in COSTS.values()))
    best = {score.name: best_of(group.runs, score.name) for score in shown}
    rows = []
    for run in group.runs:
        scores = [marked(mean_score(run, score.name), best[score.name] is run) for score in shown]
        costs = [mean_cost(run, cost) for cost in COSTS.values()]
        failed = _count(sum(bool(row.error) for row in run.rows))
        silent = _count(sum(row.abstained and not row.error for row in run.rows))
        rows.append(TableRow(run.label, run.id, (_asked(run), failed, silent, *scores, *costs)))
    title = f"{group.name}: {group.questions:,} questions"
    return Table(title, columns, tuple(rows), (*_NOTES, _YES_NO_NOTE) if YES_NO in shown else _NOTES)


def _count(count: int) -> Number:
    return Number(count, digits=0)


def _asked(run: Run) -> Number:
    return Number(len(run.rows), digits=0, after="" if run.finished else f"of {run.total:,} (not finished)")


def _split(group: DataGroup, part: str, members: Mapping[str, set[str]], metric: str) -> Table:
    title = next(score.title for score in SCORES if score.name == metric)
    rows = [
        TableRow(run.named, run.id, tuple(mean_score(run, metric, ids) for ids in members.values()))
        for run in group.runs
    ]
    columns = tuple(f"{name} (n={len(ids):,})" for name, ids in members.items())
    return Table(f"{group.name}: {title} by {part}", columns, tuple(rows))


def _failures(group: DataGroup) -> Table | None:
    kinds = sorted({row.error for run in group.runs for row in run.rows if row.error})
    if not kinds:
        return None
    rows = []
    for run in group.runs:
        times = Counter(row.error for row in run.rows)
        rows.append(TableRow(run.named, run.id, tuple(_count(times[kind]) for kind in kinds)))
    return Table(f"{group.name}: questions that failed", tuple(kinds), tuple(rows), ("They count as wrong.",))


def overall_tables(groups: Sequence[DataGroup]) -> list[Table]:
    """The tables of what was run on every one of several data sets."""
    overall = overall_table(groups)
    if overall is None:
        return []
    everywhere = runs_on_all(groups)
    return [overall, *tables_by_data(groups, everywhere), *filter(None, (searches_by_data(groups, everywhere),))]


def overall_table(groups: Sequence[DataGroup]) -> Table | None:
    """Means over data sets for what was run on all of them, each data set counting the same."""
    everywhere = runs_on_all(groups)
    if not everywhere:
        return None
    scores = [score for score in SCORES if score.name in _OVERALL and _known(everywhere, score.name)]
    rows = []
    for label, runs in everywhere.items():
        cells = [[mean_score(run, score.name) for run in runs] for score in scores]
        means = [mean_of(some) for some in cells]
        name = label if all(run.finished for run in runs) else f"{label} (not finished)"
        flat = [cell for some in cells for cell in some]
        rows.append(TableRow(name, " ".join(run.id for run in runs), (mean_of(flat), *means, *flat)))
    columns = [f"{group.name} {score.title}" for score in scores for group in groups]
    return Table(
        f"All {len(groups)} data sets",
        ("Average", *(f"Mean {score.title}" for score in scores), *columns),
        tuple(rows),
        ("Each data set counts the same in the means. Average: of all the scores to the right of the means.",),
    )


def _known(everywhere: Mapping[str, Sequence[Run]], metric: str) -> bool:
    return any(mean_score(run, metric) is not None for runs in everywhere.values() for run in runs)


def runs_on_all(groups: Sequence[DataGroup]) -> dict[str, list[Run]]:
    """What was run on every one of several data sets, by its label."""
    by_label = [{run.label: run for run in group.runs} for group in groups]
    labels = [run.label for run in groups[0].runs if all(run.label in runs for runs in by_label)]
    return {label: [some[label] for some in by_label] for label in labels} if len(groups) > 1 else {}


def mean_of(cells: Sequence[Number | None]) -> Number | None:
    """The mean of data sets, each counting the same; None where one of them has no figure."""
    values = [cell.value for cell in cells if cell is not None]
    return Number(sum(values) / len(values)) if values and len(values) == len(cells) else None


def runs_table(groups: Sequence[DataGroup]) -> Table:
    """What each run rests on: what must be the same for its figures to come out again."""
    rows = []
    for group in groups:
        for run in group.runs:
            rests_on, experiment = run.about["rests_on"], run.about["experiment"]
            cells: tuple[Cell, ...] = (
                group.name,
                str(rests_on.get("method", "")),
                _options(rests_on.get("options")),
                str(experiment.get("model", "")),
                _retriever(experiment, rests_on.get("corpus")),
                str(rests_on.get("graph") or "none"),
                str(run.about.get("fidelity", "")),
                str(rests_on.get("prompts", "")),
                str(rests_on.get("data", ""))[:12],
                str(rests_on.get("version", "")),
                _changed(run),
                str(run.folder),
            )
            rows.append(TableRow(run.named, run.id, cells))
    columns = (
        "Data",
        "Method",
        "Options",
        "Model",
        "Retriever",
        "Graph",
        "Fidelity",
        "Prompts",
        "Data digest",
        "Version",
    )
    return Table("Runs, and what they rest on", (*columns, "Changed under way", "Folder"), tuple(rows))


def _changed(run: Run) -> str:
    """What the outcomes rest on, where it is not the same for all of them."""
    times = Counter(row.rests_on for row in run.rows)
    if len(times) > 1:
        (first, count), *others = times.items()
        return ", ".join((f"{count:,} rest on {first}", *(f"{count:,} on {other}" for other, count in others)))
    return f"{len(run.about['changes'])} times" if run.about.get("changes") else "no"


def _options(options: object) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items()) if isinstance(options, dict) else ""


def _retriever(experiment: Mapping[str, object], corpus: object) -> str:
    if not corpus:
        return "none"
    return " + ".join(str(name) for name in (experiment.get("retriever"), experiment.get("rerank")) if name)
