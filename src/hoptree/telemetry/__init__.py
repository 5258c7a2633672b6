"""OpenTelemetry: what a question did as spans, made from its trace; nothing of it is loaded unless it is asked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hoptree.errors import ConfigError

if TYPE_CHECKING:
    from hoptree.telemetry.spans import SpanListener

__all__ = ["SWITCH", "spans_wanted"]

SWITCH = "HOPTREE_OTEL"
"""The environment variable that has spans sent to where OTEL_EXPORTER_OTLP_ENDPOINT says."""

_ON, _OFF = ("1", "true", "on", "yes"), ("", "0", "false", "off", "no")


def spans_wanted() -> SpanListener | None:
    """A listener that sends spans, if the environment asks for them."""
    said = os.environ.get(SWITCH, "").strip().casefold()
    if said in _OFF:
        return None
    if said not in _ON:
        raise ConfigError(f"{SWITCH}={said} is not possible.", f"Set {SWITCH}=1 to send spans, or leave it out.")
    from hoptree.telemetry.exporting import open_spans

    return open_spans()
