"""Runs of a report: find and read them, their traces, scores and costs."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from hoptree.core.errors import InputError, file_errors
from hoptree.core.files import unsealed
from hoptree.core.values import Usage
from hoptree.engine.events import Event, Finished, parse_event
from hoptree.evaluation.metrics import CANDIDATES
from hoptree.evaluation.report.tables import Cell, Number, Table, TableRow, count, make_table
from hoptree.evaluation.run_folder import RUN, TRACES, Row, by_question, read_rows, read_run
from hoptree.evaluation.statistics import SIGNIFICANCE, compare, holm, interval, unseen

_USAGE = {field.name for field in fields(Usage)}
_ON = " on "


@dataclass(frozen=True, slots=True)
class Run:
    """A run and its outcomes so far."""

    folder: Path
    id: str
    label: str  # its name in tables
    about: Mapping[str, Any]  # the content of its `run.json`
    rows: tuple[Row, ...]
    total: int

    @property
    def finished(self) -> bool:
        return len(self.rows) == self.total

    @property
    def progress(self) -> str:
        """The number of questions with an outcome, in words; "" if the run is finished."""
        return "" if self.finished else f"{len(self.rows):,} of {self.total:,}, not finished"

    @property
    def named(self) -> str:
        """The label, marked if the run is not finished."""
        return f"{self.label} ({self.progress})" if self.progress else self.label

    @property
    def method(self) -> str:
        return str(self.about["rests_on"].get("method", ""))

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of its method."""
        options = self.about["rests_on"].get("options")
        return options if isinstance(options, Mapping) else {}

    def row(self, cells: Iterable[Cell], part: str = "") -> TableRow:
        """Return a table row of this run, or of a named part of it."""
        return TableRow(f"{self.named}: {part}" if part else self.named, self.id, tuple(cells))


@dataclass(frozen=True, slots=True)
class DataGroup:
    """Runs over the same questions of the same data set, which can be compared."""

    name: str
    questions: int
    runs: tuple[Run, ...]


def row_of_runs(label: str, runs: Sequence[Run], cells: Iterable[Cell]) -> TableRow:
    """Return a table row with figures from several runs."""
    return TableRow(label, " ".join(run.id for run in runs), tuple(cells))


def run_table(
    title: str, runs: Iterable[Run], cells: Callable[[Run], Mapping[str, Cell] | None], *notes: str
) -> Table | None:
    """Return a table with a row for each run that has cells."""
    known = [(run, by_column) for run in runs if (by_column := cells(run))]
    columns = known[0][1] if known else ()
    return make_table(title, columns, (run.row(by_column.values()) for run, by_column in known), *notes)


def kinds_table(title: str, counts: Iterable[tuple[Run, Mapping[str, int] | None]], *notes: str) -> Table | None:
    """Return a table of counts, with a column for each kind; None is unknown."""
    counts = list(counts)
    kinds = sorted({kind for _, known in counts for kind in known or ()})
    rows = [
        run.row(None if known is None else count(known.get(kind, 0)) for kind in kinds)
        for run, known in counts
        if kinds
    ]
    return make_table(title, kinds, rows, *notes)


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """Return the run folders among and below the paths, each once."""
    folders: dict[Path, Path] = {}
    for path in paths:
        runs = [path]
        if not (path / RUN).exists():  # without reproductions, which are compared with their originals only
            below = sorted(file.parent for file in path.rglob(RUN))
            runs = [run for run in below if not read_run(run).get("reproduces")]
        if not runs:
            raise InputError(f"{path} holds no run.", "Make one: hoptree run --data … --method … --out FOLDER")
        for folder in runs:
            folders.setdefault(folder.resolve(), folder)
    if not folders:
        raise InputError("There is no run to report on.", "Name the folder of one or more.")
    return list(folders.values())


def read_groups(paths: Iterable[Path]) -> list[DataGroup]:
    """Return all runs, grouped by data set, in the order of the paths."""
    by_data: dict[tuple[str, str], list[Run]] = {}
    for folder in find_runs(paths):
        about = read_run(folder)
        with file_errors(f"The run in {folder}", "read", "Make it readable."):
            rows = tuple(read_rows(folder))
        if not all(row.usage.keys() >= _USAGE for row in rows):
            cause = f"The run in {folder} does not record the costs of all its questions."
            raise InputError(cause, "Run it again into another folder.")
        run = Run(folder, about["id"], about["name"], about, rows, len(about["questions"]))
        rests_on = about["rests_on"]
        by_data.setdefault((str(rests_on.get("data")), str(rests_on.get("questions"))), []).append(run)
    groups = [_group(runs) for runs in by_data.values()]
    names = _distinguish([group.name for group in groups], [f"{group.questions:,} questions" for group in groups])
    names = _distinguish(names, [str(group.runs[0].about["rests_on"].get("questions"))[:8] for group in groups])
    return [replace(group, name=name) for group, name in zip(groups, names, strict=True)]


def _group(runs: Sequence[Run]) -> DataGroup:
    """Return runs as a group; names "METHOD on DATA" are split if DATA is the same."""
    ends = {run.label.rpartition(_ON)[2] if _ON in run.label else "" for run in runs}
    if len(ends) == 1 and (name := ends.pop()):
        labels = [run.label.rpartition(_ON)[0] for run in runs]
    else:
        path = Path(str(runs[0].about["experiment"].get("data", "questions")))
        file = "/".join((*path.parts[-2:-1], path.stem)).lstrip("/") or "questions"
        name, labels = str(runs[0].about.get("data_name") or file), [run.label for run in runs]
    labels = _distinguish(_distinguish(labels, [run.folder.name for run in runs]), [run.id for run in runs])
    named = tuple(replace(run, label=label) for run, label in zip(runs, labels, strict=True))
    return DataGroup(name, runs[0].total, named)


def _distinguish(names: Sequence[str], additions: Sequence[str]) -> list[str]:
    """Append the additions to names that occur twice."""
    times = Counter(names)
    return [f"{name} ({more})" if times[name] > 1 else name for name, more in zip(names, additions, strict=True)]


_COST_SAMPLES = 2_000  # enough for two digits; costs differ on every question, which makes resampling slow
_RECALL = "retrieval_recall"
_CACHED_STATISTICS = 512


@dataclass(frozen=True, slots=True)
class Cost:
    """A cost of one question, computed from its usage."""

    title: str
    digits: int
    of: Callable[[Mapping[str, float]], float]


SCORES = {
    "em": "EM",
    "f1": "F1",
    "precision": "P",
    "recall": "R",
    "contains": "Contains",
    "judge": "Judge",
    _RECALL: "Retrieval recall",
}
"""Scores between 0 and 1, which are printed as points of 100, with their titles."""
YES_NO = "yes_no"  # whether the first word is the right yes or no (StrategyQA's accuracy)
RARE_SCORES = {
    YES_NO: "Yes/no",
    "list_f1": "List F1",
    "list_precision": "List P",
    "list_recall": "List R",
    CANDIDATES: "Candidate recall",
}
"""Scores of questions with a yes-no or list answer, with their titles; shown only if there are such questions."""
TITLES = SCORES | RARE_SCORES
COSTS = {
    "calls": Cost("Calls", 1, lambda usage: usage["llm_calls"]),
    "tokens": Cost("Tokens", 0, lambda usage: usage["prompt_tokens"] + usage["completion_tokens"]),
    "searches": Cost("Searches", 1, lambda usage: usage["retrievals"]),
    "seconds": Cost("Seconds", 2, lambda usage: usage["seconds"]),
    "critical": Cost("Longest chain, s", 2, lambda usage: usage["critical_path_seconds"]),
    "cost": Cost("Cost of 1,000", 2, lambda usage: 1000 * usage["price"]),
}


def scores_of(run: Run, metric: str) -> dict[str, float | None]:
    """Return a score by question id; a failed question is wrong if the score applies."""
    scores = {row.id: row.scores.get(metric) for row in run.rows}
    if all(score is None for score in scores.values()):
        return scores
    for row in run.rows:
        if row.error and metric == _RECALL:
            scores[row.id] = (scores[row.id] or 0.0) if row.gold else None
        elif row.error and (metric not in RARE_SCORES or scores[row.id] is not None):
            scores[row.id] = 0.0
    return scores


def exact_ids(run: Run) -> set[str]:
    """Return the ids of the questions answered with an exact match."""
    return {name for name, score in scores_of(run, "em").items() if score == 1}


def mean_score(run: Run, metric: str, among: Collection[str] | None = None) -> Number | None:
    """Return the mean of a score in points, over all or `among` these questions."""
    scores = [value for key, value in scores_of(run, metric).items() if among is None or key in among]
    values = [value for value in scores if value is not None]
    if not values:
        return None
    mean = _interval(tuple(values))
    if set(values) in ({0.0}, {1.0}):
        bound = unseen(len(values))
        mean = replace(mean, low=min(mean.mean, 1 - bound), high=max(mean.mean, bound))
    fewer = len(values) if len(values) < len(scores if among is None else among) else None
    return Number(100 * mean.mean, 100 * mean.low, 100 * mean.high, 1, fewer)


def has_score(runs: Iterable[Run], metric: str) -> bool:
    return any(mean_score(run, metric) is not None for run in runs)


def mean_cost(run: Run, cost: Cost) -> Number | None:
    """Return the mean cost of a question, including failed ones.

    Money is None without prices. It is the price of all calls, cached ones included: what the cache saves depends on
    earlier runs.
    """
    if not run.rows or (cost is COSTS["cost"] and not run.about["experiment"].get("prices")):
        return None
    return mean_figure([cost.of(row.usage) for row in run.rows], cost.digits)


def mean_figure(values: Sequence[float], digits: int) -> Number:
    """Return the mean of counts or costs of questions, with its interval."""
    mean = _interval(tuple(values), samples=_COST_SAMPLES)
    return Number(mean.mean, mean.low, mean.high, digits)


def best_run(runs: Sequence[Run], metric: str) -> Run | None:
    """Return the finished run that beats all others (paired tests, Holm), or None."""
    scored = [(run, scores_of(run, metric)) for run in runs if run.finished]
    scored = [(run, scores) for run, scores in scored if any(score is not None for score in scores.values())]
    if len(scored) < 2:
        return None
    (best, scores), *others = sorted(
        scored, key=lambda pair: -fmean(score for score in pair[1].values() if score is not None)
    )
    p_values: list[float] = []
    for _, other_scores in others:
        pairs = [(a, b) for key, b in other_scores.items() if b is not None and (a := scores.get(key)) is not None]
        comparison = _compare(tuple(a for a, _ in pairs), tuple(b for _, b in pairs))
        p_values.append(comparison.p_value if comparison.difference > 0 else 1.0)
    return best if max(holm(p_values)) < SIGNIFICANCE else None


# Tables and plots show the same figures.
_interval, _compare = lru_cache(_CACHED_STATISTICS)(interval), lru_cache(_CACHED_STATISTICS)(compare)


def settings_without(run: Run, option: str) -> str:
    """Return everything a run depends on except one option, as a key."""
    others = {name: value for name, value in run.options.items() if name != option}
    return json.dumps({**run.about["rests_on"], "options": others}, sort_keys=True)


def shared_name(runs: Sequence[Run]) -> str:
    """Return the common parts of the runs' names ("GPT" of "k 1, GPT" and "k 3, GPT")."""
    first, *others = [run.label.split(", ") for run in runs]
    return ", ".join(part for part in first if all(part in other for other in others))


T = TypeVar("T")
_CACHED_FOLDS = 512


def fold_traces(run: Run, types: tuple[type[Event], ...], fold: Callable[[Sequence[Event]], T | None]) -> dict[str, T]:
    """Return the result of `fold` over the events of each question, by question id.

    `fold` gets only events of these types. It must be a module-level function, as its results are cached until the file
    changes. Questions are left out if they have no such events, `fold` returns None, or a record is damaged.
    """
    path = run.folder / TRACES
    try:
        stat = path.stat()
    except OSError:
        return {}
    by_trace = _fold_file(path, stat.st_size, stat.st_mtime_ns, types, fold)
    return {row.id: by_trace[row.trace] for row in run.rows if row.trace in by_trace}


@lru_cache(_CACHED_FOLDS)
def _fold_file(
    path: Path, size: int, modified_ns: int, types: tuple[type[Event], ...], fold: Callable[[Sequence[Event]], Any]
) -> Mapping[str, Any]:
    """Fold a whole file; its size and modification time only key the cache."""
    results: dict[str, Any] = {}
    for events in by_question(_read_types(path, (*types, Finished))):
        chosen = [event for event in events if isinstance(event, types)]
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            if chosen and (result := fold(chosen)) is not None:
                results[chosen[0].run] = result
    return results


def _read_types(path: Path, types: Iterable[type[Event]]) -> Iterator[Event]:
    """Yield the events of these types; other and damaged lines are skipped."""
    kinds = "|".join(sorted({kind.event for kind in types}))
    wanted = re.compile(rf'"event":\s*"(?:{kinds})"'.encode())
    try:
        with file_errors(f"The trace {path}", "read", "Make it readable."), path.open("rb") as lines:
            for line in filter(wanted.search, lines):
                text = unsealed(line)
                with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
                    yield parse_event(json.loads(text))
    except ValueError as error:
        raise InputError(f"A line of {path} is not what was written.", "Take it out: hoptree show names it.") from error
