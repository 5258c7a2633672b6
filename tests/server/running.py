"""A server that runs in a thread on a free port of this machine, with a scripted model."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from tests.timing import TIMEOUT_S, Clock

from hoptree.core.http_server import listen
from hoptree.core.values import Passage
from hoptree.models.scripted import Rule, ScriptedModel
from hoptree.retrieval.indexing import index_passages
from hoptree.server.app import Server, ServerState, create_app, state_of
from hoptree.server.settings import Limits, Settings

__all__ = [
    "PASSAGES",
    "QUESTION",
    "Running",
    "events_in",
    "events_of",
    "eventually",
    "limits",
    "running",
    "script",
    "settings",
]

QUESTION = "When was the director of Night Train to Lisbon born?"
PASSAGES = (
    ("night", "Night Train to Lisbon", "Night Train to Lisbon is a film directed by Bille August."),
    ("bille", "Bille August", "Bille August was born in 1948."),
)
_PLAN = {
    "query1": {"question": "Who directed Night Train to Lisbon?"},
    "query2": {"question": "When was #query1 born?"},
}


def script(latency: float = 0.0, **rules: Any) -> ScriptedModel:
    """A model that answers QUESTION as a well-behaved one would; `rules` go before its own."""
    own = [
        Rule(json.dumps(_PLAN), step="decompose"),
        Rule("RAG_REQUIRED", step="confident"),
        Rule("Bille August", step="read", contains="Question: Who directed"),
        Rule("1948", step="read"),
        Rule("Night Train to Lisbon was directed by Bille August, born in 1948.", step="summarise"),
        Rule("1948"),
    ]
    return ScriptedModel(rules=[*rules.get("before", []), *own], latency=latency)


def settings(folder: Path, **changes: Any) -> Settings:
    """A server with one corpus and one model, and nothing remembered."""
    folder.mkdir(parents=True, exist_ok=True)
    index = folder / "index"
    if not index.exists():
        shutil.copytree(Path(_made_once().name) / "index", index)
    usual = Settings(models={"demo": script()}, corpora={"films": str(index)}, cache=None, method="taikc")
    return replace(usual, **changes)


@cache
def _made_once() -> TemporaryDirectory[str]:
    """The index of the corpus, to be copied, which takes a tenth of the time."""
    folder = TemporaryDirectory()
    index_passages((Passage(*fields) for fields in PASSAGES), Path(folder.name) / "index")
    return folder


class Running:
    """A running server and a client of it."""

    def __init__(self, wanted: Settings) -> None:
        self.app = create_app(wanted)
        self._listening = listen("127.0.0.1", 0)
        self.port: int = self._listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._server = Server(self.app)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.client = httpx.Client(base_url=self.url, timeout=TIMEOUT_S, trust_env=False)

    @property
    def busy(self) -> bool:
        """Whether a request is being worked on."""
        return bool(self._server.server_state.tasks)

    @property
    def state(self) -> ServerState:
        return state_of(self.app)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.clock = Clock(self.loop)
        await self._server.serve(sockets=[self._listening])

    def start(self) -> None:
        self._thread.start()
        eventually(lambda: self._server.started)

    def begin_stop(self) -> None:
        """Tell the server to stop, as a signal would."""
        self.loop.call_soon_threadsafe(self._server.stop)

    def stop(self) -> None:
        self.client.close()
        if self._thread.is_alive():
            self.begin_stop()
            self._thread.join(timeout=TIMEOUT_S)
        assert not self._thread.is_alive()

    def ask(self, question: str = QUESTION, **fields: Any) -> httpx.Response:
        return self.client.post("/v1/ask", json={"question": question, **fields})

    def job(self, reply: httpx.Response) -> dict[str, Any]:
        """A job when it is over."""
        assert reply.status_code == 202, reply.text
        name = reply.json()["job"]
        eventually(lambda: self.state.jobs.find(name).state != "running")
        finished: dict[str, Any] = self.client.get(f"/v1/jobs/{name}").json()
        return finished


@contextmanager
def running(wanted: Settings) -> Iterator[Running]:
    server = Running(wanted)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def eventually(holds: Callable[[], bool], seconds: float = TIMEOUT_S) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it did not come to that"
        time.sleep(0.01)


def events_of(reply: httpx.Response) -> list[tuple[str, Any]]:
    """The server-sent events of a reply."""
    return events_in(reply.text)


def events_in(text: str) -> list[tuple[str, Any]]:
    events = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            events.append((lines.get("event", ""), json.loads(lines["data"])))
    return events


def limits(**changes: Any) -> Limits:
    return replace(Limits(), **changes)
