"""Which way a method chose for each question, where it chooses: a router that always says the same is none."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any

from hoptree.core.errors import InputError
from hoptree.evaluation.judge import JudgeReport, agreement, read_judgements
from hoptree.evaluation.report.measures import COSTS, DataGroup, Run, mean_cost, mean_score
from hoptree.evaluation.report.tables import Cell, Number, Table, TableRow
from hoptree.evaluation.run_folder import TRACES, warned_of


def some_events(
    path: Path, marks: Sequence[bytes], wanted: Callable[[dict[str, Any]], bool]
) -> Iterator[dict[str, Any]]:
    """The events that are wanted, among the lines that hold one of the marks.

    `wanted` may take for granted that an event has all it looks at; one that has not is none.
    """
    try:
        with path.open("rb") as lines:
            for line in lines:
                if not any(mark in line for mark in marks):
                    continue
                try:
                    event = json.loads(line)
                    fits = isinstance(event["run"], str) and wanted(event)
                except (ValueError, KeyError, TypeError, RecursionError):
                    continue  # cut off by a kill, or no event: whoever reads the whole trace says so
                if fits:
                    yield event
    except OSError as error:
        raise InputError(f"The trace {path} cannot be read: {error.strerror}.", "Make it readable.") from error


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


def judges_table(group: DataGroup) -> Table | None:
    """What every judge says of a data set's runs, and how often each two say the same; None without two judges."""
    reports = [_reports(run) for run in group.runs]
    names = list(dict.fromkeys(name for some in reports for name in some))
    if len(names) < 2:
        return None
    pairs = list(combinations(names, 2))
    rows = []
    for run, known in zip(group.runs, reports, strict=True):
        cells = [_points(known[name].accuracy) if name in known else None for name in names]
        for pair in pairs:
            cells += _agreed(*(known.get(name) for name in pair))
        rows.append(TableRow(run.label, run.id, tuple(cells)))
    columns = [f"{one} and {other}{what}" for one, other in pairs for what in (" agree", ", kappa")]
    notes = ("Agreement is over the answers both were asked about: blank ones are wrong without a judge.",)
    return Table(f"{group.name}: judges", (*names, *columns), tuple(rows), notes)


def _reports(run: Run) -> dict[str, JudgeReport]:
    return {one.judge.name: one.report(run.rows) for one in read_judgements(run.folder)}


def _agreed(one: JudgeReport | None, other: JudgeReport | None) -> list[Number | None]:
    if one is None or other is None:
        return [None, None]
    found = agreement(one, other)
    kappa = None if found.kappa is None else Number(found.kappa, digits=3)
    rate = None if found.rate is None else Number(100 * found.rate, questions=found.questions)
    return [rate, kappa]


def _points(share: float | None) -> Number | None:
    return None if share is None else Number(100 * share)


_WARNED_MARKS = (b'"warning"',)
_WARNED_NOTE = "Questions whose answer came with a warning of this kind; hoptree show tells its words. n/a: no traces."


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
    return Table(f"{group.name}: questions with a warning", tuple(kinds), tuple(rows), (_WARNED_NOTE,))


def _counted(run: Run) -> Mapping[str, int] | None:
    """Questions that have an outcome, by the kinds they warned of; None without traces."""
    path = run.folder / TRACES
    if not path.exists():
        return None
    asked = {row.trace for row in run.rows}
    warned = warned_of(event for event in some_events(path, _WARNED_MARKS, _counts) if event["run"] in asked)
    return {kind: found.questions for kind, found in warned.items()}


def _counts(event: Mapping[str, Any]) -> bool:
    return event["event"] == "warning" and isinstance(event["kind"], str) and isinstance(event["message"], str)


_REPLIES_MARKS = (b'"parse"', b'"llm"')
_REPLIES_COLUMNS = (
    "Calls",
    "Replies parsed",
    "Unread, %",
    "Mended, %",
    "Step with most unread",
    "Unread of that step, %",
    "Calls remembered, %",
)
_REPLIES_NOTE = (
    "Calls: the mean of one question with its 95 % interval. Replies parsed: those of which the trace tells whether "
    "the step could read them; one call can bring several (samples), and replies of steps that do not tell are in no "
    "share. Unread: the step could not use the reply and went on without it, or asked again. Mended: it was read, but "
    "not as it was asked for: words besides the answer were left out, brackets closed, a part that was missing done "
    "without or asked for by one more call. Calls remembered: answered by the cache, or by the same call that was "
    "under way. n/a: the run has no traces, or no step of it tells; none: every reply was read."
)


@dataclass(slots=True)
class Replies:
    """Replies that were parsed, by step, those of them that could not be read, or only when something was mended, all
    calls, and those remembered."""

    parsed: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    mended: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    remembered: int = 0

    @property
    def worst(self) -> str:
        """The step with the most unread replies, of several the one with the highest share; "" where all were read."""
        steps = sorted(self.unread, key=lambda step: (-self.unread[step], self.parsed[step], step))
        return steps[0] if steps else ""


def replies_table(group: DataGroup) -> Table:
    """A row for every run of a data set."""
    rows = [TableRow(run.named, run.id, _cells(run)) for run in group.runs]
    title = f"{group.name}: replies that could not be read and calls that were remembered"
    return Table(title, _REPLIES_COLUMNS, tuple(rows), (_REPLIES_NOTE,))


def _cells(run: Run) -> tuple[Cell, ...]:
    found = replies_of(run)
    parsed, worst = found.parsed.total(), found.worst
    return (
        mean_cost(run, COSTS["calls"]),
        Number(parsed, digits=0) if parsed else None,
        _share(found.unread.total(), parsed),
        _share(found.mended.total(), parsed),
        (worst or "none") if parsed else None,
        _share(found.unread[worst], found.parsed[worst]),
        _share(found.remembered, found.calls),
    )


def _share(some: int, of: int) -> Number | None:
    return Number(100 * some / of, after=f"({some:,} of {of:,})") if of else None


def replies_of(run: Run) -> Replies:
    """Those of all questions that have an outcome; what was spent on attempts that were given up is left out."""
    path = run.folder / TRACES
    try:
        known = path.stat()
    except OSError:
        return Replies()
    by_trace = _replies_read(path, known.st_size, known.st_mtime_ns)
    return _together(by_trace[row.trace] for row in run.rows if row.trace in by_trace)


def _together(some: Iterable[Replies]) -> Replies:
    whole = Replies()
    for one in some:
        whole.parsed.update(one.parsed)
        whole.unread.update(one.unread)
        whole.mended.update(one.mended)
        whole.calls += one.calls
        whole.remembered += one.remembered
    return whole


@lru_cache(64)
def _replies_read(path: Path, size: int, changed: int) -> Mapping[str, Replies]:
    """By trace; a report's page and its tables both ask for it."""
    found: dict[str, Replies] = {}
    for event in some_events(path, _REPLIES_MARKS, _replies_counts):
        one = found.setdefault(event["run"], Replies())
        if event["event"] == "llm":
            one.calls += 1
            one.remembered += event.get("cached") is True
            continue
        one.parsed[event["step"]] += 1
        if event.get("ok") is not True:
            one.unread[event["step"]] += 1
        elif event.get("repairs"):
            one.mended[event["step"]] += 1
    return found


def _replies_counts(event: Mapping[str, Any]) -> bool:
    return event["event"] == "llm" or (event["event"] == "parse" and isinstance(event["step"], str))
