"""An OTLP endpoint on a real socket that keeps what is sent to it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.timing import TIMEOUT_S

__all__ = ["PATIENT", "Collector", "Received"]

PATIENT = f"import hoptree.engine.telemetry; hoptree.engine.telemetry.FLUSH_TIMEOUT_S = {TIMEOUT_S}\n"
"""For a process to begin with: at its end it waits until its spans are taken, however long the test stands still."""


@dataclass(frozen=True, slots=True)
class Received:
    """One request, as it came."""

    path: str
    body: bytes
    headers: dict[str, str]


class Collector(ThreadingHTTPServer):
    """Takes spans over HTTP."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        super().__init__(("127.0.0.1", 0), _Receive)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def resources(self) -> list[Any]:
        """What came, read."""
        service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
        read = [service.ExportTraceServiceRequest.FromString(request.body) for request in self.received]
        return [resource for request in read for resource in request.resource_spans]

    @property
    def spans(self) -> list[Any]:
        return [span for resource in self.resources for scope in resource.scope_spans for span in scope.spans]


class _Receive(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append(Received(self.path, body, dict(self.headers)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return None
