"""Tables of boundary awareness, routes, judges, warnings and unreadable replies."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain, combinations
from typing import Any

from hoptree.core.errors import InputError
from hoptree.core.files import without_sum
from hoptree.engine.events import Decision, Event, ReplyParsed, Warned
from hoptree.engine.trace import ModelCalled
from hoptree.evaluation.boundary import BOUNDARY, LEAST_GAP, LEAST_RIGHT
from hoptree.evaluation.judge import agreement, read_judgements
from hoptree.evaluation.report import measures
from hoptree.evaluation.report.measures import DataGroup, Run
from hoptree.evaluation.report.tables import NOTES, Cell, Number, Table, TableRow, count, make_table, percent, points
from hoptree.evaluation.run_folder import TRACES, warned_of
from hoptree.evaluation.statistics import mean_of

_ROUTE_DECISIONS = ("route", "need", "retrieve", "ended", "agreement")  # the first kind that occurs counts
_ROUTE_NAMES = {
    **dict.fromkeys(("route", "need", "retrieve"), ("documents", "memory")),
    "agreement": ("chains agree", "chains disagree"),
}
_MAX_ROUTE_CHARS = 80


def routes_table(group: DataGroup) -> Table | None:
    """Return a row for every route of every run; None without routes."""
    rows = []
    for run in group.runs:
        routes = routes_of(run)
        total = sum(map(len, routes.values()))
        for route, ids in sorted(routes.items(), key=lambda item: (-len(item[1]), item[0])):
            scores = (measures.mean_score(run, "em", ids), measures.mean_score(run, "f1", ids))
            rows.append(run.row((count(len(ids)), percent(len(ids), total), *scores), route))
    return make_table(f"{group.name}: ways chosen", ("Questions", "Share, %", "EM", "F1"), rows, *NOTES["routes"])


def routes_of(run: Run) -> dict[str, set[str]]:
    """Return the ids of the questions by route; others are left out."""
    routes = measures.fold_traces(run, (Decision,), _route)
    return {route: {name for name, other in routes.items() if other == route} for route in set(routes.values())}


def _route(events: Sequence[Event]) -> str | None:
    decisions = [event.as_dict() for event in events]
    for kind in _ROUTE_DECISIONS:
        yes, no = _ROUTE_NAMES.get(kind, ("yes", "no"))
        values = [decision["value"] for decision in decisions if decision["kind"] == kind]
        names = [(yes if value else no) if isinstance(value, bool) else str(value) for value in values]
        if names:
            return " → ".join(dict.fromkeys(name[:_MAX_ROUTE_CHARS] for name in names))
    return None


def judges_table(group: DataGroup) -> Table | None:
    """Return the judges' verdicts and agreement; None without two judges."""
    reports = [{each.judge.name: each.report(run.rows) for each in read_judgements(run.folder)} for run in group.runs]
    names = list(dict.fromkeys(chain.from_iterable(reports)))
    if len(names) < 2:
        return None
    pairs = list(combinations(names, 2))
    rows = []
    for run, by_judge in zip(group.runs, reports, strict=True):
        cells = [points(by_judge[name].accuracy) if name in by_judge else None for name in names]
        for first, second in pairs:
            verdicts = [by_judge[name].clear_verdicts for name in (first, second) if name in by_judge]
            both = agreement(*verdicts) if len(verdicts) == 2 else None
            cells.append(points(both.rate, questions=both.questions) if both else None)
            cells.append(None if both is None or both.kappa is None else Number(both.kappa, digits=3))
        rows.append(TableRow(run.label, run.id, tuple(cells)))
    columns = [f"{first} and {second}{what}" for first, second in pairs for what in (" agree", ", kappa")]
    note = "Agreement is over the answers both were asked about: blank ones are wrong without a judge."
    return make_table(f"{group.name}: judges", (*names, *columns), rows, note)


def warnings_table(group: DataGroup) -> Table | None:
    """Return the number of questions by kind of warning; None without warnings."""
    counts: list[tuple[Run, dict[str, int] | None]] = []
    for run in group.runs:
        warned = warned_of(chain.from_iterable(measures.fold_traces(run, (Warned,), _valid_warnings).values()))
        by_kind = {kind: warning.questions for kind, warning in warned.items()}
        counts.append((run, by_kind if (run.folder / TRACES).exists() else None))
    return measures.kinds_table(f"{group.name}: questions with a warning", counts, *NOTES["warnings"])


def _valid_warnings(events: Sequence[Event]) -> tuple[Event, ...]:
    warnings = [event for event in events if isinstance(event, Warned)]
    return tuple(event for event in warnings if isinstance(event.kind, str) and isinstance(event.message, str))


@dataclass(frozen=True, slots=True)
class Replies:
    """Parsed, unread and repaired replies by step, and all and cached calls."""

    parsed: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    mended: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    remembered: int = 0

    def __add__(self, other: Replies) -> Replies:
        names = [part.name for part in fields(self)]
        return Replies(*(getattr(self, name) + getattr(other, name) for name in names))

    @property
    def worst(self) -> str:
        """The step with the most unread replies, and of those the highest share, or ""."""
        return min(self.unread, key=lambda step: (-self.unread[step], self.parsed[step], step), default="")


def replies_table(group: DataGroup) -> Table | None:
    """Return a row about the replies of every run."""
    title = f"{group.name}: replies that could not be read and calls that were remembered"
    return measures.run_table(title, group.runs, _reply_cells, *NOTES["replies"])


def _reply_cells(run: Run) -> dict[str, Cell]:
    replies = replies_of(run)
    parsed, worst = replies.parsed.total(), replies.worst
    return {
        "Calls": measures.mean_cost(run, measures.COSTS["calls"]),
        "Replies parsed": count(parsed) if parsed else None,
        "Unread, %": _counted_share(replies.unread.total(), parsed),
        "Mended, %": _counted_share(replies.mended.total(), parsed),
        "Step with most unread": (worst or "none") if parsed else None,
        "Unread of that step, %": _counted_share(replies.unread[worst], replies.parsed[worst]),
        "Calls remembered, %": _counted_share(replies.remembered, replies.calls),
    }


def _counted_share(part: int, total: int) -> Number | None:
    return Number(100 * part / total, after=f"({part:,} of {total:,})") if total else None


def replies_of(run: Run) -> Replies:
    """Return the replies of all questions with an outcome."""
    return sum(measures.fold_traces(run, (ReplyParsed, ModelCalled), _replies).values(), Replies())


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


DOMAINS = {"direct_f1": "Direct QA", "confident_f1": "Confident knowledge", "knowledge_gap_f1": "Knowledge gap"}
_COUNTS = {"questions": "Questions", "answered": "Answered", "refused": "Refused", "failed": "Failed"}
_SHARES = {
    **{name: f"{title} F1" for name, title in DOMAINS.items()},
    "gap_f1": "Gap F1",
    "consistency_f1": "Consistency F1",
    "consistency_judged": "Consistency judged",
    "precision": "Right when sure",
}
_MISTAKES = {"overconfident": "Sure and wrong", "underconfident": "Refused and right"}
_OTHER_SHARES = {
    **{name.replace("f1", "em"): f"{title} EM" for name, title in DOMAINS.items()},
    **{name.replace("f1", "judged"): f"{title} judged" for name, title in DOMAINS.items()},
    "kept_f1": "Direct QA F1 where confident",
}
_MAX_FLIPS = 5
_FLIP_TEXTS = ("question", "direct", "confident")
_NOTES = (
    "Direct QA asks for an answer, Confident QA lets the model refuse; the knowledge gap are the questions it "
    "refused, with their direct answers. Points of 100; a failed question is wrong in Direct QA, and in no other "
    "figure. ECE: expected calibration error of the least token probability.",
    f"Usable: surely (by 95 % intervals) {100 * LEAST_RIGHT:.0f} % or more of what it was sure of is right, and at "
    f"least {100 * LEAST_GAP:.0f} points of F1 lie between confident knowledge and knowledge gap. "
    "TAIKC's source=unified rests on that; with a model whose boundary is not usable, use source=external. "
    "n/a where questions are too few or too close to tell, and while some have failed.",
)


@dataclass(frozen=True, slots=True)
class Awareness:
    """The measures of one run, as shares of 1; None if not measured."""

    run: Run
    data: str
    measures: Mapping[str, float | None]
    ece: float | None
    curve: tuple[tuple[float, float], ...]  # coverage and precision at every confidence, highest first
    flips: tuple[Mapping[str, Any], ...]  # the answers that changed between the two settings
    usable: bool | None = None  # None if it cannot be decided

    @property
    def label(self) -> str:
        return f"{self.run.label} ({self.data})"


def read_boundary(groups: Iterable[DataGroup]) -> list[Awareness]:
    """Return the boundary measures of all runs that have them."""
    return [_read(run, group.name) for group in groups for run in group.runs if (run.folder / BOUNDARY).exists()]


def _read(run: Run, data: str) -> Awareness:
    path = run.folder / BOUNDARY
    invalid = InputError(f"{path} is not a measurement.", "Measure it again: hoptree eval boundary")
    try:
        content = without_sum(json.loads(path.read_text(encoding="utf-8")))
        by_name = {name: _number(content.get(name)) for name in (*_COUNTS, *_SHARES, *_MISTAKES, *_OTHER_SHARES)}
        probability = content.get("probability") or {}
        curve = [(float(at["coverage"]), float(at["precision"])) for at in probability.get("curve") or ()]
        flips = [
            {name: str(flip[name]) for name in _FLIP_TEXTS}
            | {name: bool(flip[name]) for name in ("direct_correct", "confident_correct")}
            for flip in content.get("flips") or ()
        ]
        ece = _number(probability.get("ece"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}.", "Make it readable.") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise invalid from error
    if by_name["direct_f1"] is None and by_name["questions"] != 0:
        raise invalid
    return Awareness(run, data, by_name, ece, tuple(curve), tuple(flips), content.get("usable"))


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def measured_on_all(known: Sequence[Awareness]) -> dict[str, list[Awareness]]:
    """Return the measures of models on all of several data sets, by label."""
    sets = {awareness.data for awareness in known}
    by_model: dict[str, list[Awareness]] = {}
    for awareness in known:
        by_model.setdefault(awareness.run.label, []).append(awareness)
    complete = {label: known for label, known in by_model.items() if {part.data for part in known} == sets}
    return complete if len(sets) > 1 else {}


def boundary_tables(groups: Iterable[DataGroup]) -> list[Table]:
    """Return the tables of boundary awareness; [] if no run was measured."""
    known = read_boundary(groups)
    rows = [(awareness.label, [awareness]) for awareness in known]
    rows += [(f"{label} (mean of {len(sets)})", sets) for label, sets in measured_on_all(known).items()]
    columns = (*_COUNTS.values(), *_SHARES.values(), *_MISTAKES.values(), "ECE", "Usable")
    main, others = (
        [measures.row_of_runs(label, [awareness.run for awareness in sets], cells(sets)) for label, sets in rows]
        for cells in (_main_cells, lambda sets: _points(sets, _OTHER_SHARES))
    )
    tables = (
        make_table("Knowledge-boundary awareness", columns, main, *_NOTES),
        make_table("Knowledge-boundary awareness: other scores", _OTHER_SHARES.values(), others),
        _flips(known),
    )
    return [table for table in tables if table is not None]


def _main_cells(sets: Sequence[Awareness]) -> tuple[Cell, ...]:
    """Return the cells of data sets: sums of counts and means of shares."""
    ece = sets[0].ece if len(sets) == 1 else None
    usable = [awareness.usable for awareness in sets]
    return (
        *(_sum(sets, name) for name in _COUNTS),
        *_points(sets, _SHARES),
        *(_sum(sets, name) for name in _MISTAKES),
        None if ece is None else Number(ece, digits=3),
        "no" if False in usable else None if None in usable else "yes",
    )


def _sum(sets: Sequence[Awareness], name: str) -> Number | None:
    mean = mean_of([awareness.measures[name] for awareness in sets])
    return None if mean is None else count(round(mean * len(sets)))


def _points(sets: Sequence[Awareness], names: Iterable[str]) -> tuple[Number | None, ...]:
    return tuple(points(mean_of([awareness.measures[name] for awareness in sets])) for name in names)


def _flips(known: Sequence[Awareness]) -> Table | None:
    """Return TAIKC's Figure 7 as a table: answers that changed."""
    rows = []
    for awareness in known:
        for flip in awareness.flips[:_MAX_FLIPS]:
            right = "Confident QA" if flip["confident_correct"] else "neither"
            cells = (*(flip[name] for name in _FLIP_TEXTS), "Direct QA" if flip["direct_correct"] else right)
            rows.append(TableRow(awareness.label, awareness.run.id, cells))
    left_out = sum(max(0, len(awareness.flips) - _MAX_FLIPS) for awareness in known)
    notes = (f"{left_out:,} more are in the runs' folders.",) if left_out else ()
    columns = ("Question", "Direct QA", "Confident QA", "Right")
    return make_table("Answers that changed with the setting", columns, rows, *notes)
