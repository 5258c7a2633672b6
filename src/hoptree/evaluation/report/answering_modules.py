"""Which module of a method answered how many questions, how well, and what its recursion cost (RA-ISF, Tables 4 and 7).

A method takes part if its tree grows from the question, number 0, and the records of its nodes say their `branch`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from hoptree.core.errors import InputError
from hoptree.engine.explain import GUESS, module_of
from hoptree.evaluation.report.measures import COSTS, DataGroup, Run, mean_cost, mean_figure, mean_score, scores_of
from hoptree.evaluation.report.tables import Number, Table, TableRow
from hoptree.evaluation.run_folder import TRACES

_FIRST = ("self-knowledge", "passages", "sub-questions", GUESS)
_NONE, _ENDED = "none", "stopped or failed"
"""No module had an answer; there was none to be recorded."""
_LETTERS = 40
_MARKS = (b'"plan"', b'"state"')


@dataclass(frozen=True, slots=True)
class Workload:
    """What became of one question: the module that answered it, how many questions were asked for it, and how deep."""

    module: str
    questions: int
    depth: int


def workload(run: Run) -> dict[str, Workload]:
    """By question id; empty for a method whose nodes have no modules, and for a run without traces."""
    path = run.folder / TRACES
    try:
        known = path.stat()
    except OSError:
        return {}
    found = _read(path, known.st_size, known.st_mtime_ns)
    return {row.id: found[row.trace] for row in run.rows if row.trace in found}


@lru_cache(64)
def _read(path: Path, size: int, changed: int) -> Mapping[str, Workload]:
    """By trace; tables and plots of one report ask for it again."""
    modules: dict[str, str] = {}
    asked: dict[str, set[int]] = {}
    try:
        for event in _records(path):
            trace = event["run"]
            if event["event"] == "plan":
                if [node["id"] for node in event["nodes"]] == [0]:
                    asked[trace] = {0}
            elif trace not in asked:
                continue
            elif event["state"] == "asking":
                asked[trace].add(event["id"])
            elif not isinstance(event.get("branch"), str):
                return {}
            elif event["id"] == 0:
                modules[trace] = module_of(event)[:_LETTERS]
    except OSError as error:
        raise InputError(f"The trace {path} cannot be read: {error.strerror}.", "Make it readable.") from error
    return {
        trace: Workload(modules.get(trace, _ENDED), len(some), max(map(_level, some))) for trace, some in asked.items()
    }


def _level(node: int) -> int:
    """How deep a node is: its number has a digit for each level (see `runtime/growing.py`)."""
    return len(str(node)) if node else 0


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """The records of nodes and of what they were split into; of a large file, little else is taken apart."""
    with path.open("rb") as lines:
        for line in lines:
            if not any(mark in line for mark in _MARKS):
                continue
            try:
                event = json.loads(line)
                node = event["event"] == "node" and type(event["id"]) is int and isinstance(event["state"], str)
                plan = event["event"] == "plan" and all(type(one["id"]) is int for one in event["nodes"])
                if (node or plan) and isinstance(event["run"], str):
                    yield event
            except (ValueError, KeyError, TypeError, RecursionError):
                continue  # cut off by a kill, or no such record: whoever reads the whole trace says so


def modules_of(run: Run) -> dict[str, list[str]]:
    """The ids of the questions that each module answered; those without a record were stopped or failed."""
    known = workload(run)
    if not known:
        return {}
    found: dict[str, list[str]] = {}
    for row in run.rows:
        found.setdefault(known[row.id].module if row.id in known else _ENDED, []).append(row.id)
    return {name: found[name] for name in sorted(found, key=_order)}


def _order(module: str) -> tuple[int, str]:
    last = {_NONE: len(_FIRST) + 1, _ENDED: len(_FIRST) + 2}
    return (_FIRST.index(module) if module in _FIRST else last.get(module, len(_FIRST)), module)


def module_tables(group: DataGroup) -> list[Table]:
    """The tables about the runs of a data set whose method has modules; none where there is no such run."""
    known = {run.id: modules for run in group.runs if (modules := modules_of(run))}
    runs = [run for run in group.runs if run.id in known]
    others = [run for run in group.runs if run.id not in known]
    return [_asked(group, runs), _answered(group, runs, others)] if runs else []


def _asked(group: DataGroup, runs: Sequence[Run]) -> Table:
    rows = []
    for run in runs:
        known = workload(run).values()
        cells = (
            mean_cost(run, COSTS["searches"]),
            mean_figure([one.questions for one in known], 1),
            mean_figure([one.depth for one in known], 1),
            Number(max(one.depth for one in known), digits=0),
            Number(max(row.usage["llm_calls"] for row in run.rows), digits=0),
        )
        rows.append(TableRow(run.named, run.id, cells))
    columns = ("Searches", "Questions asked", "Levels below it", "Most levels", "Most calls")
    notes = (
        "Means of one question with 95 % intervals. Questions asked: itself and its sub-questions, also those that "
        "were not answered when a budget ended, were too deep to be looked up, or had been asked before and were not "
        "searched for again.",
    )
    return Table(f"{group.name}: searches and sub-questions", columns, tuple(rows), notes)


def _answered(group: DataGroup, runs: Sequence[Run], others: Sequence[Run]) -> Table:
    """A row for each module of a run; `others` are runs to hold it against on the same questions."""
    rows = []
    for run in runs:
        right = {name for name, score in scores_of(run, "em").items() if score == 1}
        for module, ids in modules_of(run).items():
            cells = (
                Number(len(ids), digits=0),
                Number(100 * len(ids) / len(run.rows)),
                Number(len(right.intersection(ids)), digits=0),
                mean_score(run, "em", ids),
                mean_score(run, "f1", ids),
                *(mean_score(other, "f1", ids) for other in others),
            )
            rows.append(TableRow(f"{run.named}: {module}", run.id, cells))
    columns = ("Questions", "Share, %", "Correct", "EM", "F1", *(f"F1 of {other.named}" for other in others))
    note = (
        "The module that answered the question itself, and how well it did on those questions. Guess: what was said "
        "stands in no passage that was read. None: no module had an answer."
    )
    notes = (note, "Beside it, runs without modules on the same questions.") if others else (note,)
    return Table(f"{group.name}: workload by module", columns, tuple(rows), notes)
