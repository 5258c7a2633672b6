"""OpenTelemetry: what a question did as spans, made from its trace; nothing of it is loaded unless it is asked for."""

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

PATIENCE = 2.0  # seconds that the end of a command waits for the last spans
_LOG = logging.getLogger("hoptree.engine.telemetry")


class Sending(SpanExporter):
    """An exporter that tells when spans are lost; `lost` says that the backend took nothing when it was last tried."""

    def __init__(self, exporter: SpanExporter, where: str) -> None:
        self._exporter = exporter
        self._where = where
        self._told = False
        self.lost = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.lost = False
        else:
            self.tell()
        return result

    def tell(self) -> None:
        """Spans are lost: say so, the first time."""
        self.lost = True
        if not self._told:
            self._told = True
            _LOG.warning(
                "spans were lost: %s does not take them. Start the backend, or correct OTEL_EXPORTER_OTLP_ENDPOINT; "
                "without HOPTREE_OTEL none are sent.",
                self._where,
            )

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def within(seconds: float, work: Callable[[], object]) -> bool:
    """Whether something was done in time; what takes longer goes on in a thread that the process does not wait for."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


_NANO = 1_000_000_000


@dataclass(slots=True)
class _Asked:
    """A question that is being answered: when it was asked, within which span, and what happened so far."""

    began: int
    within: Any
    forget: Callable[[], None]
    events: list[Event] = field(default_factory=list)


class SpanListener:
    """Spans of every question: itself, the nodes of its tree nested as they are there, and all calls.

    Their times are those of the trace. The tree may be rebuilt until the end, so spans are made when the question is
    done, or when the task that asked it is: a question that is broken off leaves spans too. They go to the provider
    given, or to that of the process, below the span that was current when the question was asked. Without `content`
    no question, answer, reply or passage leaves the process. `sending` is the exporter, where that is known.
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
            self._asked[event.run] = _Asked(began, contexts.get_current(), self._when_broken_off(event.run))
        asked = self._asked.get(event.run)
        if asked is None:
            return
        asked.events.append(event)
        if isinstance(event, Finished):
            self._end(event.run)

    async def flush(self, seconds: float = PATIENCE) -> None:
        """Send what was not sent yet, for so long at most; a backend that took nothing just now is not waited for."""
        send = getattr(self._provider, "force_flush", None)
        if send is None or (self._sending and self._sending.lost):
            return
        in_time = await asyncio.to_thread(within, seconds, lambda: send(round(seconds * 1000)))
        if not in_time and self._sending:
            self._sending.tell()

    def _when_broken_off(self, run: str) -> Callable[[], None]:
        """See to it that a question ends with its task; what is returned undoes that."""
        try:
            task = asyncio.current_task()
        except RuntimeError:
            task = None
        if task is None:  # a trace that is read back
            return lambda: None

        def ended(_: object) -> None:
            self._end(run)

        def forget() -> None:
            task.remove_done_callback(ended)

        task.add_done_callback(ended)
        return forget

    def _end(self, run: str) -> None:
        asked = self._asked.pop(run, None)
        if asked is None:
            return
        asked.forget()
        try:
            question = read_work(asked.events)
            self._make(question, question, asked.began, asked.within)
        except Exception:  # an answer is worth more than its spans
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
"""OpenTelemetry's own switch for what people and models wrote."""


def open_spans() -> SpanListener:
    """A listener for the provider of this process; without one, spans go out by OTLP over HTTP.

    OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME and the like are read by the SDK.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):  # nobody has set one
        _set_provider(OTLPSpanExporter())
    captures = os.environ.get(CAPTURE, "").strip().casefold() not in ("0", "false", "off", "no", "no_content")
    return SpanListener(content=captures, sending=_sending)


_sending: Sending | None = None  # the exporter of this process, where it is ours


def _set_provider(exporter: SpanExporter) -> None:
    """Have spans sent from now on, and what is left of them when the process ends."""
    global _sending
    # Which says four times, and in its own words, what is said once here.
    logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
    names = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    where = next(filter(None, map(os.environ.get, names)), "http://localhost:4318")
    sending = _sending = Sending(exporter, without_password(where))
    own = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "hoptree"}
    provider = TracerProvider(resource=Resource.create(own), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(sending))
    trace.set_tracer_provider(provider)

    def end() -> None:
        if not sending.lost and not within(PATIENCE, provider.shutdown):
            sending.tell()

    atexit.register(end)
