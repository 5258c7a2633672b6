"""Progress notifications while a question's tree grows."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from hoptree.runtime.trace import Event, Listener
from hoptree.telling import SOURCES

__all__ = ["Report", "reporting"]

Report = Callable[[float, float | None, str | None], Awaitable[None]]
"""Sends how far something is, of how much if that is known, and a line about it."""

_WAITING = 100
"""Lines that wait to be sent; a client that takes them too slowly misses some, and no question waits for it."""


@asynccontextmanager
async def reporting(report: Report, *, outside: bool) -> AsyncIterator[Listener]:
    """A listener whose news are sent while the block runs; all of them are out when it has ended well.

    What an endpoint said is no news for `outside`.
    """
    lines: asyncio.Queue[tuple[int, str] | None] = asyncio.Queue()
    steps, calls = 0, 0

    def listen(event: Event) -> None:
        nonlocal steps, calls
        steps += event["event"] in ("llm", "retrieve", "facts")
        calls += event["event"] == "llm"
        if (line := _line(event, calls, outside=outside)) and lines.qsize() < _WAITING:
            lines.put_nowait((steps, line))

    async def send() -> None:
        last = 0.0
        while (news := await lines.get()) is not None:
            done, line = news
            last = max(round(last + 0.001, 3), float(done))  # the protocol wants it to rise with every notification
            with contextlib.suppress(Exception):  # whoever cannot be told of progress still gets the answer
                await report(last, None, line)

    sending = asyncio.create_task(send())
    try:
        yield listen
        lines.put_nowait(None)
        await sending
    finally:
        sending.cancel()


def _line(event: Event, calls: int, *, outside: bool) -> str:
    """An event in one line, if it is worth one."""
    kind = event["event"]
    if kind == "plan":
        count = sum(node["id"] > 0 for node in event["nodes"])
        return f"planned {count} sub-question{'' if count == 1 else 's'}" if count else ""
    if kind == "node":
        asked = event.get("resolved") or event.get("question", "")
        if event["state"] == "asking":
            return f"{event['id']}. {asked}"
        source = event.get("source", "")
        return f"{event['id']}. -> {event.get('answer') or '?'} [{event.get('verdict') or SOURCES.get(source, source)}]"
    if kind == "retry":
        why = "an endpoint that the server asks failed, and is asked again" if outside else event["error"]
        return f"waiting {event['wait']:g} s: {why}"
    if kind == "llm" and "node" not in event:
        return f"{event['step']} ({calls} call{'' if calls == 1 else 's'} so far)"
    return ""
