"""The tables of a report, and those of modules that answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hoptree.engine.events import Event, NodeSettled, NodeStarted, Planned
from hoptree.engine.registry import load_method
from hoptree.evaluation.report import measures, run_tables
from hoptree.evaluation.report.hypothesis_tables import errors_table, hypothesis_tables, hypothesis_tables_by_data
from hoptree.evaluation.report.lookups import draws_table, lookup_tables, searches_by_data
from hoptree.evaluation.report.measures import DataGroup, Run
from hoptree.evaluation.report.tables import NO_FIGURE, NOTES, Cell, Number, Table, TableRow, count, make_table, percent
from hoptree.evaluation.statistics import SIGNIFICANCE, compare_runs, mean_of

_AS_PUBLISHED = {"exact": "yes", "approx": "not exactly", "prompted": "prompted, where the paper trained a model"}
_NO_MODULE, _NO_RECORD = "none", "stopped or failed"
_FIRST = ("self-knowledge", "passages", "sub-questions")
_LAST = (_NO_MODULE, _NO_RECORD)
_MAX_MODULE_CHARS = 40


@dataclass(frozen=True, slots=True)
class Workload:
    """The module that answered a question, and the size of its tree."""

    module: str | None  # None if the method has no modules
    questions: int  # sub-questions, and the question itself
    depth: int


def workload(run: Run) -> dict[str, Workload]:
    """Return the workload by question id; {} without modules or traces."""
    by_question = measures.fold_traces(run, (Planned, NodeStarted, NodeSettled), _workload)
    return by_question if all(work.module is not None for work in by_question.values()) else {}


def _workload(events: Sequence[Event]) -> Workload | None:
    nodes: set[int] = set()
    module = _NO_RECORD
    for event in events:
        if isinstance(event, Planned):
            if [node["id"] for node in event.nodes] == [0]:
                nodes = {0}
        elif isinstance(event, NodeStarted) and nodes:
            nodes.add(int(event.id))
        elif isinstance(event, NodeSettled) and nodes:
            if not isinstance(event.branch, str):
                return Workload(None, 0, 0)
            if event.id == 0:
                module = event.branch[:_MAX_MODULE_CHARS]
    # A node's number has a digit for each level.
    return Workload(module, len(nodes), max(len(str(node)) if node else 0 for node in nodes)) if nodes else None


def modules_of(run: Run) -> dict[str, list[str]]:
    """Return the ids of the questions that each module answered."""
    known = workload(run)
    ids: dict[str, list[str]] = {}
    for row in run.rows if known else ():
        module = known[row.id].module if row.id in known else None
        ids.setdefault(_NO_RECORD if module is None else module, []).append(row.id)
    between = sorted(ids.keys() - {*_FIRST, *_LAST})
    return {name: ids[name] for name in (*_FIRST, *between, *_LAST) if name in ids}


def _asked(run: Run) -> dict[str, Cell]:
    known = workload(run).values()
    return {
        "Searches": measures.mean_cost(run, measures.COSTS["searches"]),
        "Questions asked": measures.mean_figure([work.questions for work in known], 1),
        "Levels below it": measures.mean_figure([work.depth for work in known], 1),
        "Most levels": count(max(work.depth for work in known)),
        "Most calls": count(max(row.usage["llm_calls"] for row in run.rows)),
    }


def module_tables(group: DataGroup) -> list[Table | None]:
    """Return the tables about methods with modules; None without such runs."""
    with_modules = {run.id for run in group.runs if modules_of(run)}
    runs = [run for run in group.runs if run.id in with_modules]
    others = [run for run in group.runs if run.id not in with_modules]
    rows = []
    for run in runs:
        right = measures.exact_ids(run)
        for module, ids in modules_of(run).items():
            cells = (
                count(len(ids)),
                percent(len(ids), len(run.rows)),
                count(len(right.intersection(ids))),
                measures.mean_score(run, "em", ids),
                measures.mean_score(run, "f1", ids),
                *(measures.mean_score(other, "f1", ids) for other in others),
            )
            rows.append(run.row(cells, module))
    columns = ("Questions", "Share, %", "Correct", "EM", "F1", *(f"F1 of {other.named}" for other in others))
    others_note = ("Beside it, runs without modules on the same questions.",) if others else ()
    return [
        measures.run_table(f"{group.name}: searches and sub-questions", runs, _asked, *NOTES["sub_questions"]),
        make_table(f"{group.name}: workload by module", columns, rows, *NOTES["modules"], *others_note),
    ]


PARTS = ("type", "hops")
_SPLIT = ("em", "f1")
_MAX_COMPARED = 12
_OVERALL = ("em", "f1", "judge")  # the scores that TAIKC's Table 2 averages


def tables_of(groups: Sequence[DataGroup]) -> list[Table]:
    """Return all tables in the order they are printed."""
    tables = [table for group in groups for table in group_tables(group)]
    return [*tables, *overall_tables(groups), *run_tables.boundary_tables(groups), runs_table(groups)]


def group_tables(group: DataGroup) -> list[Table]:
    """Return the tables of one data set."""
    tables: list[Table | None] = [_results(group), *(_differences(group, metric) for metric in _SPLIT)]
    for part in PARTS:
        members = groups_by(group, part)
        if len(members) > 1:
            columns = [f"{name} (n={len(ids):,})" for name, ids in members.items()]
            for metric in _SPLIT:
                rows = [
                    run.row(measures.mean_score(run, metric, ids) for ids in members.values()) for run in group.runs
                ]
                tables.append(make_table(f"{group.name}: {measures.TITLES[metric]} by {part}", columns, rows))
    tables += [*module_tables(group), *hypothesis_tables(group), *lookup_tables(group)]
    tables += [draws_table(group), errors_table(group), run_tables.judges_table(group), run_tables.routes_table(group)]
    failures = [(run, Counter(row.error for row in run.rows if row.error)) for run in group.runs]
    failed = measures.kinds_table(f"{group.name}: questions that failed", failures, "They count as wrong.")
    tables += [run_tables.replies_table(group), run_tables.warnings_table(group), failed]
    return [table for table in tables if table is not None]


def groups_by(group: DataGroup, part: str) -> dict[str, set[str]]:
    """Return the ids of the questions by type or number of hops, "none" without."""
    ids: dict[str, set[str]] = {}
    for run in group.runs:
        for row in run.rows:
            ids.setdefault(str(getattr(row, part) or "none"), set()).add(row.id)
    return dict(sorted(ids.items())) if set(ids) != {"none"} else {}


def _results(group: DataGroup) -> Table:
    scores = (*measures.SCORES, *(name for name in measures.RARE_SCORES if measures.has_score(group.runs, name)))
    best = {name: measures.best_run(group.runs, name) for name in scores}
    rows = []
    for run in group.runs:
        asked = Number(len(run.rows), digits=0, after="" if run.finished else f"of {run.total:,} (not finished)")
        failed = count(sum(bool(row.error) for row in run.rows))
        abstained = count(sum(row.abstained and not row.error for row in run.rows))
        means = [(measures.mean_score(run, name), best[name] is run) for name in scores]
        marked = [replace(mean, best=True) if mean and is_best else mean for mean, is_best in means]
        costs = [measures.mean_cost(run, cost) for cost in measures.COSTS.values()]
        rows.append(TableRow(run.label, run.id, (asked, failed, abstained, *marked, *costs)))
    columns = (
        *("Questions", "Failed", "Abstained"),
        *(measures.TITLES[name] for name in scores),
        *(cost.title for cost in measures.COSTS.values()),
    )
    notes = (*NOTES["results"], *(NOTES["yes_no"] if measures.YES_NO in scores else ()))
    return Table(f"{group.name}: {group.questions:,} questions", columns, tuple(rows), notes)


def _differences(group: DataGroup, metric: str) -> Table | None:
    """Return the paired differences of a score; None for one run or too many."""
    runs = [run for run in group.runs if run.finished and measures.has_score([run], metric)]
    if not 2 <= len(runs) <= _MAX_COMPARED:
        return None
    pairs = compare_runs({str(at): measures.scores_of(run, metric) for at, run in enumerate(runs)}, common_only=True)
    cells: dict[tuple[str, str], Number] = {}
    for (a, b), pair in pairs.items():
        p = "p < 0.001" if pair.adjusted_p < 0.001 else f"p = {pair.adjusted_p:.3f}"
        for key, points in (((a, b), 100 * pair.difference), ((b, a), -100 * pair.difference)):
            cells[key] = Number(points + 0.0, after=p, best=points > 0 and pair.adjusted_p < SIGNIFICANCE)
    keys = [str(at) for at in range(len(runs))]
    rows = [run.row(cells.get((other, own), NO_FIGURE) for other in keys) for own, run in zip(keys, runs, strict=True)]
    title = f"{group.name}: paired differences in {measures.TITLES[metric]}"
    return make_table(title, [f"less {run.label}" for run in runs], rows, *NOTES["differences"])


def overall_tables(groups: Sequence[DataGroup]) -> list[Table]:
    """Return the tables about runs that were made on all of several data sets."""
    everywhere = runs_on_all(groups)
    if not everywhere:
        return []
    known = [name for name in _OVERALL if any(measures.has_score(runs, name) for runs in everywhere.values())]
    rows = []
    for label, runs in everywhere.items():
        scores = [[measures.mean_score(run, name) for run in runs] for name in known]
        flat = [score for by_data in scores for score in by_data]
        name = label if all(run.finished for run in runs) else f"{label} (not finished)"
        rows.append(measures.row_of_runs(name, runs, (mean_number(flat), *map(mean_number, scores), *flat)))
    means = [f"Mean {measures.TITLES[name]}" for name in known]
    columns = ("Average", *means, *(f"{group.name} {measures.TITLES[name]}" for name in known for group in groups))
    note = "Each data set counts the same in the means. Average: of all the scores to the right of the means."
    overall = Table(f"All {len(groups)} data sets", columns, tuple(rows), (note,))
    searches = searches_by_data(groups, everywhere)
    return [overall, *hypothesis_tables_by_data(groups, everywhere), *([searches] if searches else [])]


def runs_on_all(groups: Sequence[DataGroup]) -> dict[str, list[Run]]:
    """Return the runs that were made on all of several data sets, by label."""
    by_label = [{run.label: run for run in group.runs} for group in groups]
    labels = [run.label for run in groups[0].runs if all(run.label in runs for runs in by_label)]
    return {label: [runs[label] for runs in by_label] for label in labels} if len(groups) > 1 else {}


def mean_number(cells: Sequence[Number | None]) -> Number | None:
    """Return the mean over data sets; None if one of them has no figure."""
    mean = mean_of([None if cell is None else cell.value for cell in cells])
    return None if mean is None else Number(mean)


def runs_table(groups: Sequence[DataGroup]) -> Table:
    """Return the table of what each run depends on, for reproducing its figures."""
    cells = [(run, _run_cells(run, group.name)) for group in groups for run in group.runs]
    columns = [name for name in cells[0][1] if any(by_column[name] != "none" for _, by_column in cells)]
    rows = tuple(run.row([by_column[name] for name in columns]) for run, by_column in cells)
    return Table("Runs, and what they rest on", tuple(columns), rows)


def _run_cells(run: Run, data: str) -> dict[str, str]:
    rests_on, experiment = run.about["rests_on"], run.about["experiment"]
    retriever = " + ".join(str(experiment[name]) for name in ("retriever", "rerank") if experiment.get(name))
    method, fidelity = load_method(run.method), str(run.about.get("fidelity", ""))
    of_no_paper = method and not method.paper and fidelity != "prompted"
    changes = f"{len(run.about['changes'])} times" if run.about.get("changes") else "no"
    times = Counter(row.rests_on for row in run.rows)
    if len(times) > 1:  # the outcomes rest on different settings
        (first, number), *others = times.items()
        changes = ", ".join((f"{number:,} rest on {first}", *(f"{more:,} on {other}" for other, more in others)))
    return {
        "Data": data,
        "Method": run.method,
        "Options": ", ".join(f"{name}={value}" for name, value in run.options.items()),
        "Model": str(experiment.get("model", "")),
        "Retriever": retriever if rests_on.get("corpus") else "none",
        "Graph": str(rests_on.get("graph") or "none"),
        "As published": "of no paper" if of_no_paper else _AS_PUBLISHED.get(fidelity, ""),
        "Prompts": " + ".join((str(rests_on.get("prompts", "")), *(rests_on.get("own_prompts") or ()))),
        "Data digest": str(rests_on.get("data", ""))[:12],
        "Version": str(rests_on.get("version", "")),
        "Changed under way": changes,
        "Folder": str(run.folder),
    }
