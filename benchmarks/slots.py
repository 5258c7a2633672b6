"""An OpenAI-compatible endpoint with a fixed number of slots, each busy for 50 to 150 ms with one reply.

It plays a model that every method can work with: what it says follows from the step that asks (`X-Hoptree-Step`) and
from the request itself, so that the same work is the same however it is sent. Where a method goes on as long as the
model does, two of three replies go on. Requests beyond its slots wait in line. `GET /figures` says what it has done
since the last time it was asked.
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
from typing import Any

__all__ = ["Figures", "draw_from", "reply_to"]

QUICKEST, SLOWEST = 0.05, 0.15
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_STEP = re.compile(rb"\r\nx-hoptree-step: *\w+/(\w+)", re.IGNORECASE)
_QUESTION = re.compile(r"Question: *(.+)")
_NAME = re.compile(r"[A-Z][\w']+(?: [A-Z][\w']+)*")
_ENDS = 1 / 3
"""How often a reply ends what the model could have gone on with."""


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


def draw_from(body: bytes) -> float:
    """Return a number from 0 to 1 that follows from the request."""
    return int.from_bytes(hashlib.blake2b(body, digest_size=4).digest()) / 2**32


def reply_to(step: str, text: str, draw: float) -> str:
    """Return what the model says at a step; `text` is the last message."""
    asked = _QUESTION.findall(text)
    names = _NAME.findall((asked[-1] if asked else text).partition(" ")[2]) or ["it"]
    first, last = names[0], names[-1]
    words = text.split()
    place = int(draw * max(1, len(words) - 8))
    fact = f"{' '.join(words[place : place + 8])} was made by Ada Stone in {1800 + int(200 * draw)}."
    match step:
        case "decompose":
            return json.dumps(_plan(first, last))
        case "build":
            parts = [{"sub_question": f"Who made {name}?", "hypothesis_answer": "Ada Stone"} for name in (first, last)]
            return json.dumps({"input_question": "", "logic_tree": {"children": parts}, "answer": "Ada Stone"})
        case "validate" | "validate_only":
            ref = {"wikipedia": ["T1"], "Wikidata": []}
            told = {"reason": fact, "correct_answer": "Ada Stone", "isTrue": True, "fact_sufficient": True}
            return json.dumps({**told, "ref": ref})
        case "confident":
            return "RAG_REQUIRED" if draw > 0.5 else "Ada Stone"
        case "draft" | "sentence" | "go_on":
            return "So the answer is: Ada Stone." if draw < _ENDS else fact
        case "think":
            return f"{fact} So the answer is: Ada Stone."
        case "follow_up":
            return "So the final answer is: Ada Stone" if draw < _ENDS else f"Follow up: Who made {fact[:40]}?"
        case "summarise":
            return fact
        case "read" if "NOT FOUND" in text and draw < _ENDS:
            return "NOT FOUND"
        case _:
            return "Ada Stone"


def _plan(first: str, last: str) -> dict[str, object]:
    def chain(name: str, number: int) -> dict[str, object]:
        born = {"question": f"In which year was #query{number} born?"}
        return {"question": f"Who made {name}?", "children": {f"query{number + 1}": born}}

    return {"query1": chain(first, 1), "query3": chain(last, 3)}


def _token_probabilities(said: str) -> dict[str, Any]:
    """Every fifth word of a reply is one that the model is in doubt about."""
    words = re.findall(r"\s*\S+", said)
    return {
        "content": [{"token": word, "logprob": -1.0 if place % 5 == 4 else -0.01} for place, word in enumerate(words)]
    }


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
        request = json.loads(body)
        text, draw = request["messages"][-1]["content"], draw_from(body)
        said = reply_to(step[1].decode() if step else "", text, draw)
        choice: dict[str, Any] = {
            "index": 0,
            "message": {"role": "assistant", "content": said},
            "finish_reason": "stop",
        }
        if request.get("logprobs"):
            choice["logprobs"] = _token_probabilities(said)
        usage = {"prompt_tokens": len(text) // 4, "completion_tokens": len(said) // 4}
        seconds = QUICKEST + draw * (SLOWEST - QUICKEST)
        self._slots.take(seconds, lambda: self._write({"choices": [choice], "usage": usage}))

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
