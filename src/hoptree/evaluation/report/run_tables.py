"""Tables about how runs went: routes chosen, judges, warnings, and replies that could not be parsed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import Any

from hoptree.engine.call_events import ModelCalled
from hoptree.engine.events import Decision, Event, ReplyParsed, Warned
from hoptree.evaluation.judge import JudgeReport, agreement, read_judgements
from hoptree.evaluation.report.measures import COSTS, DataGroup, Run, mean_cost, mean_score
from hoptree.evaluation.report.run_traces import fold_traces
from hoptree.evaluation.report.tables import NOTES, Cell, Number, Table, TableRow, count, make_table, percent, points
from hoptree.evaluation.run_folder import TRACES, warned_of

_ROUTE_DECISIONS = ("route", "need", "retrieve", "ended", "agreement")
"""Decisions that say how a question was answered; the first kind that a question has counts."""
_ROUTE_NAMES = {
    **dict.fromkeys(("route", "need", "retrieve"), ("documents", "memory")),
    "agreement": ("chains agree", "chains disagree"),
}
_MAX_ROUTE_CHARS = 80


def routes_table(group: DataGroup) -> Table | None:
    """Return a row for every route of every run; None if no run chooses."""
    rows = []
    for run in group.runs:
        routes = routes_of(run)
        total = sum(map(len, routes.values()))
        for route, ids in sorted(routes.items(), key=lambda item: (-len(item[1]), item[0])):
            scores = (mean_score(run, "em", ids), mean_score(run, "f1", ids))
            rows.append(run.row((count(len(ids)), percent(len(ids), total), *scores), route))
    return make_table(f"{group.name}: ways chosen", ("Questions", "Share, %", "EM", "F1"), rows, *NOTES["routes"])


def routes_of(run: Run) -> dict[str, set[str]]:
    """Return the ids of the questions of each route; questions without such a decision are left out."""
    ids: dict[str, set[str]] = {}
    for name, route in fold_traces(run, (Decision,), _route).items():
        ids.setdefault(route, set()).add(name)
    return ids


def _route(events: Sequence[Event]) -> str | None:
    decisions = [event.as_dict() for event in events]
    for kind in _ROUTE_DECISIONS:
        values = [_route_name(kind, decision["value"]) for decision in decisions if decision["kind"] == kind]
        if values:
            return " → ".join(dict.fromkeys(values))
    return None


def _route_name(kind: str, value: Any) -> str:
    yes, no = _ROUTE_NAMES.get(kind, ("yes", "no"))
    return (yes if value else no) if isinstance(value, bool) else str(value)[:_MAX_ROUTE_CHARS]


def judges_table(group: DataGroup) -> Table | None:
    """Return what every judge says of the runs, and how often each two agree; None without two judges."""
    reports = [
        {known.judge.name: known.report(run.rows) for known in read_judgements(run.folder)} for run in group.runs
    ]
    names = list(dict.fromkeys(chain.from_iterable(reports)))
    if len(names) < 2:
        return None
    pairs = list(combinations(names, 2))
    rows = []
    for run, by_judge in zip(group.runs, reports, strict=True):
        cells = [points(by_judge[name].accuracy) if name in by_judge else None for name in names]
        for first, second in pairs:
            cells += _agreement(by_judge.get(first), by_judge.get(second))
        rows.append(TableRow(run.label, run.id, tuple(cells)))
    columns = [f"{first} and {second}{what}" for first, second in pairs for what in (" agree", ", kappa")]
    note = "Agreement is over the answers both were asked about: blank ones are wrong without a judge."
    return make_table(f"{group.name}: judges", (*names, *columns), rows, note)


def _agreement(first: JudgeReport | None, second: JudgeReport | None) -> list[Number | None]:
    if first is None or second is None:
        return [None, None]
    both = agreement(first, second)
    kappa = None if both.kappa is None else Number(both.kappa, digits=3)
    return [points(both.rate, questions=both.questions), kappa]


def warnings_table(group: DataGroup) -> Table | None:
    """Return a row for every run and a column for every kind of warning; None if nothing warned."""
    counts = [(run, _warnings_of(run)) for run in group.runs]
    kinds = sorted({kind for _, known in counts for kind in known or ()})
    rows = [
        run.row(None if known is None else count(known.get(kind, 0)) for kind in kinds)
        for run, known in counts
        if kinds
    ]
    return make_table(f"{group.name}: questions with a warning", kinds, rows, *NOTES["warnings"])


def _warnings_of(run: Run) -> dict[str, int] | None:
    """Return the number of questions with each kind of warning; None without traces."""
    if not (run.folder / TRACES).exists():
        return None
    warned = warned_of(chain.from_iterable(fold_traces(run, (Warned,), _valid_warnings).values()))
    return {kind: warning.questions for kind, warning in warned.items()}


def _valid_warnings(events: Sequence[Event]) -> tuple[Event, ...]:
    warnings = [event for event in events if isinstance(event, Warned)]
    return tuple(event for event in warnings if isinstance(event.kind, str) and isinstance(event.message, str))


_REPLIES_COLUMNS = (
    *("Calls", "Replies parsed", "Unread, %", "Mended, %"),
    *("Step with most unread", "Unread of that step, %", "Calls remembered, %"),
)


@dataclass(frozen=True, slots=True)
class Replies:
    """Parsed, unread and repaired replies by step, and the number of calls and of those answered by a cache."""

    parsed: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    mended: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    remembered: int = 0

    def __add__(self, other: Replies) -> Replies:
        return Replies(
            self.parsed + other.parsed,
            self.unread + other.unread,
            self.mended + other.mended,
            self.calls + other.calls,
            self.remembered + other.remembered,
        )

    @property
    def worst(self) -> str:
        """The step with the most unread replies, of several the one with the highest share; "" if all were read."""
        return min(self.unread, key=lambda step: (-self.unread[step], self.parsed[step], step), default="")


def replies_table(group: DataGroup) -> Table | None:
    """Return a row for every run of a data set."""
    title = f"{group.name}: replies that could not be read and calls that were remembered"
    return make_table(title, _REPLIES_COLUMNS, [run.row(_reply_cells(run)) for run in group.runs], *NOTES["replies"])


def _reply_cells(run: Run) -> tuple[Cell, ...]:
    replies = replies_of(run)
    parsed, worst = replies.parsed.total(), replies.worst
    return (
        mean_cost(run, COSTS["calls"]),
        count(parsed) if parsed else None,
        _counted_share(replies.unread.total(), parsed),
        _counted_share(replies.mended.total(), parsed),
        (worst or "none") if parsed else None,
        _counted_share(replies.unread[worst], replies.parsed[worst]),
        _counted_share(replies.remembered, replies.calls),
    )


def _counted_share(part: int, total: int) -> Number | None:
    return Number(100 * part / total, after=f"({part:,} of {total:,})") if total else None


def replies_of(run: Run) -> Replies:
    """Return the replies of all questions that have an outcome; abandoned attempts are left out."""
    return sum(fold_traces(run, (ReplyParsed, ModelCalled), _replies).values(), Replies())


def _replies(events: Sequence[Event]) -> Replies:
    calls = [event for event in events if isinstance(event, ModelCalled)]
    parses = [event for event in events if isinstance(event, ReplyParsed)]
    parses = [event for event in parses if event.step and isinstance(event.step, str)]
    read = [event for event in parses if event.ok is True]
    steps = Counter(event.step for event in parses)
    return Replies(
        steps,
        steps - Counter(event.step for event in read),
        Counter(event.step for event in read if event.repairs),
        len(calls),
        sum(event.cached is True for event in calls),
    )
