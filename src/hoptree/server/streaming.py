"""Stream questions to clients as server-sent events, with a line for each step."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hoptree.core.errors import redact
from hoptree.engine import trace
from hoptree.engine.answer_sentence import shorten
from hoptree.engine.events import (
    ChainWritten,
    Event,
    NodeSettled,
    NodeStarted,
    Planned,
    Started,
    TextQuarantined,
    Warned,
)
from hoptree.engine.result import Result
from hoptree.engine.tasks import describe_task
from hoptree.server.error_responses import Refusal, refusal_of
from hoptree.server.question_service import PreparedQuestion, QuestionService
from hoptree.server.reply_schemas import StepEvent
from hoptree.server.views import to_json

_SNAPSHOT_SECONDS = 0.1
_SNAPSHOT_PAUSE_FACTOR = 10  # the pause after a snapshot, in times of what building and sending it took
_IDLE_SECONDS = 15.0  # after this time a comment is sent, so that no proxy closes the connection
KEEP_ALIVE = b": still answering\n\n"


async def question_updates(
    questions: QuestionService, prepared: PreparedQuestion
) -> AsyncGenerator[Event | list[Event] | Result | Refusal | None, None]:
    """Yield each event, snapshots of all events so far, and None in long pauses.

    At most ten snapshots come in a second. The last value is the result or a refusal. Closing the generator cancels
    the question.
    """
    events: list[Event] = []
    news = asyncio.Event()

    def listen(event: Event) -> None:
        events.append(event)
        news.set()

    task = asyncio.get_running_loop().create_task(questions.ask(prepared, (trace.LiveListener(listen),)))
    task.add_done_callback(lambda done: news.set())
    sent, in_snapshot, next_snapshot = 0, 0, 0.0
    try:
        while not task.done():
            wait = max(0.0, next_snapshot - time.monotonic()) if in_snapshot < len(events) else _IDLE_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await news.wait()
            news.clear()
            if sent == in_snapshot == len(events) and not task.done():
                yield None
            while sent < len(events):
                sent += 1
                yield events[sent - 1]
            if in_snapshot < len(events) and time.monotonic() >= next_snapshot:
                in_snapshot, began = len(events), time.monotonic()
                yield events
                elapsed = time.monotonic() - began
                next_snapshot = began + max(_SNAPSHOT_SECONDS, _SNAPSHOT_PAUSE_FACTOR * elapsed)
        for event in events[sent:]:
            yield event
        failure = task.exception()
        yield refusal_of(failure) if isinstance(failure, Exception) else task.result()
    finally:
        await _cancel(task)


def server_sent(kind: str, data: Any) -> bytes:
    """Encode an event with JSON on one line, so that no text can begin another."""
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), to_json(data))


class EventStream(Response):
    """A stream of server-sent events; closes `parts` when the client disconnects."""

    media_type = "text/event-stream"

    def __init__(self, parts: AsyncGenerator[bytes, None], headers: Mapping[str, str] | None = None) -> None:
        super().__init__(None, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no", **(headers or {})})
        del self.headers["content-length"]
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sending, leaving = loop.create_task(self._send(send)), loop.create_task(_disconnect(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancel(sending, leaving)
            await self._parts.aclose()
        if not sending.cancelled() and (error := sending.exception()):
            raise error

    async def _send(self, send: Send) -> None:
        async for part in self._parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def ask_until_disconnect(
    request: Request, questions: QuestionService, prepared: PreparedQuestion, listeners: Sequence[trace.Listener] = ()
) -> Result:
    """Answer a question, and cancel it when the client disconnects.

    It runs in its own task, as asyncio's task groups in methods conflict with the framework's cancel scopes.
    """
    loop = asyncio.get_running_loop()
    answering = loop.create_task(questions.ask(prepared, listeners))
    leaving = loop.create_task(_disconnect(request.receive))
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            raise Refusal(499, "ClientGone", "The client went away.")
        return answering.result()
    finally:
        await _cancel(answering, leaving)


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks, and free what the cancelled ones held.

    Frames of a traceback refer to each other, and would stay until the rare garbage collection.
    """
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        try:
            task.exception()  # mark it as retrieved, or asyncio logs it
        except asyncio.CancelledError as error:
            traceback.clear_frames(error.__traceback__)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


_MAX_CHARS = 160
_MAX_NAME_CHARS = 60
_MAX_TITLE_CHARS = 40
_MAX_TITLES = 3
_NODE_ID_SPAN = 100  # ids that a node reserves for nodes rebuilt below it
_VERDICTS = {"supported": "the evidence supports it", "refuted": "the evidence refutes it", "unknown": "not settled"}


class ProgressText:
    """Turns events of one question into lines of text; technical events have none."""

    def __init__(self) -> None:
        self._shown: set[str] = set()
        self._numbers: dict[int, str] = {}
        self._ids: set[str] = set()

    def step(self, event: Event) -> StepEvent | None:
        """Return the text of an event with its node, time and kind; None without a text."""
        if isinstance(event, Planned):
            self._number_nodes(event)
        elif isinstance(event, trace.Retrieved):
            self._ids.update(passage["id"] for passage in event.passages)
        text, is_node = self._text(event), isinstance(event, NodeStarted | NodeSettled)
        if not text or (is_node and text in self._shown):
            return None
        self._shown.add(text)
        node = getattr(event, "id" if is_node else "node", None)
        return StepEvent(text=text, node=node, t=event.t, kind=event.event)

    def _text(self, event: Event) -> str:
        match event:
            case Started():
                return f"Asking with {event.method}"
            case trace.QuestionRewritten():
                return f"Read as: {shorten(event.question, _MAX_CHARS)}"
            case Planned():
                return self._plan(event)
            case NodeStarted():
                return f"{self._name(event.id)}: {shorten(event.resolved, _MAX_CHARS)}"
            case NodeSettled():
                return self._answer(event)
            case trace.ModelCalled():
                cached = ", from the cache" if event.cached else ""
                return f"Asked the model to {describe_task(event.step)} ({event.seconds:.1f} s{cached})"
            case trace.Retrieved():
                return _describe_search(event)
            case trace.TitlesFound():
                return f"Looked for pages called “{shorten(event.name, _MAX_NAME_CHARS)}”"
            case trace.FactsFound():
                about = shorten(event.label or event.entity, _MAX_NAME_CHARS)
                return f"Looked up facts about {about}: {len(event.facts)} found"
            case trace.EntitiesFound():
                labels = [label for _, label in event.found[:_MAX_TITLES]]
                return f"Looked up “{shorten(event.name, _MAX_NAME_CHARS)}” in the graph: {_list(labels)}"
            case ChainWritten():
                return shorten(event.text, _MAX_CHARS)
            case Warned():
                return redact(shorten(event.message, _MAX_CHARS), known=self._ids)
            case TextQuarantined():
                return "Left out a sentence of a passage that addresses a model"
            case trace.Retried():
                return f"Waiting {event.wait:.1f} s: an endpoint failed, and is asked again"
            case _:
                return ""

    def _number_nodes(self, event: Planned) -> None:
        """Number nodes for people: those below 1, with ids from 101, are 1.1, 1.2, …"""
        total = len(self._numbers) + len(event.nodes)
        for node in event.nodes:
            parent, place = divmod(node["id"], _NODE_ID_SPAN)
            prefix = self._numbers.get(parent) if event.under is not None and node["id"] > total else None
            self._numbers[node["id"]] = f"{prefix}.{place}" if prefix else str(node["id"])

    def _plan(self, event: Planned) -> str:
        count = sum(node["id"] > 0 for node in event.nodes)
        if not count:
            return ""
        counted = f"{count} sub-question{'s' if count > 1 else ''}"
        if event.under is None:
            return f"Planned {counted}"
        return f"{'Rebuilt' if event.rebuilt else 'Split'} {self._name(event.under)}: {counted}"

    def _answer(self, event: NodeSettled) -> str:
        name, answer = self._name(event.id), shorten(event.answer, _MAX_CHARS)
        if not answer:
            return f"{name}: no answer found"
        why = _VERDICTS.get(event.verdict or "", "") or event.outcome
        return f"{name}: {answer}" + (f" ({why})" if why else "")

    def _name(self, node: int) -> str:
        return "The question" if node == 0 else f"Sub-question {self._numbers.get(node, node)}"


def _describe_search(event: trace.Retrieved) -> str:
    titles = _list(list(dict.fromkeys(passage["title"] for passage in event.passages)))
    if name := (event.where or {}).get("title"):
        return f"Looked for a page named “{shorten(name, _MAX_NAME_CHARS)}”: {titles}"
    return f"Searched for “{shorten(event.query, _MAX_CHARS)}”: {titles}"


def _list(titles: list[str]) -> str:
    shown = ", ".join(shorten(title, _MAX_TITLE_CHARS) for title in titles[:_MAX_TITLES])
    return f"{shown}{', …' if len(titles) > _MAX_TITLES else ''}" if titles else "nothing found"
