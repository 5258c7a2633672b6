"""How many replies of a run its steps could not read, and how many calls were remembered, counted from its traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from hoptree.evaluation.report.measures import COSTS, mean_cost
from hoptree.evaluation.report.runs import DataGroup, Run
from hoptree.evaluation.report.some_events import some_events
from hoptree.evaluation.report.tables import Cell, Number, Table, TableRow
from hoptree.evaluation.run_folder import TRACES

__all__ = ["Replies", "replies_of", "replies_table"]

_MARKS = (b'"parse"', b'"llm"')
_COLUMNS = (
    "Calls",
    "Replies parsed",
    "Unread, %",
    "Mended, %",
    "Step with most unread",
    "Unread of that step, %",
    "Calls remembered, %",
)
_NOTE = (
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
    return Table(title, _COLUMNS, tuple(rows), (_NOTE,))


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
    by_trace = _read(path, known.st_size, known.st_mtime_ns)
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
def _read(path: Path, size: int, changed: int) -> Mapping[str, Replies]:
    """By trace; a report's page and its tables both ask for it."""
    found: dict[str, Replies] = {}
    for event in some_events(path, _MARKS, _counts):
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


def _counts(event: Mapping[str, Any]) -> bool:
    return event["event"] == "llm" or (event["event"] == "parse" and isinstance(event["step"], str))
