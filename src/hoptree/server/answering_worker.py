"""The process that answers questions for a server: see `workers.py`.

The first line of standard input is how the server is set up, each further one a question, or one that nobody waits for
any more. What happens to questions goes to standard output, a JSON object a line. Where standard input ends, the
server has, and so does this process.
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

from hoptree.errors import HoptreeError, InternalError
from hoptree.http.refused import LOG_FORMAT
from hoptree.runtime.budget import Budget
from hoptree.runtime.trace import Event
from hoptree.server.asking import Asking, Wanted
from hoptree.server.collecting import collect_rarely
from hoptree.server.crossing import as_data
from hoptree.server.house import open_asking
from hoptree.server.keys import ANYBODY
from hoptree.server.mistakes import log_mistake
from hoptree.server.settings import read_settings

__all__ = ["Teller", "answer", "main"]

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
    asking = open_asking(read_settings(setup["settings"]), shared_by=setup["workers"])
    collect_rarely()
    under_way: dict[int, asyncio.Task[None]] = {}
    async for line in lines:
        said = json.loads(line)
        if (number := said.pop("cancel", None)) is not None:
            if task := under_way.get(number):
                task.cancel()
            continue
        number = said.pop("ask")
        task = loop.create_task(answer(asking, said, Teller(number, pipe.write, live=said.pop("live"))))
        under_way[number] = task
        task.add_done_callback(lambda _, number=number: under_way.pop(number))  # type: ignore[misc]
    for task in under_way.values():
        task.cancel()
    await asyncio.gather(*under_way.values(), return_exceptions=True)
    await asking.aclose()


async def answer(asking: Asking, told: Mapping[str, Any], teller: Teller) -> None:
    """Answer one question; whatever comes of it is told."""
    named = {name: told[name] for name in ("method", "model", "corpus", "graph", "retriever", "rerank", "options")}
    wanted = Wanted(told["question"], **named, budget=Budget(**told["budget"]))
    try:
        prepared = await asking.prepare(wanted, ANYBODY)
        _, failure = await prepared.engine.trace(wanted.question, listeners=(teller.hear,))
    except asyncio.CancelledError as error:
        # The frames of what was broken off refer to each other, and garbage is seldom looked for.
        traceback.clear_frames(error.__traceback__)
        teller.end()
    except HoptreeError as error:
        teller.end(refused=as_data(error))
    except Exception as error:
        log_mistake(error)
        teller.end(refused=as_data(InternalError(error)))
    else:
        if isinstance(failure, InternalError) and failure.__cause__:
            log_mistake(failure.__cause__)
        teller.end(failure=as_data(failure) if failure else None)


class Teller:
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
        line = json.dumps(
            {"id": self._number, "events": self._events, **said}, separators=(",", ":"), check_circular=False
        )
        self._events = []
        self._write(line.encode() + b"\n")


if __name__ == "__main__":
    main()
