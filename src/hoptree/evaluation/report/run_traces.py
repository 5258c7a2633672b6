"""Read what tables need from the traces of a run, question by question."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from hoptree.core.errors import InputError
from hoptree.engine.events import Event, Finished, parse_event
from hoptree.evaluation.report.measures import Run
from hoptree.evaluation.run_folder import TRACES

T = TypeVar("T")
_CACHED_FOLDS = 512


def fold_traces(run: Run, types: tuple[type[Event], ...], fold: Callable[[Sequence[Event]], T | None]) -> dict[str, T]:
    """Return what `fold` makes of the events of each finished question, by question id.

    `fold` is a module-level function: its results are cached until the file changes. It sees only events of these
    types. Questions without such events, and those for which it returns None or fails on a damaged record, are left
    out. A run without traces has none.
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
    """Fold a whole file; size and time of change are there for the cache alone."""
    results: dict[str, Any] = {}
    for events in by_question(_read_types(path, (*types, Finished))):
        chosen = [event for event in events if isinstance(event, types)]
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            if chosen and (result := fold(chosen)) is not None:
                results[chosen[0].run] = result
    return results


def by_question(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Yield the events of each question as soon as it is done; questions asked together are interleaved."""
    unfinished: dict[str, list[Event]] = {}
    for event in events:
        unfinished.setdefault(event.run, []).append(event)
        if isinstance(event, Finished):
            yield unfinished.pop(event.run)
    yield from unfinished.values()


def _read_types(path: Path, types: Iterable[type[Event]]) -> Iterator[Event]:
    """Yield the events of these types, decoding no other lines; damaged lines are skipped."""
    kinds = "|".join(sorted({kind.event for kind in types}))
    wanted = re.compile(rf'"event":\s*"(?:{kinds})"'.encode())
    try:
        with path.open("rb") as lines:
            for line in filter(wanted.search, lines):
                with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
                    yield parse_event(json.loads(line))
    except OSError as error:
        raise InputError(f"The trace {path} cannot be read: {error.strerror}.", "Make it readable.") from error
