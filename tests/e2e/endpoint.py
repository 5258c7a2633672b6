"""A scripted OpenAI-compatible endpoint on a real socket: replies by step and text, faults on request, a full log."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Literal

from hoptree.core.values import Passage
from hoptree.evaluation.experiment import Experiment
from hoptree.retrieval.indexing import index_passages

__all__ = [
    "FILM_STEPS",
    "Endpoint",
    "Response",
    "Rule",
    "Seen",
    "cut_off",
    "endless",
    "film_experiment",
    "film_question",
    "films",
    "half_json",
    "index_of",
    "number_of",
    "page",
    "refused",
    "said",
    "script_films",
    "silent",
]

Manner = Literal["whole", "cut", "endless", "silent"]


@dataclass(frozen=True, slots=True)
class Response:
    """What goes back over the wire; `manner` is how: whole, cut off in the middle of the body, or without end.

    Where it is `silent`, nothing goes back.
    """

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    manner: Manner = "whole"


@dataclass(slots=True)
class Seen:
    """A request as it arrived; `answered` once the whole response was handed to the socket."""

    step: str
    body: dict[str, Any]
    headers: dict[str, str]
    answered: bool = False
    hung_up: bool = False

    @property
    def text(self) -> str:
        """The last message, which holds all that changes from request to request."""
        return str(self.body["messages"][-1]["content"])

    @property
    def prompt(self) -> str:
        """All messages."""
        return "\n".join(str(message["content"]) for message in self.body["messages"])

    @property
    def key(self) -> str:
        return json.dumps(self.body, sort_keys=True)


@dataclass(slots=True)
class Rule:
    """Answers a request that fits: of this step, with this text in its last message, for so many times or seconds.

    The seconds begin with the first request that fits.
    """

    response: Response | Callable[[Seen], Response]
    step: str = ""
    contains: str = ""
    times: int | None = None
    seconds: float | None = None
    _began: float | None = None

    def fits(self, seen: Seen) -> bool:
        if self.times == 0 or self.step not in ("", seen.step) or self.contains not in seen.text:
            return False
        self._began = time.monotonic() if self._began is None else self._began
        return self.seconds is None or time.monotonic() < self._began + self.seconds


def said(
    content: str | None,
    *,
    reasoning: str | None = None,
    finish: str = "stop",
    logprobs: Sequence[tuple[str, float]] = (),
    usage: Mapping[str, Any] | None = None,
    delay: float = 0.0,
) -> Response:
    """A chat completion; tokens are counted as words where no usage is given."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish}
    if logprobs:
        entries = [{"token": token, "logprob": logprob, "top_logprobs": []} for token, logprob in logprobs]
        choice["logprobs"] = {"content": entries}
    words = len((content or "").split()) + len((reasoning or "").split())
    counted = {"prompt_tokens": 7, "completion_tokens": words} if usage is None else dict(usage)
    completion = {"object": "chat.completion", "choices": [choice], "usage": counted}
    return Response(json.dumps(completion).encode(), delay=delay)


def refused(status: int, message: str, *, retry_after: str = "") -> Response:
    headers = {"Retry-After": retry_after} if retry_after else {}
    return Response(json.dumps({"error": {"message": message}}).encode(), status, headers)


def page() -> Response:
    return Response(b"<!DOCTYPE html><html><body>It works!</body></html>", headers={"Content-Type": "text/html"})


def half_json() -> Response:
    """A whole HTTP response whose body is half a completion."""
    complete = said("An answer that the reader never gets to see").body
    return Response(complete[: len(complete) // 2])


def cut_off() -> Response:
    """A response that ends in the middle of the body that it announced."""
    return Response(said("An answer that the reader never gets to see").body, manner="cut")


def endless() -> Response:
    """A response that goes on until the client hangs up."""
    return Response(b'{"choices": [{"message": {"content": "and so on ', manner="endless")


def silent() -> Response:
    """No response, until the client hangs up."""
    return Response(manner="silent")


class Endpoint:
    """The endpoint, running in a thread of its own while the `with` block lasts.

    The first rule that fits answers, the last one given first, so that a test can put a fault before what is usual. A
    request that no rule fits is refused with a 400, which nobody tries again. `on_request` is told of every request
    before it is answered; `before` may answer it in place of the rules.
    """

    def __init__(self) -> None:
        self.requests: list[Seen] = []
        self.on_request: Callable[[Seen], None] | None = None
        self.before: Callable[[Seen], Response | None] | None = None
        self._rules: list[Rule] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}/v1"

    def on(
        self,
        step: str,
        *responses: str | Response | Callable[[Seen], Response],
        contains: str = "",
        times: int | None = None,
        seconds: float | None = None,
    ) -> None:
        """Answer requests of a step (all steps: ""); of several responses each but the last is given once."""
        given = [said(response) if isinstance(response, str) else response for response in responses]
        rules = [Rule(response, step, contains, 1, seconds) for response in given[:-1]]
        rules.append(Rule(given[-1], step, contains, times, seconds))
        self._rules[:0] = rules

    def is_idle(self) -> bool:
        """Whether nobody is connected."""
        return not self._open

    def steps(self) -> list[str]:
        return [seen.step for seen in self.requests]

    def texts(self, step: str) -> list[str]:
        return [seen.text for seen in self.requests if seen.step == step]

    def __enter__(self) -> Endpoint:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=256)

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._exchange(reader, writer):
                    pass
        finally:
            self._open.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Take one request and answer it; whether the connection may be used again."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = json.loads(await reader.readexactly(int(headers.get("content-length", "0"))))
        seen = Seen(headers.get("x-hoptree-step", ""), body, headers)
        self.requests.append(seen)
        if self.on_request is not None:
            self.on_request(seen)
        response = self._respond(seen, head[0])
        await asyncio.sleep(response.delay)
        if response.manner == "silent":
            with contextlib.suppress(ConnectionError):
                await reader.read()
            seen.hung_up = True
            return False
        return await self._send(response, seen, writer)

    def _respond(self, seen: Seen, request_line: str) -> Response:
        if request_line.split()[:2] != ["POST", "/v1/chat/completions"]:
            return refused(404, f"no such page: {request_line}")
        if self.before is not None and (response := self.before(seen)):
            return response
        rule = next((rule for rule in self._rules if rule.fits(seen)), None)
        if rule is None:
            return refused(400, f"the script has no reply for {seen.step}: {seen.text[-200:]}")
        if rule.times is not None:
            rule.times -= 1
        return rule.response(seen) if callable(rule.response) else rule.response

    async def _send(self, response: Response, seen: Seen, writer: asyncio.StreamWriter) -> bool:
        headers = {"Content-Type": "application/json", "Content-Length": str(len(response.body)), **response.headers}
        if response.manner == "endless":
            del headers["Content-Length"]
            headers["Transfer-Encoding"] = "chunked"
        lines = [f"HTTP/1.1 {response.status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        if response.manner == "cut":
            writer.write(response.body[: len(response.body) // 2])
            await writer.drain()
            return False
        if response.manner == "endless":
            try:
                while not writer.is_closing():
                    writer.write(b"%x\r\n%s\r\n" % (len(response.body), response.body))
                    await writer.drain()
                    await asyncio.sleep(0)
            finally:
                seen.hung_up = True
            return False
        writer.write(response.body)
        await writer.drain()
        seen.answered = True
        return True


def index_of(folder: Path, *passages: tuple[str, str]) -> Path:
    """A small index of (title, text) passages, whose ids are p1, p2 and so on."""
    return shutil.copytree(Path(_made_once(passages).name) / "index", folder / "index")


@cache
def _made_once(passages: tuple[tuple[str, str], ...]) -> TemporaryDirectory[str]:
    """An index of them, to be copied, which takes a tenth of the time."""
    folder = TemporaryDirectory()
    numbered = (Passage(f"p{number}", title, text) for number, (title, text) in enumerate(passages, 1))
    index_passages(numbered, Path(folder.name) / "index")
    return folder


def film_experiment(folder: Path, endpoint: Endpoint, count: int) -> Experiment:
    """Every film is asked about twice, so that workers need each other's calls; TAIKC's steps are in the script."""
    index_of(folder, *films(count))
    rows = [
        {"id": f"{part}{n}", "question": film_question(n), "answers": [str(1900 + n)]}
        for part in "ab"
        for n in range(count)
    ]
    data = folder / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return Experiment(data, "taikc", corpus=str(folder / "index"), model="openai/test", base_url=endpoint.url)


FILM_STEPS = (
    "taikc/decompose",
    "taikc/confident",
    "taikc/read",
    "taikc/confident",
    "taikc/read",
    "taikc/summarise",
    "taikc/final",
)
"""The requests of one film question, each of which needs the reply to the one before."""

_NUMBERED = re.compile(r"(?:Film|Director) N(\d+)")


def film_question(number: int) -> str:
    """One of any number of questions of the same kind: a chain of two sub-questions, both looked up."""
    return f"In which year was the director of Film N{number} born?"


def films(count: int) -> list[tuple[str, str]]:
    """Passages for so many film questions."""
    return [
        (f"Film N{number}", f"Film N{number} was directed by Director N{number}, born in {1900 + number}.")
        for number in range(count)
    ]


def number_of(seen: Seen) -> int:
    """The film question that a request belongs to."""
    return int(_NUMBERED.findall(seen.text)[-1])


def script_films(endpoint: Endpoint, *, delay: float = 0.0) -> None:
    """Answer film questions, whatever their number: year 1900 + number."""

    def plan(seen: Seen) -> Response:
        second = {"query2": {"question": "In which year was #query1 born?"}}
        tree = {"query1": {"question": f"Who directed Film N{number_of(seen)}?", "children": second}}
        return said(json.dumps(tree), delay=delay)

    def read(seen: Seen) -> Response:
        number = number_of(seen)
        asked = seen.text.rpartition("Question: ")[2]
        return said(f"Director N{number}" if asked.startswith("Who") else str(1900 + number), delay=delay)

    def summary(seen: Seen) -> Response:
        number = number_of(seen)
        return said(f"Film N{number} was directed by Director N{number}, born in {1900 + number}.", delay=delay)

    endpoint.on("taikc/decompose", plan)
    endpoint.on("taikc/confident", said("RAG_REQUIRED", delay=delay))
    endpoint.on("taikc/read", read)
    endpoint.on("taikc/summarise", summary)
    endpoint.on("taikc/final", lambda seen: said(str(1900 + number_of(seen)), delay=delay))
