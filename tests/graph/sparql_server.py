"""A SPARQL endpoint on this machine: queries are run by pyoxigraph, or answered as a test wants."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from hoptree.graph.oxigraph import ox

__all__ = ["Answer", "Seen", "serving", "sparql_server"]

Answer = tuple[int, Mapping[str, str], bytes]


@dataclass(slots=True)
class Seen:
    """Its URL, and what it was asked."""

    url: str = ""
    queries: list[str] = field(default_factory=list)
    agents: list[str] = field(default_factory=list)


@contextmanager
def sparql_server(answer: Callable[[str], Answer]) -> Iterator[Seen]:
    """Serve while the block lasts; `answer` gives status, headers and body for a query."""
    seen = Seen()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode(), strict_parsing=True)
            seen.queries.append(form["query"][0])
            seen.agents.append(self.headers.get("User-Agent", ""))
            status, headers, body = answer(form["query"][0])
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(ConnectionError):  # the client may refuse a long reply before it has it all
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    seen.url = f"http://127.0.0.1:{server.server_address[1]}/sparql"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def serving(turtle: str) -> Callable[[str], Answer]:
    """Answers every query from these triples; one that is no SPARQL gets a 400."""
    store = ox.Store()
    store.load(turtle.encode(), ox.RdfFormat.TURTLE)

    def answer(query: str) -> Answer:
        try:
            solutions = store.query(query)
        except SyntaxError as error:
            return 400, {"Content-Type": "text/plain"}, str(error).encode()
        assert isinstance(solutions, ox.QuerySolutions | ox.QueryBoolean)
        body = solutions.serialize(format=ox.QueryResultsFormat.JSON)
        assert body is not None
        return 200, {"Content-Type": "application/sparql-results+json"}, body

    return answer
