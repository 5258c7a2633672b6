"""What happens to a question while it is answered, and how that goes to a client as server-sent events."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hoptree.engine.events import Event
from hoptree.engine.result import Result
from hoptree.engine.trace import Listener
from hoptree.server.ask import PreparedQuestion, QuestionService
from hoptree.server.error_responses import Refusal, refusal_of
from hoptree.server.json_response import to_json

_SNAPSHOT_EVERY = 0.1
_SHARE = 10
"""Of the time, drawing a large tree again and again, or a client that reads slowly, gets one part in so many."""
_SILENCE = 15.0
"""Seconds after which something is sent, so that nobody between takes the connection for dead."""


@dataclass(frozen=True, slots=True)
class TraceUpdate:
    """A trace event."""

    event: Event


@dataclass(frozen=True, slots=True)
class TreeUpdate:
    """The events so far, at most ten times a second."""

    events: list[Event]


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing happened for a while."""


async def question_updates(
    asking: QuestionService, prepared: PreparedQuestion
) -> AsyncGenerator[TraceUpdate | TreeUpdate | Idle | Result | Refusal, None]:
    """What happens, in order; the last is the result, or why there is none. Closing it ends the question."""
    events: list[Event] = []
    news = asyncio.Event()

    def listen(event: Event) -> None:
        events.append(event)
        news.set()

    task = asyncio.get_running_loop().create_task(asking.ask(prepared, (listen,)))
    task.add_done_callback(lambda done: news.set())
    told, drawn, due = 0, 0, 0.0
    try:
        while not task.done():
            wait = max(0.0, due - time.monotonic()) if drawn < len(events) else _SILENCE
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await news.wait()
            news.clear()
            if told == drawn == len(events) and not task.done():
                yield Idle()
            while told < len(events):
                told += 1
                yield TraceUpdate(events[told - 1])
            if drawn < len(events) and time.monotonic() >= due:
                drawn, began = len(events), time.monotonic()
                yield TreeUpdate(events)
                due = began + max(_SNAPSHOT_EVERY, _SHARE * (time.monotonic() - began))
        while told < len(events):
            told += 1
            yield TraceUpdate(events[told - 1])
        failure = task.exception()
        if isinstance(failure, Exception):
            yield refusal_of(failure)
        else:
            yield task.result()
    finally:
        await _end(task)


def server_sent(kind: str, data: Any) -> bytes:
    """One event; its data are JSON on one line, so that no text can begin another event."""
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), to_json(data))


class EventStream(Response):
    """Server-sent events; when the client goes away, `parts` is closed at once."""

    media_type = "text/event-stream"

    def __init__(self, parts: AsyncGenerator[bytes, None]) -> None:
        super().__init__(None, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sending, leaving = loop.create_task(self._send(send)), loop.create_task(_gone(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
            await self._parts.aclose()
        if not sending.cancelled() and (error := sending.exception()):
            raise error

    async def _send(self, send: Send) -> None:
        async for part in self._parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def ask_until_disconnect(
    request: Request, asking: QuestionService, prepared: PreparedQuestion, listeners: Sequence[Listener] = ()
) -> Result:
    """The answer to a question; it is given up when the client goes away.

    It is asked in a task of its own: the groups of tasks of a method and the cancel scopes of a web framework do not
    get on with each other in one.
    """
    loop = asyncio.get_running_loop()
    answering, leaving = loop.create_task(asking.ask(prepared, listeners)), loop.create_task(_gone(request.receive))
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            raise Refusal(499, "ClientGone", "The client went away.")
        return answering.result()
    finally:
        await _end(answering, leaving)


async def _end(*tasks: asyncio.Task[Any]) -> None:
    """End tasks, and let go of all that those which were broken off held.

    The frames of a traceback refer to each other: without this they would stay until garbage is looked for.
    """
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        try:
            task.exception()  # looked at, whether or not anybody waits for it
        except asyncio.CancelledError as error:
            traceback.clear_frames(error.__traceback__)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
