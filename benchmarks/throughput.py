"""How much of an endpoint a run keeps busy: 1,000 questions of TAIKC, 64 slots, replies after 20 to 200 ms.

The endpoint (`slots.py`) is a process of its own on a real socket. The questions go through `run_experiment` with
everything on: call cache, searches, traces, results on disk, scores. Each has a tree of four sub-questions in two
chains; one chain is looked up, the other known: ten calls, seven of them one after the other, and two searches.

Capacity used is the service time of all requests over slots times the time from the first request to the last reply.
Other ways to do the same work are measured in the same program, and kindly: lock-step (all questions together, and in
batches of as many as there are slots) sends the recorded requests step by step, all slots busy within a step, and does
nothing else; one question at a time is measured on a sample, and scaled.

Ratios come last; the exit code is 1 where the goal is missed. The line above them says whether the machine was too busy
to tell: how long our process was idle, and how long it waited for a core.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.slots import Figures

from hoptree.engine.engine import Engine
from hoptree.evaluation.experiment import Experiment
from hoptree.evaluation.running import RunOptions, run_experiment
from hoptree.models.model import Capability, Reply, Request
from hoptree.models.openai import OpenAIModel
from hoptree.retrieval.index.folder import sample_index
from hoptree.sample import sample_questions

SLOTS = 64
GOAL = 0.95
CALLS = 10
SAMPLE = 10
_CASE = re.compile(r"case (\d+)")
_WAITED = 0.15
"""A process that waits for a core longer than this, or is idle for less, measures the machine."""


@dataclass(frozen=True, slots=True)
class Share:
    """How long our process ran, and what part of the time it ran and waited for a core to run on."""

    seconds: float
    ran: float
    waited: float


@dataclass(frozen=True, slots=True)
class Sent:
    """A request of a question, and the place of its step among the steps of all questions."""

    case: int
    place: int
    request: Request
    step: str


class Recorder:
    """A model that passes every request on, and remembers it."""

    capabilities: frozenset[Capability] = frozenset()

    def __init__(self, inner: OpenAIModel) -> None:
        self._inner = inner
        self.name, self.identity, self.endpoint = inner.name, inner.identity, inner.endpoint
        self.slots = inner.slots
        self.sent: list[Sent] = []

    async def generate(self, request: Request, *, step: str) -> Reply:
        case = int(_CASE.findall(request.messages[-1].content)[-1])
        self.sent.append(Sent(case, _order(step, request), request, step))
        return await self._inner.generate(request, step=step)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _order(step: str, request: Request) -> int:
    """The place of a request where all questions are taken through the same step together."""
    name = step.partition("/")[2]
    if name in ("confident", "read"):
        second = "In which year" in request.messages[-1].content.rpartition("Question: ")[2]
        return 1 + 2 * second + (name == "read")
    return {"decompose": 0, "summarise": 5, "final": 6}[name]


@contextmanager
def endpoint() -> Iterator[str]:
    """The address of an endpoint that runs as long as the block."""
    command = [sys.executable, str(Path(__file__).with_name("slots.py")), "--slots", str(SLOTS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


def figures(url: str) -> Figures:
    """What the endpoint has done since it was last asked."""
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{url}/figures") as reply:
        return Figures(**json.load(reply))


@contextmanager
def watched(shares: list[Share]) -> Iterator[None]:
    """Measure what share of the time our process ran and waited for a core (0 where the system does not say)."""
    began, cpu, wait = time.perf_counter(), time.process_time(), _waited()
    yield
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    shares.append(Share(cpu, cpu / wall, (_waited() - wait) / wall))


def _waited() -> float:
    try:
        return int(Path("/proc/self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def write_questions(path: Path, number: int) -> Path:
    titles = sorted({need.replace("-", " ") for row in sample_questions() for need in row["needs"]})
    rows = [
        {
            "id": f"case-{case}",
            "question": f"Who of the makers of {titles[case % len(titles)]} and {titles[(case + 1) % len(titles)]} "
            f"(case {case}) is older?",
            "answers": [f"Ada Stone {case}"],
        }
        for case in range(number)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def model_at(url: str) -> OpenAIModel:
    return OpenAIModel("slots", base_url=f"{url}/v1", api_key="none")


async def run(url: str, folder: Path, number: int) -> list[Sent]:
    """The questions as an experiment, checked; the requests it sent."""
    data = write_questions(folder / "questions.jsonl", number)
    model = Recorder(model_at(url))
    try:
        summary = await run_experiment(
            Experiment(data, method="taikc", corpus=str(sample_index()), base_url=f"{url}/v1"),
            folder / "run",
            RunOptions(cache=folder / "replies.sqlite"),
            model=model,
        )
    finally:
        await model.aclose()
    usage = summary["usage"]
    seen = (summary["finished"], summary["metrics"]["em"]["mean"], usage["llm_calls"]["mean"])
    if seen != (number, 1.0, CALLS) or usage["cached_calls"]["total"]:
        raise SystemExit(f"The run went wrong: {seen} {summary['errors']}")
    return model.sent


async def lock_step(url: str, sent: Sequence[Sent], together: int) -> None:
    """So many questions at a time, and every step for all of them before the next step begins for any."""
    model = model_at(url)
    places = asyncio.Semaphore(model.slots)

    async def send(one: Sent) -> None:
        async with places:
            await model.generate(one.request, step=one.step)

    def turn(one: Sent) -> tuple[int, int]:
        return one.case // together, one.place

    for _, step in groupby(sorted(sent, key=turn), key=turn):
        await asyncio.gather(*(send(one) for one in step))
    await model.aclose()


async def one_by_one(url: str, folder: Path, number: int) -> None:
    questions = [json.loads(line)["question"] for line in (folder / "questions.jsonl").open(encoding="utf-8")]
    async with Engine(
        method="taikc", model=model_at(url), corpus=sample_index(), cache=folder / "alone.sqlite"
    ) as engine:
        for question in questions[:number]:
            await engine.ask(question)
        await engine.model.aclose()


def used(done: Figures) -> float:
    return done.service / (SLOTS * (done.ended - done.began))


def report(name: str, done: Figures, share: Share, scale: float = 1.0) -> float:
    """Print what one way took, scaled to all questions, and where capacity was lost; its seconds."""
    seconds = (done.ended - done.began) * scale
    whole = SLOTS * (done.ended - done.began)
    lost = {
        "at the start": done.idle_before,
        "between": done.idle_until - done.idle_before,
        "at the end": done.idle - done.idle_until,
        "by late clocks": done.held - done.service,
    }
    print(f"{name}: {seconds:,.2f} s, capacity used {used(done):.1%}")
    print("  lost " + ", ".join(f"{value / whole:.1%} {place}" for place, value in lost.items()))
    print(
        f"  our process ran {share.ran:.0%} of the time ({1000 * share.seconds / done.requests:.2f} ms a call), "
        f"waited for a core {share.waited:.0%}"
    )
    return seconds


def measure(url: str, folder: Path, number: int, *, judged: bool) -> bool:
    """Measure and print; whether the goal was met, if that is to be judged."""
    shares: list[Share] = []
    asyncio.run(_warm_up(url, folder))
    figures(url)
    with watched(shares):
        sent = asyncio.run(run(url, folder, number))
    done = [figures(url)]
    for together in (number, SLOTS):
        with watched(shares):
            asyncio.run(lock_step(url, sent, together))
        done.append(figures(url))
        if done[-1].requests != done[0].requests or done[0].requests != number * CALLS:
            raise SystemExit(f"Not the same work: {[one.requests for one in done]}")
    with watched(shares):
        asyncio.run(one_by_one(url, folder, min(SAMPLE, number)))
    done.append(figures(url))
    print(f"{number:,} questions, {done[0].requests:,} calls, {done[0].service:,.0f} s of service, {SLOTS} slots")
    names = ("hoptree", "lock-step", f"lock-step, {SLOTS} questions at a time", "one question at a time")
    took = [
        report(name, one, share, done[0].requests / one.requests)
        for name, one, share in zip(names, done, shares, strict=True)
    ]
    idle = 1 - shares[0].ran - shares[0].waited
    limit = "the limit" if shares[0].waited > _WAITED or idle < _WAITED else "not the limit"
    print(
        f"the machine was {limit}: {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; our process was idle "
        f"{idle:.0%} of the time, and waited for a core {shares[0].waited:.0%}"
    )
    met = used(done[0]) >= GOAL
    verdict = ("pass" if met else "FAIL") if judged else "not judged"
    print(f"{'capacity used':<36} {used(done[0]):6.1%}   goal {GOAL:.0%}  {verdict}")
    for name, seconds in zip(names[1:], took[1:], strict=True):
        print(f"{name:<36} {seconds / took[0]:6.2f} times as long")
    return met or not judged


async def _warm_up(url: str, folder: Path) -> None:
    """One question, so that imports, prompts and index are loaded."""
    write_questions(folder / "questions.jsonl", 1)
    await one_by_one(url, folder, 1)
    (folder / "alone.sqlite").unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=1000, help="how many questions (default 1000)")
    parser.add_argument(
        "--quick", action="store_true", help="100 questions: the end of a run weighs more, so nothing is judged"
    )
    chosen = parser.parse_args()
    if chosen.questions < 1:
        parser.error("--questions is 1 or more")
    os.environ["NO_PROXY"] = "127.0.0.1"
    with endpoint() as url, tempfile.TemporaryDirectory() as folder:
        number = min(100, chosen.questions) if chosen.quick else chosen.questions
        met = measure(url, Path(folder), number, judged=not chosen.quick)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
