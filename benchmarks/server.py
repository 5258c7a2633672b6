"""Whether the server keeps up: 200 clients at once for a minute, then the same with a tenth of them breaking off.

It is `hoptree serve` with two workers and a scripted model that takes 100 ms a call, so that everything beyond that is
ours. Passages are searched as the server does by default; `--retriever bm25` tells what of it is search, `--workers 0`
what one process does alone. Goals, for both parts: no error; 95 % of the questions take at most 1.3 times the critical
path, which is what one question takes whose calls do nothing but wait; memory does not grow. After the second part
nothing of what was broken off is still being answered.

    python benchmarks/server.py            both parts, a minute each
    python benchmarks/server.py --quick    ten seconds each
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hoptree.core.values import Passage
from hoptree.retrieval import DEFAULT_RETRIEVER
from hoptree.retrieval.indexing import index_passages

LATENCY = 0.1
CHAIN = 9
"""Calls one after another: a plan, three times what the model knows and what passages say, a summary, an answer."""
_STOLEN = 7
"""The place of what a host keeps from a virtual machine among the kinds of time."""
MOST_SLOWER, MOST_GROWTH, MOST_AFTER = 1.3, 1.05, 5.0
FILM = r"film (\d+-\d+)"
PLAN = {
    "query1": {"question": "Who directed film $1?"},
    "query2": {"question": "Where was #query1 born?"},
    "query3": {"question": "When was #query2 founded?"},
}
SCRIPT = {
    "latency": LATENCY,
    "replies": [
        {"step": "taikc/decompose", "regex": FILM, "reply": json.dumps(PLAN)},
        {"step": "taikc/confident", "reply": "RAG_REQUIRED"},
        {
            "step": "taikc/summarise",
            "reply": "The film was directed by Bille August, born in Brede, founded in 1948.",
        },
        {"contains": "Question: Who directed", "regex": FILM, "reply": "Bille August of film $1"},
        {"contains": "Question: Where was", "regex": FILM, "reply": "Brede of film $1"},
        {"reply": "1948"},
    ],
}
"""What is said names the film of the question, so that no two questions share a call: those that do wait for one
reply and go on at the same moment, all of them."""


def asked_about(film: str) -> str:
    """The question about a film."""
    return f"When was the place founded where the director of film {film} was born?"


def make_index(folder: Path) -> None:
    """The corpus that they are answered from."""
    passages = (
        Passage("night", "Night Train to Lisbon", "Night Train to Lisbon is a film directed by Bille August."),
        Passage("bille", "Bille August", "Bille August was born in Brede."),
        Passage("brede", "Brede", "Brede was founded in 1948."),
    )
    index_passages(passages, folder)


@contextmanager
def serving(folder: Path, retriever: str, workers: int) -> Iterator[tuple[int, int]]:
    """The server under test, as its port and its process."""
    make_index(folder / "index")
    (folder / "films.json").write_text(json.dumps(SCRIPT))
    command = [sys.executable, "-m", "hoptree", "serve", "--model", f"scripted/{folder}/films.json", "--no-cache"]
    command += ["--corpus", f"films={folder}/index", "--method", "taikc", "--retriever", retriever, "--port", "0"]
    command += ["--workers", str(workers), "--limits", "asking=1000,connections=4000"]
    log = folder / "log"
    with log.open("w") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            yield listening(process, log), process.pid
        finally:
            process.terminate()


def listening(process: subprocess.Popen[bytes], log: Path) -> int:
    """The port, once the server has told it."""
    while process.poll() is None:
        if found := re.search(r"serving http://127\.0\.0\.1:(\d+)/", log.read_text()):
            return int(found[1])
        time.sleep(0.05)
    raise SystemExit(f"the server did not start:\n{log.read_text()}")


@dataclass(slots=True)
class Part:
    """What clients saw in one part of the run."""

    seconds: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    broken_off: int = 0
    memory: list[float] = field(default_factory=list)
    processor: float = 0.0
    withheld: float = 0.0

    @property
    def p95(self) -> float:
        return statistics.quantiles(self.seconds, n=20)[-1] if len(self.seconds) > 1 else float("inf")

    @property
    def growth(self) -> float:
        """Memory in the last fifth of the time over that in the second, when everything has been used once."""
        fifth = max(1, len(self.memory) // 5)
        return statistics.median(self.memory[-fifth:]) / statistics.median(self.memory[fifth : 2 * fifth])


class Client:
    """One client: HTTP by hand, so that two hundred of them leave the processor to the server."""

    def __init__(self, port: int, number: int) -> None:
        self._port, self._number, self._asked = port, number, 0
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self) -> dict[str, Any]:
        """Ask a question nobody asked before."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**20)
        assert self._reader is not None
        self._asked += 1
        body = json.dumps({"question": asked_about(f"{self._number}-{self._asked}")}).encode()
        head = (
            f"POST /v1/ask HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        )
        self._writer.write(head.encode() + b"\r\n\r\n" + body)
        said = await self._reader.readuntil(b"\r\n\r\n")
        length = int(said.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        reply: dict[str, Any] = json.loads(await self._reader.readexactly(length))
        return reply | {"status": int(said.split(b" ")[1])}

    def hang_up(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None


async def ask_on(client: Client, until: float, part: Part, *, breaks_off: random.Random | None) -> None:
    """Ask one question after another; one that breaks off waits for no answer."""
    while time.perf_counter() < until:
        began = time.perf_counter()
        try:
            if breaks_off is not None:
                try:
                    await asyncio.wait_for(client.ask(), breaks_off.uniform(0, CHAIN * LATENCY * 0.9))
                except TimeoutError:
                    part.broken_off += 1
                client.hang_up()
                continue
            reply = await client.ask()
            if reply["status"] != 200 or reply.get("answer") != "1948":
                part.errors[f"{reply['status']} {reply.get('error') or reply.get('answer')}"] += 1
            else:
                part.seconds.append(time.perf_counter() - began)
        except (OSError, asyncio.IncompleteReadError, ValueError, IndexError) as error:
            part.errors[type(error).__name__] += 1
            client.hang_up()


async def measure(port: int, pid: int, clients: int, seconds: float, *, breaking_off: int) -> Part:
    part, until, spent, before = Part(), time.perf_counter() + seconds, processor(pid), ticks()

    async def watch() -> None:
        while time.perf_counter() < until:
            part.memory.append(resident(pid))
            await asyncio.sleep(seconds / 100)

    made = [Client(port, number) for number in range(clients)]
    work = [
        ask_on(one, until, part, breaks_off=random.Random(number) if number < breaking_off else None)
        for number, one in enumerate(made)
    ]
    await asyncio.gather(watch(), *work)
    part.processor = processor(pid) - spent
    gone = [now - then for now, then in zip(ticks(), before, strict=True)]
    part.withheld = gone[_STOLEN] / sum(gone)
    for one in made:
        one.hang_up()
    return part


def family(pid: int) -> list[int]:
    """A process and those that it has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def resident(pid: int) -> float:
    """Megabytes of memory that a process and its workers have; what they share counts once."""
    said = (Path(f"/proc/{one}/smaps_rollup").read_text() for one in family(pid))
    return sum(int(line.split()[1]) / 1024 for text in said for line in text.splitlines() if line.startswith("Pss:"))


def processor(pid: int) -> float:
    """Seconds of a processor that a process and its workers have used."""
    stats = [Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split() for one in family(pid)]
    return sum(int(fields[11]) + int(fields[12]) for fields in stats) / os.sysconf("SC_CLK_TCK")


def ticks() -> list[int]:
    """What the processors were used for since the machine was started, by kind."""
    return [int(count) for count in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]


async def alone(port: int) -> float:
    """Seconds of the critical path of one question when there is no other: the least of a few."""
    client, found = Client(port, 10_000), []
    for _ in range(5):
        reply = await client.ask()
        found.append(float(reply["usage"]["critical_path_seconds"]))
    client.hang_up()
    return min(found)


async def still_asking(port: int) -> int:
    """Questions that are being answered now."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    said = await reader.read()
    writer.close()
    return int(json.loads(said.partition(b"\r\n\r\n")[2])["asking"])


async def until_none(port: int) -> float:
    """Seconds until no question is being answered any more, now that all clients are gone."""
    began = time.perf_counter()
    while await still_asking(port) and time.perf_counter() - began < MOST_AFTER:
        await asyncio.sleep(0.01)
    return time.perf_counter() - began


def told(name: str, part: Part, path: float) -> list[str]:
    """The figures of a part, and the goals that it misses."""
    slower = part.p95 / path
    print(
        f"{name}: {len(part.seconds):,} answers, {sum(part.errors.values())} errors, {part.broken_off:,} broken off; "
        f"median {statistics.median(part.seconds):.3f} s, p95 {part.p95:.3f} s = {slower:.2f} x critical path; "
        f"{1000 * part.processor / len(part.seconds):.1f} ms of a processor an answer, "
        f"{part.withheld:.0%} of all processors withheld by the host; "
        f"memory {part.memory[0]:.0f} -> {part.memory[-1]:.0f} MB, last fifth {part.growth:.3f} x second fifth"
    )
    missed = [f"{name}: {count} x {error}" for error, count in part.errors.most_common(5)]
    if slower > MOST_SLOWER:
        missed.append(f"{name}: p95 is {slower:.2f} times the critical path, not {MOST_SLOWER} at most")
    if part.growth > MOST_GROWTH:
        missed.append(f"{name}: memory grew to {part.growth:.3f} times, not {MOST_GROWTH} at most")
    return missed


async def run(port: int, pid: int, clients: int, seconds: float) -> list[str]:
    path = await alone(port)
    print(f"critical path of one question alone: {path:.3f} s ({CHAIN} calls of {LATENCY:g} s)")
    missed = []
    if not CHAIN * LATENCY <= path < CHAIN * LATENCY * 1.1:
        missed.append(f"the critical path is not that of {CHAIN} calls")
    await measure(port, pid, clients, min(5.0, seconds / 2), breaking_off=0)  # everything is loaded and warm
    steady = await measure(port, pid, clients, seconds, breaking_off=0)
    broken = await measure(port, pid, clients, seconds, breaking_off=clients // 10)
    after = await until_none(port)
    missed += told(f"{clients} clients for {seconds:g} s", steady, path)
    missed += told("a tenth breaking off", broken, path)
    print(f"the last question of clients that left ended after {after:.2f} s")
    if after >= MOST_AFTER:
        missed.append("questions of clients that left are still being answered")
    return missed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="ten seconds a part")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each part")
    parser.add_argument("--retriever", default=DEFAULT_RETRIEVER)
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args()
    seconds = 10.0 if chosen.quick else chosen.seconds
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder), chosen.retriever, chosen.workers) as (port, pid),
    ):
        missed = asyncio.run(run(port, pid, chosen.clients, seconds))
    for goal in missed:
        print(f"missed: {goal}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
