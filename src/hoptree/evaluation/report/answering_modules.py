"""Which module of a method answered which questions, and what its recursion cost (RA-ISF, Tables 4 and 7).

A method takes part if its tree grows from the question, node 0, and the records of its nodes say their `branch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hoptree.engine.events import GUESS, Event, NodeSettled, NodeStarted, Planned
from hoptree.evaluation.report.measures import COSTS, DataGroup, Run, exact_ids, mean_cost, mean_figure, mean_score
from hoptree.evaluation.report.run_traces import fold_traces
from hoptree.evaluation.report.tables import NOTES, Table, count, make_table, percent

_NO_MODULE, _NO_RECORD = "none", "stopped or failed"
_FIRST = ("self-knowledge", "passages", "sub-questions", GUESS)
_LAST = (_NO_MODULE, _NO_RECORD)
_MAX_MODULE_CHARS = 40


@dataclass(frozen=True, slots=True)
class Workload:
    """The module that answered a question, how many questions were asked for it, and how deep the tree is.

    `module` is None if the method has no modules.
    """

    module: str | None
    questions: int
    depth: int


def workload(run: Run) -> dict[str, Workload]:
    """Return the workload by question id; empty for methods without modules and runs without traces."""
    by_question = fold_traces(run, (Planned, NodeStarted, NodeSettled), _workload)
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
                module = event.module[:_MAX_MODULE_CHARS]
    return Workload(module, len(nodes), max(map(_level, nodes))) if nodes else None


def _level(node: int) -> int:
    """Return how deep a node is: its number has a digit for each level."""
    return len(str(node)) if node else 0


def modules_of(run: Run) -> dict[str, list[str]]:
    """Return the ids of the questions that each module answered; those without a record were stopped or failed."""
    known = workload(run)
    if not known:
        return {}
    ids: dict[str, list[str]] = {}
    for row in run.rows:
        module = known[row.id].module if row.id in known else None
        ids.setdefault(_NO_RECORD if module is None else module, []).append(row.id)
    return {name: ids[name] for name in sorted(ids, key=_order)}


def _order(module: str) -> tuple[int, str]:
    if module in _FIRST:
        return _FIRST.index(module), module
    return len(_FIRST) + (1 + _LAST.index(module) if module in _LAST else 0), module


def module_tables(group: DataGroup) -> list[Table]:
    """Return the tables about runs whose method has modules; none if there is no such run."""
    modules = {run.id: known for run in group.runs if (known := modules_of(run))}
    runs = [run for run in group.runs if run.id in modules]
    others = [run for run in group.runs if run.id not in modules]
    tables = (_asked(group, runs), _answered(group, runs, others))
    return [table for table in tables if table is not None]


def _asked(group: DataGroup, runs: Sequence[Run]) -> Table | None:
    rows = []
    for run in runs:
        known = workload(run).values()
        cells = (
            mean_cost(run, COSTS["searches"]),
            mean_figure([work.questions for work in known], 1),
            mean_figure([work.depth for work in known], 1),
            count(max(work.depth for work in known)),
            count(max(row.usage["llm_calls"] for row in run.rows)),
        )
        rows.append(run.row(cells))
    columns = ("Searches", "Questions asked", "Levels below it", "Most levels", "Most calls")
    return make_table(f"{group.name}: searches and sub-questions", columns, rows, *NOTES["sub_questions"])


def _answered(group: DataGroup, runs: Sequence[Run], others: Sequence[Run]) -> Table | None:
    """Return a row for each module of a run, beside the `others` on the same questions."""
    rows = []
    for run in runs:
        right = exact_ids(run)
        for module, ids in modules_of(run).items():
            cells = (
                count(len(ids)),
                percent(len(ids), len(run.rows)),
                count(len(right.intersection(ids))),
                mean_score(run, "em", ids),
                mean_score(run, "f1", ids),
                *(mean_score(other, "f1", ids) for other in others),
            )
            rows.append(run.row(cells, module))
    columns = ("Questions", "Share, %", "Correct", "EM", "F1", *(f"F1 of {other.named}" for other in others))
    others_note = ("Beside it, runs without modules on the same questions.",) if others else ()
    return make_table(f"{group.name}: workload by module", columns, rows, *NOTES["modules"], *others_note)
