"""What a method that looks up what it doubts did for every question, read from a run's traces (MIND, Tables 1 and 2).

A method takes part if its traces tell which sentences or steps it doubted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from hoptree.evaluation.report.runs import Run
from hoptree.evaluation.report.some_events import some_events
from hoptree.evaluation.run_folder import TRACES

__all__ = ["FILTERS", "CandidateName", "Filtering", "LookUps", "look_ups_of"]

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
