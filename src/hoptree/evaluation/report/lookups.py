"""Tables about methods that search where they are uncertain (MIND)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any, NamedTuple

from hoptree.engine.events import Decision, Event, ReplyParsed
from hoptree.evaluation.metrics import normalise
from hoptree.evaluation.report import measures
from hoptree.evaluation.report.hypothesis_trees import named
from hoptree.evaluation.report.measures import DataGroup, Run
from hoptree.evaluation.report.tables import NOTES, Cell, Number, Table, count, make_table, percent
from hoptree.evaluation.run_folder import Row

FILTERS = {"cot": "CoT", "confidence": "confidence"}  # MIND's filters, in the order they are applied, with their titles
_ORDER = tuple(FILTERS)
_JUDGED = ("sentence", "step")
_DECISIONS = (*_JUDGED, "filtered", "skipped", "memory")
_MAX_FACTS = 10**9  # a record with more facts is damaged


class CandidateName(NamedTuple):
    """A name to search with; `dropped_by` is "" for a kept one."""

    name: str
    dropped_by: str = ""


@dataclass(frozen=True, slots=True)
class Filtering:
    """The candidate names of one search, and the filters that were set.

    Relations are left out: the CoT filter does not see them, and counting them would favour it.
    """

    filters: tuple[str, ...]
    names: tuple[CandidateName, ...]

    def reached(self, place: str) -> tuple[CandidateName, ...]:
        """Return the names that reached a filter."""
        before = _ORDER[: _ORDER.index(place)]
        return tuple(name for name in self.names if name.dropped_by not in before)


@dataclass(frozen=True, slots=True)
class LookUps:
    """The look-ups of one question: its triggers, filters and memory."""

    judged: int = 0
    triggers: int = 0
    filterings: tuple[Filtering, ...] = ()
    unread: int = 0  # replies of the CoT filter without a verdict, which drop no name
    skipped: int = 0
    facts: int | None = None  # in the memory at the end; None without any search
    conflicts: int = 0


def look_ups_of(run: Run) -> dict[str, LookUps]:
    """Return the look-ups by question id; {} for other methods or without traces."""
    look_ups = measures.fold_traces(run, (Decision, ReplyParsed), _look_ups)
    return look_ups if any(question.judged for question in look_ups.values()) else {}


def _look_ups(events: Sequence[Event]) -> LookUps | None:
    recorded = [event.as_dict() for event in events if isinstance(event, Decision)]
    decisions = [decision for decision in recorded if decision["kind"] in _DECISIONS]
    replies = [event for event in events if isinstance(event, ReplyParsed) and event.step == "filter"]
    if not decisions and not replies:
        return None
    judged = [decision for decision in decisions if decision["kind"] in _JUDGED]
    judged = [decision for decision in judged if decision.get("rewritten") is not True]
    memory: Mapping[str, Any] = next((decision for decision in reversed(decisions) if decision["kind"] == "memory"), {})
    facts, conflicts = memory.get("facts"), memory.get("conflicts")
    filterings = []
    for decision in decisions:
        if decision["kind"] == "filtered":
            with suppress(KeyError, TypeError, ValueError, AttributeError):
                filterings.append(_filtering(decision))
    return LookUps(
        judged=len(judged),
        triggers=sum(decision["value"] is True for decision in judged),
        filterings=tuple(filterings),
        unread=sum(event.ok is not True for event in replies),
        skipped=sum(decision["kind"] == "skipped" and decision["value"] is True for decision in decisions),
        facts=facts if type(facts) is int and 0 <= facts < _MAX_FACTS else None,
        conflicts=len(conflicts) if isinstance(conflicts, list) else 0,
    )


def _filtering(decision: Mapping[str, Any]) -> Filtering:
    filters = tuple(name for name in FILTERS if name in decision["filters"].split("+"))
    names = [
        CandidateName(str(name), str(dropped_by or ""))
        for name, *others, dropped_by in decision["candidates"]
        if "relation" not in others[:1]
    ]
    return Filtering(filters, tuple(names))


DRAW = "draw"


_DRAW_MEASURES: dict[str, Callable[[Run], Number | None]] = {
    "EM": lambda run: measures.mean_score(run, "em"),
    "F1": lambda run: measures.mean_score(run, "f1"),
    measures.TITLES[measures.YES_NO]: lambda run: measures.mean_score(run, measures.YES_NO),
    "Triggers": lambda run: (
        measures.mean_figure([asked.triggers for asked in looked.values()], 2) if (looked := look_ups_of(run)) else None
    ),
    "Searches": lambda run: measures.mean_cost(run, measures.COSTS["searches"]),
    "Tokens": lambda run: measures.mean_cost(run, measures.COSTS["tokens"]),
}


def draws_table(group: DataGroup) -> Table | None:
    """Return MIND's Table 1: a row for all draws of a run; None without draws."""
    yes_no = measures.has_score(group.runs, measures.YES_NO)
    columns_of = {name: of for name, of in _DRAW_MEASURES.items() if yes_no or name != measures.TITLES[measures.YES_NO]}
    rows = []
    alike: dict[str, dict[str, Run]] = {}  # runs that differ in their draw alone, one for each draw
    for run in group.runs:
        if (draw := run.options.get(DRAW)) is not None:
            alike.setdefault(measures.settings_without(run, DRAW), {}).setdefault(json.dumps(draw), run)
    for runs in (list(by_draw.values()) for by_draw in alike.values() if len(by_draw) > 1):
        name = measures.shared_name(runs) or runs[0].method
        if not all(run.finished for run in runs):
            name += " (not finished)"
        cells: list[Cell] = [count(len(runs))]
        for measure in columns_of.values():
            figures = [figure for run in runs if (figure := measure(run)) is not None]
            if len(figures) < len(runs):
                cells += [None, None]
            else:
                values, digits = [figure.value for figure in figures], max(figure.digits for figure in figures)
                cells += [Number(mean(values), digits=digits), Number(stdev(values), digits=digits + 1)]
        rows.append(measures.row_of_runs(name, runs, cells))
    columns = ("Draws", *(column for name in columns_of for column in (name, f"{name}, sd")))
    return make_table(f"{group.name}: over demonstration draws", columns, rows, *NOTES["draws"])


def bridge_titles(row: Row) -> tuple[str, ...]:
    """Return the supporting titles that the question does not name."""
    return tuple(title for title in row.gold_titles if not named([title], [row.question]))


def _count_bridges(run: Run, look_ups: Mapping[str, LookUps]) -> Counter[str]:
    """Count the bridges: `titles` that the question does not name.

    `found` were candidate names of some search, `used` were kept for at least one. `reached …` and `kept …` count over
    searches: how often a bridge reached a filter, and how often it passed. "all" is both filters.
    """
    counts: Counter[str] = Counter()
    for row in run.rows:
        for title in bridge_titles(row) if row.id in look_ups else ():
            passes = [passed for filtering in look_ups[row.id].filterings if (passed := _passed(title, filtering))]
            counts.update(titles=1, found=bool(passes), used=any(passed["all"] for passed in passes))
            for place, stays in (item for passed in passes for item in passed.items()):
                counts.update({f"reached {place}": 1, f"kept {place}": stays})
    return counts


def _passed(title: str, filtering: Filtering) -> dict[str, bool]:
    """Return which filters kept a title; {} if no candidate is a name of it."""
    names = [name for name in filtering.names if named([title], [name.name])]
    if not names:
        return {}
    shown = {place: [name for name in filtering.reached(place) if name in names] for place in filtering.filters}
    passed = {place: any(name.dropped_by != place for name in seen) for place, seen in shown.items() if seen}
    return {**passed, "all": any(not name.dropped_by for name in names)}


def _skip_cells(run: Run, other: Run | None) -> dict[str, Cell]:
    """Return what skipping searches changed, compared with the run without memory."""
    look_ups = look_ups_of(run)
    skipped = {name for name, question in look_ups.items() if question.skipped}
    both = {row.id for row in run.rows} & {row.id for row in other.rows} if other else set()
    common = skipped & both if other else skipped
    ours, theirs = measures.scores_of(run, "em"), measures.scores_of(other, "em") if other else {}
    return {
        "Skips": count(sum(question.skipped for question in look_ups.values())),
        "Questions with skips": count(len(skipped)),
        "Held against": other.named if other else None,
        "Other answer, skipped, %": _share_changed(run, other, common) if other else None,
        "EM, skipped": measures.mean_score(run, "em", common),
        "EM, without memory": measures.mean_score(other, "em", common) if other else None,
        "Lost": count(sum((theirs[name] or 0) > (ours[name] or 0) for name in common)) if other else None,
        "Won": count(sum((ours[name] or 0) > (theirs[name] or 0) for name in common)) if other else None,
        "Other answer, not skipped, %": _share_changed(run, other, both - skipped) if other else None,
    }


def _share_changed(run: Run, other: Run, among: Collection[str]) -> Number | None:
    ours, theirs = ({row.id: normalise(row.answer) for row in either.rows} for either in (run, other))
    return percent(sum(ours[name] != theirs[name] for name in among), len(among))


def lookup_tables(group: DataGroup) -> list[Table | None]:
    """Return the tables about runs with look-ups; None without such runs."""
    runs = [run for run in group.runs if look_ups_of(run)]
    filtering = [run for run in runs if any(question.filterings for question in look_ups_of(run).values())]
    remembering = [run for run in runs if run.options.get("memory") is True]
    without = {
        measures.settings_without(run, "memory"): run for run in group.runs if run.options.get("memory") is False
    }

    def skips(run: Run) -> dict[str, Cell]:
        return _skip_cells(run, without.get(measures.settings_without(run, "memory")))

    filters = (*NOTES["filters"], *NOTES["bridges"])
    return [
        measures.run_table(f"{group.name}: triggers, searches and memory", runs, _look_up_cells, *NOTES["look_ups"]),
        measures.run_table(f"{group.name}: what filters drop", filtering, _filter_cells, *filters),
        measures.run_table(f"{group.name}: what skipping a search changed", remembering, skips, *NOTES["skips"]),
    ]


def _look_up_cells(run: Run) -> dict[str, Cell]:
    """Return MIND's Table 2, and the counts behind it."""
    questions = look_ups_of(run).values()
    memory = run.options.get("memory") is True
    return {
        "Judged": measures.mean_figure([question.judged for question in questions], 2),
        "Triggers": measures.mean_figure([question.triggers for question in questions], 2),
        "Questions that trigger, %": percent(sum(bool(question.triggers) for question in questions), len(questions)),
        "Searches": measures.mean_cost(run, measures.COSTS["searches"]),
        "Skipped by memory": measures.mean_figure([question.skipped for question in questions], 2) if memory else None,
        "Facts": measures.mean_figure([question.facts or 0 for question in questions], 1) if memory else None,
        "Conflicts": measures.mean_figure([question.conflicts for question in questions], 2) if memory else None,
        "Calls": measures.mean_cost(run, measures.COSTS["calls"]),
        "Tokens": measures.mean_cost(run, measures.COSTS["tokens"]),
    }


def _filter_cells(run: Run) -> dict[str, Cell]:
    """Return how many names each filter drops, and how many bridges it keeps."""
    look_ups = look_ups_of(run)
    filterings = [filtering for question in look_ups.values() for filtering in question.filterings]
    names = [name for filtering in filterings for name in filtering.names]
    shown = {
        place: sum(len(filtering.reached(place)) for filtering in filterings if place in filtering.filters)
        for place in FILTERS
    }
    dropped = {place: sum(name.dropped_by == place for name in names) for place in FILTERS}
    asked = sum("cot" in filtering.filters and bool(filtering.reached("cot")) for filtering in filterings)
    bridges = _count_bridges(run, look_ups)
    kept = {place: percent(bridges[f"kept {place}"], bridges[f"reached {place}"]) for place in (*FILTERS, "all")}
    return {
        "Searches with names": count(len(filterings)),
        "Names each": Number(len(names) / len(filterings)),
        **{f"Dropped by {title}, %": percent(dropped[place], shown[place]) for place, title in FILTERS.items()},
        "Dropped, %": percent(sum(bool(name.dropped_by) for name in names), len(names)),
        "CoT not understood, %": percent(sum(question.unread for question in look_ups.values()), asked),
        "Bridges": count(bridges["titles"]),
        "Named, %": percent(bridges["found"], bridges["titles"]),
        **{f"Kept by {title}, %": kept[place] for place, title in FILTERS.items()},
        "Kept, %": kept["all"],
        "Searched with, %": percent(bridges["used"], bridges["found"]),
    }


def searches_by_data(groups: Sequence[DataGroup], everywhere: Mapping[str, Sequence[Run]]) -> Table | None:
    """Return MIND's Table 2, for runs on all data sets; None without look-ups."""
    rows = [
        measures.row_of_runs(label, runs, (measures.mean_cost(run, measures.COSTS["searches"]) for run in runs))
        for label, runs in everywhere.items()
        if all(map(look_ups_of, runs))
    ]
    note = "Means of one question with 95 % intervals, for methods that look up what they doubt."
    return make_table("Searches by data set", [group.name for group in groups], rows, note)
