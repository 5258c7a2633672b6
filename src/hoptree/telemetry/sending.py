"""Sending spans to a backend that may not be there: nobody waits long for it, and lost spans are told of once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

__all__ = ["PATIENCE", "Sending", "within"]

PATIENCE = 2.0
"""Seconds that the end of a command waits for the last spans."""
_LOG = logging.getLogger("hoptree.telemetry")


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
