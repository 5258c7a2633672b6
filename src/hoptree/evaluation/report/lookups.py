"""How far results hang on which worked examples are shown: runs that differ in their draw alone (MIND, Table 1)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from hoptree.evaluation.metrics import normalise
from hoptree.evaluation.report.hypothesis_trees import named
from hoptree.evaluation.report.measures import (
    COSTS,
    YES_NO,
    DataGroup,
    Run,
    all_but,
    mean_cost,
    mean_figure,
    mean_score,
    option_of,
    scores_of,
    shared_name,
    varied,
)
from hoptree.evaluation.report.run_tables import some_events
from hoptree.evaluation.report.tables import Cell, Number, Table, TableRow
from hoptree.evaluation.run_folder import TRACES, Row

FILTERS = ("cot", "confidence")
"""MIND's filters, in the order they are gone through."""
_JUDGED = frozenset({"sentence", "step"})
_KINDS = _JUDGED | {"filtered", "skipped", "memory"}
_LONG = frozenset({"words", "tokens", "samples", "text"})
"""Every word of every sentence with its signals, which would fill the memory."""
_MANY = 10**9
"""More facts than a memory ever holds: a record that says so is damaged."""
_MARKS = (b'"decision"', b'"parse"')


@dataclass(frozen=True, slots=True)
class CandidateName:
    """What might be searched with; `safe` ones are shown to no filter, and `dropped_by` is "" for a kept one."""

    name: str
    dropped_by: str = ""
    safe: bool = False


@dataclass(frozen=True, slots=True)
class Filtering:
    """The names before one search, the relations, and the filters that were set.

    Relations are kept apart: the model that reasons is shown none, so that counting them would favour its filter.
    """

    filters: tuple[str, ...]
    names: tuple[CandidateName, ...]
    relations: tuple[CandidateName, ...] = ()

    def reached(self, place: str) -> tuple[CandidateName, ...]:
        """The names that a filter was shown."""
        before = FILTERS[: FILTERS.index(place)]
        return tuple(one for one in self.names if not one.safe and one.dropped_by not in before)


@dataclass(frozen=True, slots=True)
class LookUps:
    """One question: what was judged and doubted, how names were filtered, and what memory held and saved.

    `unread` are replies of the CoT filter that said nothing, so that it kept all; `facts` and `conflicts` are those of
    the memory in the end, None where nothing was ever looked up for it.
    """

    judged: int = 0
    triggers: int = 0
    filterings: tuple[Filtering, ...] = ()
    unread: int = 0
    skipped: int = 0
    facts: int | None = None
    conflicts: int = 0


def look_ups_of(run: Run) -> dict[str, LookUps]:
    """By question id; empty for a method that does not look up by doubt, and for a run without traces."""
    path = run.folder / TRACES
    try:
        known = path.stat()
    except OSError:
        return {}
    found = _read(path, known.st_size, known.st_mtime_ns)
    if not any(one.judged for one in found.values()):
        return {}
    return {row.id: found[row.trace] for row in run.rows if row.trace in found}


@lru_cache(64)
def _read(path: Path, size: int, changed: int) -> Mapping[str, LookUps]:
    """By trace; the tables of one report ask for it again."""
    events: dict[str, list[dict[str, Any]]] = {}
    for event in some_events(path, _MARKS, _counts):
        short = {name: value for name, value in event.items() if name not in _LONG}
        events.setdefault(event["run"], []).append(short)
    return {trace: _look_ups(some) for trace, some in events.items()}


def _counts(event: Mapping[str, Any]) -> bool:
    told = event["event"] == "decision" and event["kind"] in _KINDS
    return bool(told) or (event["event"] == "parse" and event["step"] == "filter")


def _look_ups(events: Sequence[Mapping[str, Any]]) -> LookUps:
    decisions = [event for event in events if event["event"] == "decision"]
    judged = [one for one in decisions if one["kind"] in _JUDGED and one.get("rewritten") is not True]
    memory = [one for one in decisions if one["kind"] == "memory"]
    last = memory[-1] if memory else {}
    replies = [event for event in events if event["event"] == "parse"]
    return LookUps(
        judged=len(judged),
        triggers=sum(one.get("value") is True for one in judged),
        filterings=tuple(_filterings(decisions)),
        unread=sum(one.get("ok") is not True for one in replies),
        skipped=sum(one["kind"] == "skipped" and one.get("value") is True for one in decisions),
        facts=last["facts"] if type(last.get("facts")) is int and 0 <= last["facts"] < _MANY else None,
        conflicts=len(last["conflicts"]) if isinstance(last.get("conflicts"), list) else 0,
    )


def _filterings(decisions: Sequence[Mapping[str, Any]]) -> Iterator[Filtering]:
    for one in decisions:
        if one["kind"] == "filtered":
            with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
                yield _filtering(one)


def _filtering(event: Mapping[str, Any]) -> Filtering:
    safe = set(map(str, event.get("safe", ())))
    filters = tuple(name for name in FILTERS if name in event["filters"].split("+"))
    names: list[CandidateName] = []
    relations: list[CandidateName] = []
    for name, *others, dropped_by in event["candidates"]:
        kind = relations if "relation" in others[:1] else names
        kind.append(CandidateName(str(name), str(dropped_by or ""), str(name) in safe))
    return Filtering(filters, tuple(names), tuple(relations))


DRAW = "draw"
_NOTE = (
    "Runs that differ in which worked examples they show alone: the mean of their means, each draw counting the same, "
    "and its standard deviation over draws (of a sample). It says nothing of chance among questions, which the "
    "intervals of the first table do."
)


def _triggers(run: Run) -> Number | None:
    found = look_ups_of(run)
    return Number(mean(one.triggers for one in found.values()), digits=2) if found else None


_MEASURES: dict[str, Callable[[Run], Number | None]] = {
    "EM": lambda run: mean_score(run, "em"),
    "F1": lambda run: mean_score(run, "f1"),
    YES_NO.title: lambda run: mean_score(run, YES_NO.name),
    "Triggers": _triggers,
    "Searches": lambda run: mean_cost(run, COSTS["searches"]),
    "Tokens": lambda run: mean_cost(run, COSTS["tokens"]),
}


def draws_table(group: DataGroup) -> Table | None:
    """A row for all draws of a run together; None where no run was made with two."""
    asked = any(mean_score(run, YES_NO.name) is not None for run in group.runs)
    measures = {name: measure for name, measure in _MEASURES.items() if asked or name != YES_NO.title}
    rows = []
    for runs in varied(group.runs, DRAW):
        method = str(runs[0].about["rests_on"].get("method", ""))
        name = shared_name(runs) or method
        if not all(run.finished for run in runs):
            name += " (not finished)"
        cells: list[Cell] = [Number(len(runs), digits=0)]
        for measure in measures.values():
            cells += _spread([measure(run) for run in runs])
        rows.append(TableRow(name, " ".join(run.id for run in runs), tuple(cells)))
    columns = ("Draws", *(column for name in measures for column in (name, f"{name}, sd")))
    return Table(f"{group.name}: over demonstration draws", columns, tuple(rows), (_NOTE,)) if rows else None


def _spread(found: Sequence[Number | None]) -> tuple[Number | None, Number | None]:
    """Mean and standard deviation; n/a where one of the draws has no figure."""
    known = [one for one in found if one is not None]
    if len(known) < len(found) or len(known) < 2:
        return None, None
    values, digits = [one.value for one in known], max(one.digits for one in known)
    return Number(mean(values), digits=digits), Number(stdev(values), digits=digits + 1)


@dataclass(frozen=True, slots=True)
class Bridges:
    """The bridges of some questions.

    `titles` are how many there are, `found` those that were a name to search with before some search, `used` those of
    them that one search at least was made with. `reached` and `kept` count each search for itself: how often a bridge
    was among the names that a filter was shown, and how often it still was behind it. `all` stands for both filters.
    """

    titles: int
    found: int
    used: int
    reached: dict[str, int]
    kept: dict[str, int]


def bridge_titles(row: Row) -> tuple[str, ...]:
    """The supporting titles that the question does not name, what stands in brackets behind them left out."""
    return tuple(title for title in row.gold_titles if not named([title], [row.question]))


def bridges_of(questions: Iterable[tuple[Row, LookUps]]) -> Bridges:
    titles = found = used = 0
    reached = dict.fromkeys((*FILTERS, "all"), 0)
    kept = dict(reached)
    for row, look_ups in questions:
        for title in bridge_titles(row):
            titles += 1
            seen = [passed for one in look_ups.filterings if (passed := _passed(title, one))]
            found += bool(seen)
            used += any(passed["all"] for passed in seen)
            for passed in seen:
                for place, stays in passed.items():
                    reached[place] += 1
                    kept[place] += stays
    return Bridges(titles, found, used, reached, kept)


def _passed(title: str, filtering: Filtering) -> dict[str, bool]:
    """Which filters that were shown a title kept it, by any of the names for it; nothing where none is for it."""
    names = [one for one in filtering.names if named([title], [one.name])]
    if not names:
        return {}
    shown = {place: [one for one in filtering.reached(place) if one in names] for place in filtering.filters}
    passed = {place: any(one.dropped_by != place for one in some) for place, some in shown.items() if some}
    return {**passed, "all": any(not one.dropped_by for one in names)}


_SKIPS_NOTE = (
    "Runs with memory; each is held against the run that differs in memory alone (n/a where there is none). Questions "
    "with skips: those for which memory saved a search at least once. Other answer: not the same as without memory, "
    "in normal form. Memory also shows its facts to the model, so answers change without any skip, too: the last "
    "column is what to hold the others against. Lost and won: of the questions with skips, those that are right (EM) "
    "only without memory, and only with it."
)


def skips_table(group: DataGroup, known: Mapping[Path, Mapping[str, LookUps]]) -> Table | None:
    """A row for each run that remembers; None where no run does."""
    without = {all_but(run, "memory"): run for run in group.runs if option_of(run, "memory") is False}
    rows = []
    for run in group.runs:
        if option_of(run, "memory") is True and run.folder in known:
            cells = _cells(run, known[run.folder], without.get(all_but(run, "memory")))
            rows.append(TableRow(run.named, run.id, cells))
    columns = (
        "Skips",
        "Questions with skips",
        "Held against",
        "Other answer, skipped, %",
        "EM, skipped",
        "EM, without memory",
        "Lost",
        "Won",
        "Other answer, not skipped, %",
    )
    return (
        Table(f"{group.name}: what skipping a search changed", columns, tuple(rows), (_SKIPS_NOTE,)) if rows else None
    )


def _cells(run: Run, look_ups: Mapping[str, LookUps], other: Run | None) -> tuple[Cell, ...]:
    skipped = {name for name, one in look_ups.items() if one.skipped}
    counts = (Number(sum(one.skipped for one in look_ups.values()), digits=0), Number(len(skipped), digits=0))
    if other is None:
        return (*counts, None, None, mean_score(run, "em", skipped), None, None, None, None)
    both = {row.id for row in run.rows} & {row.id for row in other.rows}
    there = skipped & both
    ours, theirs = (scores_of(one, "em") for one in (run, other))
    return (
        *counts,
        other.named,
        _changed(run, other, there),
        mean_score(run, "em", there),
        mean_score(other, "em", there),
        Number(sum((theirs[name] or 0) > (ours[name] or 0) for name in there), digits=0),
        Number(sum((ours[name] or 0) > (theirs[name] or 0) for name in there), digits=0),
        _changed(run, other, both - skipped),
    )


def _changed(run: Run, other: Run, among: Collection[str]) -> Number | None:
    ours, theirs = ({row.id: normalise(row.answer) for row in one.rows} for one in (run, other))
    return Number(100 * sum(ours[name] != theirs[name] for name in among) / len(among)) if among else None


Known = Mapping[Path, Mapping[str, LookUps]]
"""What was looked up in runs, by question id."""
_TITLES = {"cot": "CoT", "confidence": "confidence"}
_LOOKED_UP_NOTE = (
    "Means of one question with 95 % intervals. Judged: sentences or steps that were held against a threshold; "
    "triggers: those that were in doubt. Searches: MIND's robust form searches twice where the first finds nothing "
    "new, FLARE once for the question itself. Skipped: triggers that were not searched for, since memory had the "
    "fact; facts and conflicts: what memory held in the end (subjects and relations with different objects by "
    "different passages). n/a: the run has no memory."
)
_FILTERS_NOTE = (
    "Each search counts for itself, so a name counts as often as it might be searched with. A filter is shown the "
    "names that the one before it left; those that the robust form never drops, and those in doubt, which it does not "
    "search with, are shown to none. CoT not understood: replies that named no candidate, so that all were kept."
)
_BRIDGES_NOTE = (
    "Bridges: supporting titles that the question does not name (what stands in brackets behind a title left out). "
    "Named: those that were among the names before some search, and so could be dropped at all; kept: how often a "
    "bridge that a filter was shown was still there behind it; searched with: of those named, those that were kept "
    "before one search or more."
)


def lookup_tables(group: DataGroup) -> list[Table]:
    """The tables about the runs of a data set that look up what they doubt; none where there is no such run."""
    known = {run.folder: found for run in group.runs if (found := look_ups_of(run))}
    runs = [run for run in group.runs if run.folder in known]
    if not runs:
        return []
    filtering = [run for run in runs if any(one.filterings for one in known[run.folder].values())]
    tables = (_looked_up(group, runs, known), _filters(group, filtering, known), skips_table(group, known))
    return [table for table in tables if table is not None]


def _looked_up(group: DataGroup, runs: Sequence[Run], known: Known) -> Table:
    """MIND's Table 2, and what it rests on."""
    rows = []
    for run in runs:
        found = list(known[run.folder].values())
        remembers = option_of(run, "memory") is True
        cells: tuple[Cell, ...] = (
            mean_figure([one.judged for one in found], 2),
            mean_figure([one.triggers for one in found], 2),
            Number(100 * sum(bool(one.triggers) for one in found) / len(found)),
            mean_cost(run, COSTS["searches"]),
            mean_figure([one.skipped for one in found], 2) if remembers else None,
            mean_figure([one.facts or 0 for one in found], 1) if remembers else None,
            mean_figure([one.conflicts for one in found], 2) if remembers else None,
            mean_cost(run, COSTS["calls"]),
            mean_cost(run, COSTS["tokens"]),
        )
        rows.append(TableRow(run.named, run.id, cells))
    counts = ("Judged", "Triggers", "Questions that trigger, %", "Searches")
    columns = (*counts, "Skipped by memory", "Facts", "Conflicts", "Calls", "Tokens")
    return Table(f"{group.name}: triggers, searches and memory", columns, tuple(rows), (_LOOKED_UP_NOTE,))


def _filters(group: DataGroup, runs: Sequence[Run], known: Known) -> Table | None:
    """How much each filter drops, and how much of it was needed."""
    rows = [TableRow(run.named, run.id, _filtered(run, known[run.folder])) for run in runs]
    columns = (
        "Searches with names",
        "Names each",
        *(f"Dropped by {_TITLES[place]}, %" for place in FILTERS),
        "Dropped, %",
        "CoT not understood, %",
        "Bridges",
        "Named, %",
        *(f"Kept by {_TITLES[place]}, %" for place in FILTERS),
        "Kept, %",
        "Searched with, %",
    )
    notes = (_FILTERS_NOTE, _BRIDGES_NOTE)
    return Table(f"{group.name}: what filters drop", columns, tuple(rows), notes) if rows else None


def _filtered(run: Run, found: Mapping[str, LookUps]) -> tuple[Cell, ...]:
    filterings = [filtering for one in found.values() for filtering in one.filterings]
    names = sum(len(one.names) for one in filterings)
    asked = sum("cot" in one.filters and bool(one.reached("cot")) for one in filterings)
    bridges = bridges_of((row, found[row.id]) for row in run.rows if row.id in found)
    return (
        Number(len(filterings), digits=0),
        Number(names / len(filterings)),
        *(
            _share(
                sum(name.dropped_by == place for one in filterings for name in one.names),
                sum(len(one.reached(place)) for one in filterings if place in one.filters),
            )
            for place in FILTERS
        ),
        _share(sum(bool(name.dropped_by) for one in filterings for name in one.names), names),
        _share(sum(one.unread for one in found.values()), asked),
        Number(bridges.titles, digits=0),
        _share(bridges.found, bridges.titles),
        *(_share(bridges.kept[place], bridges.reached[place]) for place in (*FILTERS, "all")),
        _share(bridges.used, bridges.found),
    )


def _share(some: int, of: int) -> Number | None:
    return Number(100 * some / of) if of else None


def searches_by_data(groups: Sequence[DataGroup], everywhere: Mapping[str, Sequence[Run]]) -> Table | None:
    """MIND's Table 2 as the paper prints it, for what was run on every data set; None without a doubting method."""
    rows = []
    for label, runs in everywhere.items():
        if all(map(look_ups_of, runs)):
            cells = tuple(mean_cost(run, COSTS["searches"]) for run in runs)
            rows.append(TableRow(label, " ".join(run.id for run in runs), cells))
    columns = tuple(group.name for group in groups)
    note = "Means of one question with 95 % intervals, for methods that look up what they doubt."
    return Table("Searches by data set", columns, tuple(rows), (note,)) if rows else None
