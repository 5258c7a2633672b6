"""OpenTelemetry spans of a question; imported only if HOPTREE_OTEL is set."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, Status, StatusCode

from hoptree.core.http_client import without_password
from hoptree.engine.events import Event, Finished, Started
from hoptree.engine.telemetry_spans import CallWork, QuestionWork, Work, attributes_of, name_of, note_of, read_work
from hoptree.engine.trace import ModelCalled

FLUSH_TIMEOUT_S = 2.0  # how long the end of a command waits for the last spans
_LOG = logging.getLogger("hoptree.engine.telemetry")


class Sending(SpanExporter):
    """An exporter that warns once of lost spans; `lost` if its last attempt failed."""

    def __init__(self, exporter: SpanExporter, where: str) -> None:
        self._exporter = exporter
        self._where = where
        self._warned = False
        self.lost = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.lost = False
        else:
            self.report_loss()
        return result

    def report_loss(self) -> None:
        """Note that spans are lost, and warn the first time."""
        self.lost = True
        if not self._warned:
            self._warned = True
            _LOG.warning(
                "spans were lost: %s does not take them. Start the backend, or correct OTEL_EXPORTER_OTLP_ENDPOINT; "
                "without HOPTREE_OTEL none are sent.",
                self._where,
            )

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def finishes_within(seconds: float, work: Callable[[], object]) -> bool:
    """Run work in a daemon thread, and tell whether it ended in time; else it goes on."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


_NANO = 1_000_000_000


@dataclass(slots=True)
class _Asked:
    """A question in progress: its start in ns, the span around it, and its events."""

    began: int
    parent: Any
    unwatch: Callable[[], None]
    events: list[Event] = field(default_factory=list)


class SpanListener:
    """Makes nested spans of every question, the nodes of its tree, and all calls.

    Their times are those of the trace. As the tree may be rebuilt until the end, spans are made when the question is
    answered, or when its task ends: a cancelled question has spans too. They go to the given provider, by default that
    of the process, below the span that was current when the question was asked. Without `content` no question, answer,
    reply or passage leaves the process. `sending` is the exporter, if known.
    """

    def __init__(
        self, provider: trace.TracerProvider | None = None, *, content: bool = True, sending: Sending | None = None
    ) -> None:
        self._provider = provider or trace.get_tracer_provider()
        self._sending = sending
        self._tracer = self._provider.get_tracer("hoptree")
        self._content = content
        self._asked: dict[str, _Asked] = {}

    def __call__(self, event: Event) -> None:
        if isinstance(event, Started):
            began = time.time_ns() - round(event.t * _NANO)
            self._asked[event.run] = _Asked(began, contexts.get_current(), self._watch_task(event.run))
        asked = self._asked.get(event.run)
        if asked is None:
            return
        asked.events.append(event)
        if isinstance(event, Finished):
            self._end(event.run)

    async def flush(self) -> None:
        """Send the remaining spans in time, unless the backend refused the last ones."""
        send = getattr(self._provider, "force_flush", None)
        if send is None or (self._sending and self._sending.lost):
            return
        in_time = await asyncio.to_thread(finishes_within, FLUSH_TIMEOUT_S, lambda: send(round(FLUSH_TIMEOUT_S * 1000)))
        if not in_time and self._sending:
            self._sending.report_loss()

    def _watch_task(self, run: str) -> Callable[[], None]:
        """Have a question end when its task ends; return a function that undoes this."""
        try:
            task = asyncio.current_task()
        except RuntimeError:
            task = None
        if task is None:  # a trace that is read back
            return lambda: None

        def ended(_: object) -> None:
            self._end(run)

        def unwatch() -> None:
            task.remove_done_callback(ended)

        task.add_done_callback(ended)
        return unwatch

    def _end(self, run: str) -> None:
        asked = self._asked.pop(run, None)
        if asked is None:
            return
        asked.unwatch()
        try:
            question = read_work(asked.events)
            self._make(question, question, asked.began, asked.parent)
        except Exception:  # a fault here must not cost the answer
            _LOG.exception("The spans of a question could not be made.")

    def _make(self, work: Work, question: QuestionWork, began: int, parent: Any) -> None:
        def at(seconds: float) -> int:
            return began + round(seconds * _NANO)

        calls_model = isinstance(work, CallWork) and isinstance(work.call, ModelCalled)
        span = self._tracer.start_span(
            name_of(work, question),
            parent,
            SpanKind.CLIENT if calls_model else SpanKind.INTERNAL,
            attributes_of(work, question, content=self._content),
            start_time=at(work.start),
        )
        for note in work.notes:
            name, attributes = note_of(note, content=self._content)
            span.add_event(name, attributes, at(note.t))
        final = question.finished
        if work is question and final is None:
            span.set_attribute("error.type", "cancelled")
            span.set_status(Status(StatusCode.ERROR, "The question was broken off."))
        elif work is question and final and final.error:
            message = final.error_message.encode("utf-8", "replace").decode() if self._content else ""
            span.set_status(Status(StatusCode.ERROR, message or final.error))
        below = trace.set_span_in_context(span, parent)
        for part in work.below:
            self._make(part, question, began, below)
        span.end(at(work.end))


CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""OpenTelemetry's own switch for the texts of people and models."""


def open_spans() -> SpanListener:
    """Return a listener for this process's provider, by default OTLP over HTTP.

    The SDK reads OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME and others.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):  # none was set
        _set_provider(OTLPSpanExporter())
    captures = os.environ.get(CAPTURE, "").strip().casefold() not in ("0", "false", "off", "no", "no_content")
    return SpanListener(content=captures, sending=_sending)


_sending: Sending | None = None  # the exporter of this process, if `open_spans` made it


def _set_provider(exporter: SpanExporter) -> None:
    """Send spans from now on, and the remaining ones when the process ends."""
    global _sending
    # It logs the same loss four times; `report_loss` warns once.
    logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
    names = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    where = next(filter(None, map(os.environ.get, names)), "http://localhost:4318")
    sending = _sending = Sending(exporter, without_password(where))
    own = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "hoptree"}
    provider = TracerProvider(resource=Resource.create(own), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(sending))
    trace.set_tracer_provider(provider)

    def end() -> None:
        if not sending.lost and not finishes_within(FLUSH_TIMEOUT_S, provider.shutdown):
            sending.report_loss()

    atexit.register(end)
