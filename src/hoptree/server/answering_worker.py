"""The process that answers questions for a server: see `workers.py`.

The first line of standard input is how the server is set up, each further one a question, one that nobody waits for any
more, or a corpus to let go of. That it is ready, and what happens to questions, goes to standard output, a JSON object
a line. Where standard input ends, the server has, and so does this process.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from hoptree.core.errors import HoptreeError, InternalError
from hoptree.core.http_server import LOG_FORMAT, log_line
from hoptree.engine.budget import Budget
from hoptree.engine.events import Event
from hoptree.server.ask import AskRequest, QuestionService
from hoptree.server.error_responses import log_internal_error
from hoptree.server.keys import ANYBODY
from hoptree.server.serve import collect_garbage_rarely
from hoptree.server.settings import read_settings
from hoptree.server.state import open_question_service
from hoptree.server.workers import error_to_dict

_LOG = logging.getLogger("hoptree.server")
_LONGEST = 2**26


def main() -> None:
    """Answer until nobody asks any more."""
    # A signal for the whole group, as by Ctrl-C, is for the server: it lets questions finish.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    # What a library prints shall not come between the lines.
    out = os.dup(1)
    os.dup2(2, 1)
    logging.basicConfig(level=logging.WARNING, format=LOG_FORMAT)
    asyncio.run(_work(out))


async def _work(out: int) -> None:
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=_LONGEST)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    pipe, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(out, "wb"))
    setup = json.loads(await lines.readline())
    try:
        asking = open_question_service(read_settings(setup["settings"]), processes=setup["workers"])
    except HoptreeError as error:
        _LOG.error("a worker cannot begin: %s", log_line(error.cause))
        sys.exit(error.exit_code)
    collect_garbage_rarely()
    pipe.write(b'{"ready": true}\n')
    under_way: dict[int, asyncio.Task[dict[str, Any]]] = {}
    async for line in lines:
        said = json.loads(line)
        if "ask" in said:
            number, teller = said["ask"], EventSender(said["ask"], pipe.write, live=said["live"])
            under_way[number] = start_question(asking, said, teller)
            under_way[number].add_done_callback(lambda _, number=number: under_way.pop(number))  # type: ignore[misc]
        elif "forget" in said:
            asking.retrievers.forget(said["forget"])
        elif task := under_way.get(said["cancel"]):
            task.cancel()
    for task in under_way.values():
        task.cancel()
    await asyncio.gather(*under_way.values(), return_exceptions=True)
    await asking.aclose()


def start_question(
    asking: QuestionService, told: Mapping[str, Any], teller: EventSender
) -> asyncio.Task[dict[str, Any]]:
    """Answer one question in a task; its end is told, also of one that is broken off before it has begun."""
    task = asyncio.get_running_loop().create_task(_answer(asking, told, teller))
    task.add_done_callback(lambda task: teller.end(**{} if task.cancelled() else task.result()))
    return task


async def _answer(asking: QuestionService, told: Mapping[str, Any], teller: EventSender) -> dict[str, Any]:
    """How a question ended."""
    named = {name: told[name] for name in ("method", "model", "corpus", "graph", "retriever", "rerank", "options")}
    wanted = AskRequest(told["question"], **named, budget=Budget(**told["budget"]))
    try:
        prepared = await asking.prepare(wanted, ANYBODY)
        _, failure = await prepared.engine.trace(wanted.question, listeners=(teller.hear,))
    except asyncio.CancelledError as error:
        # The frames of what was broken off refer to each other, and garbage is seldom looked for.
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
    """Tells what happens to one question: all that happens at one moment at once, or everything at the end."""

    def __init__(self, number: int, write: Callable[[bytes], None], *, live: bool) -> None:
        self._number = number
        self._write = write
        self._live = live
        self._events: list[Event] = []

    def hear(self, event: Event) -> None:
        if self._live and not self._events:
            asyncio.get_running_loop().call_soon(self._tell_on)
        self._events.append(event)

    def end(self, **outcome: Any) -> None:
        self._tell(over=True, **outcome)

    def _tell_on(self) -> None:
        if self._events:
            self._tell(over=False)

    def _tell(self, **said: Any) -> None:
        told = {"id": self._number, "events": [event.as_dict() for event in self._events], **said}
        self._events = []
        # What JSON cannot hold goes as text: a question whose end is not told would never end.
        line = json.dumps(told, separators=(",", ":"), check_circular=False, default=str)
        self._write(line.encode() + b"\n")


if __name__ == "__main__":
    main()
