"""A local HTTP server that answers POSTs with JSON and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["JsonServer", "json_server"]


@dataclass(slots=True)
class JsonServer:
    """Its base URL and the requests so far, as (path, body), with the keys that came with them."""

    url: str = ""
    requests: list[tuple[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)


@contextmanager
def json_server(answer: Callable[[str, Any], tuple[int, Any]]) -> Iterator[JsonServer]:
    """Serve while the block lasts; `answer` gives status and JSON for a path and a body."""
    seen = JsonServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.requests.append((self.path, body))
            seen.keys.append(self.headers.get("Authorization", ""))
            status, reply = answer(self.path, body)
            sent = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    seen.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
