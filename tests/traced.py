"""Conversion of trace events from and to their JSON form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hoptree.engine import trace as call_events
from hoptree.engine.events import Event, parse_event

assert call_events  # importing it registers its types


def event(event_kind: str, /, **fields: Any) -> Event:
    """Build an event from its fields in a trace file: `event("final", answer="1999", t=2.5)`."""
    return parse_event({"event": event_kind, "run": "r1", "t": 0.0, **fields})


def changed(event: Event, **fields: Any) -> Event:
    """Return the event with other values of some fields."""
    return parse_event({**event.as_dict(), **fields})


def as_dicts(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Return the JSON objects of events."""
    return [event.as_dict() for event in events]
