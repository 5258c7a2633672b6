"""Summarise a run: means with intervals, by type and hops, and costs."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from hoptree.core.errors import InputError, TraceError
from hoptree.core.values import Usage
from hoptree.engine.events import Event
from hoptree.engine.events import Warned as WarningEvent
from hoptree.engine.trace import ModelCalled, read_events
from hoptree.evaluation.judge import read_judgements
from hoptree.evaluation.run_folder import RUN, TRACES, Row, Warned, read_rows, read_run, warned_of
from hoptree.evaluation.statistics import unseen


@dataclass(frozen=True, slots=True)
class Spread:
    """A cost over all questions; `p95` is the smallest value that 95 % of them do not exceed.

    Without questions, all but the total are None.
    """

    total: float
    mean: float | None
    median: float | None
    p95: float | None


def spread(values: Sequence[float]) -> Spread:
    """Return total, mean and spread of values."""
    if not values:
        return Spread(0.0, None, None, None)
    total, ordered = math.fsum(values), sorted(values)
    p95 = ordered[-(-95 * len(ordered) // 100) - 1]
    return Spread(total, total / len(values), statistics.median(ordered), p95)


def summarise_usage(usages: Sequence[Mapping[str, float]]) -> dict[str, Spread]:
    """Return the spread of everything a question's usage counts, and of `tokens` (prompt and completion together).

    A usage that lacks a figure is refused: 0 would make the run look cheaper than it was.
    """
    names = [field.name for field in fields(Usage)]
    for usage in usages:
        if missing := [name for name in names if name not in usage]:
            raise InputError(
                f"A question's usage does not say its {', '.join(missing)}.", "Run it again with this version."
            )
    tokens = spread([usage["prompt_tokens"] + usage["completion_tokens"] for usage in usages])
    return {name: spread([usage[name] for usage in usages]) for name in names} | {"tokens": tokens}


def summarise(folder: Path) -> dict[str, Any]:
    """Return the metrics of a run; questions without an outcome yet are counted, not scored.

    `rests_on` counts the outcomes by what they rest on: more than one entry is a mixture of runs.
    """
    run, rows = read_run(folder), read_rows(folder)
    unfinished, warned = _traced(folder, {row.trace for row in rows})
    return {
        "questions": len(run["questions"]),
        "finished": len(rows),
        "failed": sum(bool(row.error) for row in rows),
        "abstained": sum(row.abstained for row in rows),
        "stopped": sum(bool(row.stopped_by) for row in rows),
        "stopped_guesses": sum(bool(row.stopped_by and row.source == "fallback") for row in rows),
        "errors": dict(Counter(row.error for row in rows if row.error)),
        **({"answer_filter": run["answer_filter"]} if "answer_filter" in run else {}),
        "rests_on": dict(Counter(row.rests_on for row in rows)),
        "metrics": _means(rows),
        "by_type": _by(rows, lambda row: row.type),
        "by_hops": _by(rows, lambda row: str(row.hops or "")),
        "sources": dict(sum((Counter(row.sources) for row in rows), Counter())),
        "judges": {known.judge.name: known.report(rows).as_dict() for known in read_judgements(folder)},
        "usage": {name: asdict(cost) for name, cost in summarise_usage([row.usage for row in rows]).items()},
        "unfinished_usage": unfinished,
        "warned": {kind: asdict(warning) for kind, warning in warned.items()},
    }


def money_spent(folder: Path) -> float:
    """Return what a run has cost so far, interrupted and repeated questions included."""
    if not (folder / RUN).exists():
        return 0.0
    rows = read_rows(folder)
    paid = math.fsum(row.usage.get("cost", 0.0) for row in rows)
    unfinished, _ = _traced(folder, {row.trace for row in rows})
    return paid + unfinished["cost"]


def half_width(values: Sequence[float]) -> float:
    """Return half of the 95 % interval of a mean, by the normal approximation.

    Where all values from 0 to 1 are alike, the Clopper-Pearson bound is used.
    """
    if len(set(values)) == 1:
        return unseen(len(values)) * max(values[0], 1 - values[0])
    if not values:
        return 0.0
    return 1.96 * statistics.stdev(values) / math.sqrt(len(values))


def _means(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Return each metric with its mean, half interval and number of questions."""
    scores: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, value in row.scores.items():
            if value is not None:
                scores[name].append(value)
    return {
        name: {"mean": statistics.fmean(values), "plus_minus": half_width(values), "questions": len(values)}
        for name, values in scores.items()
    }


def _by(rows: Iterable[Row], group: Callable[[Row], str]) -> dict[str, Any]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[group(row)].append(row)
    return {name: {"questions": len(part), "metrics": _means(part)} for name, part in sorted(groups.items()) if name}


def _traced(folder: Path, finished: set[str]) -> tuple[dict[str, float], dict[str, Warned]]:
    """Return the cost of interrupted or repeated questions, and the warnings of the others."""
    spent = {"calls": 0.0, "prompt_tokens": 0.0, "completion_tokens": 0.0, "cost": 0.0}
    warnings: list[Event] = []
    with suppress(TraceError):
        for event in read_events(folder / TRACES):
            if isinstance(event, ModelCalled) and not event.cached and event.run not in finished:
                spent["calls"] += 1
                for name in ("prompt_tokens", "completion_tokens", "cost"):
                    spent[name] += getattr(event, name)
            elif isinstance(event, WarningEvent) and event.run in finished:
                warnings.append(event)
    return spent, warned_of(warnings)
