"""A listener that turns the trace of a question into OpenTelemetry spans when the question is done."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from hoptree.runtime.trace import Event
from hoptree.telemetry.attributes import attributes_of, name_of, note_of
from hoptree.telemetry.sending import PATIENCE, Sending, within
from hoptree.telemetry.work import Work, read_work

__all__ = ["SpanListener"]

_log = logging.getLogger(__name__)
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
        run: str = event["run"]
        if event["event"] == "start":
            began = time.time_ns() - round(event["t"] * _NANO)
            self._asked[run] = _Asked(began, contexts.get_current(), self._when_broken_off(run))
        asked = self._asked.get(run)
        if asked is None:
            return
        asked.events.append(event)
        if event["event"] == "final":
            self._end(run)

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
            _log.exception("The spans of a question could not be made.")

    def _make(self, work: Work, question: Work, began: int, within: Any) -> None:
        def at(seconds: float) -> int:
            return began + round(seconds * _NANO)

        span = self._tracer.start_span(
            name_of(work, question.event),
            within,
            SpanKind.CLIENT if work.kind == "call" and work.event["event"] == "llm" else SpanKind.INTERNAL,
            attributes_of(work, question, content=self._content),
            start_time=at(work.start),
        )
        for note in work.notes:
            name, attributes = note_of(note, content=self._content)
            span.add_event(name, attributes, at(note["t"]))
        if work.kind == "question":
            _set_status(span, work.event, content=self._content)
        below = trace.set_span_in_context(span, within)
        for one in work.below:
            self._make(one, question, began, below)
        span.end(at(work.end))


def _set_status(span: trace.Span, event: Event, *, content: bool) -> None:
    if event.get("error"):
        said = str(event.get("error_message", "")) if content else ""
        span.set_status(Status(StatusCode.ERROR, said.encode("utf-8", "replace").decode() or event["error"]))
    elif "abstained" not in event:
        span.set_attribute("error.type", "cancelled")
        span.set_status(Status(StatusCode.ERROR, "The question was broken off."))
