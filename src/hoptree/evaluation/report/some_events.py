"""Some of the events of a run's traces: what a table does not count is not even decoded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hoptree.errors import InputError

__all__ = ["some_events"]


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
