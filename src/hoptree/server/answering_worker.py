"""The process that answers questions for a server; `workers.py` starts it.

The first line of standard input holds the settings. Each further line is a question, a cancellation, leave to send a
call, or a corpus to close. Readiness and the events of questions go to standard output, one JSON object per line. The
process ends with its standard input, which the server holds open.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import signal
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from typing import Any

from hoptree.core.errors import HoptreeError, InternalError
from hoptree.core.http_server import LOG_FORMAT, log_line
from hoptree.engine.context import Budget, Prices
from hoptree.engine.events import Event
from hoptree.models.model import Request
from hoptree.server.app import collect_garbage_rarely, open_question_service
from hoptree.server.error_responses import log_internal_error
from hoptree.server.keys import ANYBODY, CallSize
from hoptree.server.question_service import AskRequest, QuestionService
from hoptree.server.settings import read_settings
from hoptree.server.workers import MAX_LINE_BYTES, error_from_dict, error_to_dict

_LOG = logging.getLogger("hoptree.server")


def main() -> None:
    """Answer questions until standard input ends."""
    # Ctrl-C signals the whole group, but only the server handles it: it lets questions finish.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    # What libraries print goes to standard error, so that it cannot mix with messages.
    out = os.dup(1)
    os.dup2(2, 1)
    logging.basicConfig(level=logging.WARNING, format=LOG_FORMAT)
    asyncio.run(_work(out))


async def _work(out: int) -> None:
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    pipe, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(out, "wb"))
    setup = json.loads(await lines.readline())
    try:
        questions = open_question_service(read_settings(setup["settings"]), processes=setup["workers"])
    except HoptreeError as error:
        _LOG.error("a worker cannot begin: %s", log_line(error.cause))
        sys.exit(error.exit_code)
    collect_garbage_rarely()
    pipe.write(b'{"ready": true}\n')
    running: dict[int, asyncio.Task[dict[str, Any]]] = {}
    gates: dict[int, RemoteGate] = {}
    async for line in lines:
        message = json.loads(line)
        if "ask" in message:
            number = message["ask"]
            sender = EventSender(number, pipe.write, live=message["live"])
            gates[number] = RemoteGate(sender, questions.settings.prices)
            running[number] = start_question(questions, message, sender, gates[number] if message["held"] else None)
            running[number].add_done_callback(lambda _, number=number: (running.pop(number), gates.pop(number)))  # type: ignore[misc]
        elif "admit" in message:
            if gate := gates.get(message["admit"]):
                gate.answer(message)
        elif "forget" in message:
            questions.retrievers.forget(message["forget"])
        elif task := running.get(message["cancel"]):
            task.cancel()
    for task in running.values():
        task.cancel()
    await asyncio.gather(*running.values(), return_exceptions=True)
    await questions.aclose()


def start_question(
    questions: QuestionService, message: Mapping[str, Any], sender: EventSender, gate: RemoteGate | None = None
) -> asyncio.Task[dict[str, Any]]:
    """Answer a question in a task that always sends an end, even if cancelled early."""
    task = asyncio.get_running_loop().create_task(_answer(questions, message, sender, gate))
    task.add_done_callback(lambda task: sender.end(**{} if task.cancelled() else task.result()))
    return task


async def _answer(
    questions: QuestionService, message: Mapping[str, Any], sender: EventSender, gate: RemoteGate | None
) -> dict[str, Any]:
    """Answer a question, and return how it ended."""
    names = {name: message[name] for name in ("method", "model", "corpus", "graph", "retriever", "rerank", "options")}
    budget, history = Budget(**message["budget"]), message.get("history", ())
    request = AskRequest(message["question"], **names, budget=budget, history=history)
    try:
        prepared = await questions.prepare(request, ANYBODY)
        _, failure = await prepared.engine.trace(request.asked, listeners=(sender.listen,), gate=gate)
    except asyncio.CancelledError as error:
        # The frames of a traceback refer to each other, and garbage is seldom collected.
        traceback.clear_frames(error.__traceback__)
        return {}
    except HoptreeError as error:
        return {"refused": error_to_dict(error)}
    except Exception as error:
        log_internal_error(error)
        return {"refused": error_to_dict(InternalError(error))}
    if isinstance(failure, InternalError) and failure.__cause__:
        log_internal_error(failure.__cause__)
    return {"failure": error_to_dict(failure) if failure else None}


class EventSender:
    """Sends the events of one question: in batches if it is `live`, else at the end."""

    def __init__(self, number: int, write: Callable[[bytes], None], *, live: bool) -> None:
        self._number = number
        self._write = write
        self._live = live
        self._events: list[Event] = []

    def listen(self, event: Event) -> None:
        if self._live and not self._events:
            asyncio.get_running_loop().call_soon(partial(self._send, over=False))
        self._events.append(event)

    def end(self, **outcome: Any) -> None:
        self._send(over=True, **outcome)

    def send(self, **message: Any) -> None:
        """Send a message, after all events before it."""
        self._send(over=False, **message)

    def _send(self, *, over: bool, **more: Any) -> None:
        if not (self._events or over or more):
            return
        message = {"id": self._number, "events": [event.as_dict() for event in self._events], "over": over, **more}
        self._events = []
        # Values that JSON cannot hold go as text: an exception here would leave the server waiting for ever.
        line = json.dumps(message, separators=(",", ":"), check_circular=False, default=str)
        self._write(line.encode() + b"\n")


class RemoteGate:
    """Asks the server, which knows the budgets of keys, before each model call."""

    def __init__(self, sender: EventSender, prices: Prices | None) -> None:
        self._sender = sender
        self._prices = prices
        self._numbers = itertools.count()
        self._asked: dict[int, asyncio.Future[Mapping[str, Any] | None]] = {}

    def answer(self, message: Mapping[str, Any]) -> None:
        """Receive the server's decision about a call."""
        asked = self._asked.get(message["call"])
        if asked is not None and not asked.done():
            asked.set_result(message["refused"])

    @asynccontextmanager
    async def __call__(self, request: Request) -> AsyncIterator[None]:
        number, asked = next(self._numbers), asyncio.get_running_loop().create_future()
        self._asked[number] = asked
        self._sender.send(hold=number, size=asdict(CallSize.of(request, self._prices)))
        lost = False
        try:
            if refused := await asked:
                raise error_from_dict(refused)
            try:
                yield
            except asyncio.CancelledError:
                lost = True
                raise
        finally:
            del self._asked[number]
            self._sender.send(settled=number, lost=lost)


if __name__ == "__main__":
    main()
