"""Where spans go by the standard environment variables of OpenTelemetry."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hoptree.errors import MissingExtra

if TYPE_CHECKING:
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
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise MissingExtra("HOPTREE_OTEL=1", "otel") from error
    from hoptree.telemetry.spans import SpanListener

    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):  # nobody has set one
        own = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "hoptree"}
        provider = TracerProvider(resource=Resource.create(own))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(provider)
    return SpanListener(content=_captures())


def _captures() -> bool:
    return os.environ.get(CAPTURE, "").strip().casefold() not in ("0", "false", "off", "no", "no_content")
