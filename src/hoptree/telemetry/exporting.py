"""Where spans go by the standard environment variables of OpenTelemetry."""

from __future__ import annotations

import atexit
import logging
import os
from typing import TYPE_CHECKING

from hoptree.errors import MissingExtra
from hoptree.http import without_password

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    from hoptree.telemetry.sending import Sending
    from hoptree.telemetry.spans import SpanListener

__all__ = ["CAPTURE", "open_spans"]

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""OpenTelemetry's own switch for what people and models wrote."""


def open_spans() -> SpanListener:
    """A listener for the provider of this process; without one, spans go out by OTLP over HTTP.

    OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME and the like are read by the SDK.
    """
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: F401 - is it there?
    except ImportError as error:
        raise MissingExtra("HOPTREE_OTEL=1", "otel") from error
    from hoptree.telemetry.spans import SpanListener

    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):  # nobody has set one
        _set_provider(OTLPSpanExporter())
    return SpanListener(content=_captures(), sending=_sending)


_sending: Sending | None = None
"""The exporter of this process, where it is ours."""


def _set_provider(exporter: OTLPSpanExporter) -> None:
    """Have spans sent from now on, and what is left of them when the process ends."""
    from opentelemetry import trace
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from hoptree.telemetry.sending import PATIENCE, Sending, within

    global _sending
    # Which says four times, and in its own words, what is said once here.
    logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
    sending = _sending = Sending(exporter, _where())
    own = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "hoptree"}
    provider = TracerProvider(resource=Resource.create(own), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(sending))
    trace.set_tracer_provider(provider)

    def end() -> None:
        if not sending.lost and not within(PATIENCE, provider.shutdown):
            sending.tell()

    atexit.register(end)


def _where() -> str:
    """The address spans go to, as it was given, without what may be a password in it."""
    names = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    return without_password(next(filter(None, map(os.environ.get, names)), "http://localhost:4318"))


def _captures() -> bool:
    return os.environ.get(CAPTURE, "").strip().casefold() not in ("0", "false", "off", "no", "no_content")
