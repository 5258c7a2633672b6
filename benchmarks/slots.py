"""An OpenAI-compatible endpoint with a fixed number of slots, each busy for 20 to 200 ms with one reply.

How long a reply takes is drawn by the request itself, so that the same work takes the same time however it is sent. It
answers the questions of `throughput.py`, and those alone. Requests beyond its slots wait in line. `GET /figures` says
what it has done since the last time it was asked.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass

__all__ = ["Figures", "reply_to", "seconds_for"]

QUICKEST, SLOWEST = 0.02, 0.2
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_STEP = re.compile(rb"\r\nx-hoptree-step: *\w+/(\w+)", re.IGNORECASE)
_ASKED = re.compile(r"makers of (.+?) and (.+?) \(case (\d+)\)")
_PART = re.compile(r"case (\d+), part (\w)")


@dataclass(slots=True)
class Figures:
    """What the endpoint did: seconds of service as drawn and as slots were held, and when it began and ended.

    `idle` are the seconds that slots were free in between, all slots together; `idle_before` of them passed before all
    slots were busy for the first time, `idle_until` before they were for the last time.
    """

    requests: int = 0
    service: float = 0.0
    held: float = 0.0
    most_at_once: int = 0
    most_in_line: int = 0
    idle: float = 0.0
    idle_before: float = 0.0
    idle_until: float = 0.0
    began: float = 0.0
    ended: float = 0.0
    cpu: float = 0.0


def seconds_for(body: bytes) -> float:
    """How long a request is worked on."""
    share = int.from_bytes(hashlib.blake2b(body, digest_size=4).digest()) / 2**32
    return QUICKEST + share * (SLOWEST - QUICKEST)


def reply_to(step: str, text: str) -> str:
    """What the model says: part a of every case must be looked up, part b is known."""
    if step in ("decompose", "final"):
        first, second, case = _ASKED.findall(text)[-1]
        return json.dumps(_plan(first, second, case)) if step == "decompose" else f"Ada Stone {case}"
    case, part = _PART.findall(text)[-1]
    name, year = (f"Ada Stone {case}", "1918") if part == "a" else (f"Ben Reed {case}", "1934")
    if step == "summarise":
        return f"The work in case {case}, part {part}, was made by {name}, who was born in {year}."
    if step == "confident" and part == "a":
        return "RAG_REQUIRED"
    return year if "In which year" in text.rpartition("Question: ")[2] else name


def _plan(first: str, second: str, case: str) -> dict[str, object]:
    def chain(title: str, part: str, number: int) -> dict[str, object]:
        born = {"question": f"In which year was #query{number} born, in case {case}, part {part}?"}
        return {
            "question": f"Who made {title} in case {case}, part {part}?",
            "children": {f"query{number + 1}": born},
        }

    return {"query1": chain(first, "a", 1), "query3": chain(second, "b", 3)}


class Slots:
    """So many requests at once, the others in line."""

    def __init__(self, count: int) -> None:
        self.figures = Figures()
        self._free = count
        self._count = count
        self._changed = 0.0
        self._line: deque[tuple[float, Callable[[], None]]] = deque()

    def take(self, seconds: float, answer: Callable[[], None]) -> None:
        figures = self.figures
        if not figures.began:
            figures.began = self._changed = time.monotonic()
        self._line.append((seconds, answer))
        self._begin()
        figures.most_in_line = max(figures.most_in_line, len(self._line))

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        while self._line and self._free:
            seconds, answer = self._line.popleft()
            self._change(-1)
            self.figures.most_at_once = max(self.figures.most_at_once, self._count - self._free)
            loop.call_later(seconds, self._end, seconds, time.monotonic(), answer)

    def _end(self, seconds: float, began: float, answer: Callable[[], None]) -> None:
        answer()
        figures = self.figures
        figures.requests += 1
        figures.service += seconds
        figures.ended = time.monotonic()
        figures.held += figures.ended - began
        self._change(1)
        self._begin()

    def _change(self, by: int) -> None:
        figures, now = self.figures, time.monotonic()
        figures.idle += self._free * (now - self._changed)
        self._changed = now
        self._free += by
        if not self._free:
            figures.idle_until = figures.idle
            figures.idle_before = figures.idle_before or figures.idle


class Connection(asyncio.Protocol):
    """One keep-alive connection, one request at a time."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._received[:end])
        length = _LENGTH.search(head)
        whole = end + 4 + (int(length[1]) if length else 0)
        if len(self._received) < whole:
            return
        body = bytes(self._received[end + 4 : whole])
        del self._received[:whole]
        self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"GET /figures"):
            done, self._slots.figures = self._slots.figures, Figures()
            done.cpu = time.process_time()
            self._write(asdict(done))
            return
        step = _STEP.search(head)
        text = json.loads(body)["messages"][-1]["content"]
        said = reply_to(step[1].decode() if step else "", text)
        choice = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
        usage = {"prompt_tokens": len(text) // 4, "completion_tokens": len(said) // 4}
        self._slots.take(seconds_for(body), lambda: self._write({"choices": [choice], "usage": usage}))

    def _write(self, value: object) -> None:
        body = json.dumps(value).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(head + body)


async def serve(count: int) -> None:
    slots = Slots(count)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(slots), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slots", type=int, default=64)
    asyncio.run(serve(parser.parse_args().slots))
