"""What Hoptree costs beside the model: wall time against the ideal schedule, own CPU, start-up, installed size.

The model is scripted and sleeps for 50 ms a call inside this process, so that everything above the ideal schedule is
Hoptree's own. Each question has a tree of four sub-questions in two chains; one chain is looked up, the other known:
ten calls, seven of them one after the other, and two searches. Cache, retrieval and trace file are on, and no two
questions share a call.

Figures come last, one a line with its goal; the exit code is 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hoptree.engine.engine import Engine
from hoptree.engine.trace import TraceFile
from hoptree.models.model import Capability, Reply, Request
from hoptree.models.scripted import Rule, ScriptedModel
from hoptree.retrieval.bm25 import BM25
from hoptree.retrieval.index.folder import Index, sample_index
from hoptree.sample import sample_questions

LATENCY = 0.05
CRITICAL_CALLS = 7
CALLS = 10
RETRIEVALS = 2
SECONDS_ALONE = CRITICAL_CALLS * LATENCY
_CASE = re.compile(r"case (\d+)")
_NO_INDEX = ("No matching distribution", "Could not find a version", "Connection", "connection", "resolve host")


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number with the goal it has to stay under; no goal: for information."""

    name: str
    value: float
    unit: str
    goal: float | None = None
    note: str = ""

    @property
    def missed(self) -> bool:
        return self.goal is not None and self.value > self.goal

    def line(self) -> str:
        verdict = "" if self.goal is None else f"goal {self.goal:g}{self.unit}  {'FAIL' if self.missed else 'pass'}"
        return f"{self.name:<58} {self.value:>8.3f}{self.unit:<4} {verdict:<20} {self.note}".rstrip()


@dataclass(frozen=True, slots=True)
class Run:
    """What answering a number of questions took."""

    wall: float
    cpu: float


class Cast:
    """One scripted model a question, found by the case number that every message of the question carries."""

    name = identity = endpoint = "scripted/overhead"
    slots = 1024
    capabilities: frozenset[Capability] = frozenset()

    def __init__(self, numbers: Sequence[int]) -> None:
        self._parts = {number: ScriptedModel("overhead", rules=_rules(number), latency=LATENCY) for number in numbers}

    async def generate(self, request: Request, *, step: str) -> Reply:
        case = _CASE.search(request.messages[-1].content)
        assert case is not None
        return await self._parts[int(case[1])].generate(request, step=step)

    async def aclose(self) -> None:
        return None


@cache
def _titles() -> list[str]:
    needed = {need for row in sample_questions() for need in row["needs"]}
    return sorted(need.replace("-", " ") for need in needed)


def question(number: int) -> str:
    first, second = _pair(number)
    return f"Which was made by the older person, {first} or {second} (case {number})?"


def _pair(number: int) -> tuple[str, str]:
    titles = _titles()
    return titles[number % len(titles)], titles[(number + 1) % len(titles)]


def _rules(number: int) -> list[Rule]:
    first, second = _pair(number)
    case = f"case {number}"
    plan = {
        "query1": {
            "question": f"Who made {first} in {case}?",
            "children": {"query2": {"question": f"In which year was #query1 born, in {case}?"}},
        },
        "query3": {
            "question": f"Who made {second} in {case}?",
            "children": {"query4": {"question": f"In which year was #query3 born, in {case}?"}},
        },
    }
    maker, other = f"Ada Stone {number}", f"Ben Reed {number}"
    return [
        Rule(json.dumps(plan), step="decompose"),
        Rule("RAG_REQUIRED", step="confident", contains=f"made {first} in"),
        Rule("RAG_REQUIRED", step="confident", contains=maker),
        Rule(other, step="confident", contains=f"made {second} in"),
        Rule("1934", step="confident", contains=other),
        Rule("1918", step="read", contains=maker),
        Rule(maker, step="read"),
        Rule(f"{first} was made by {maker}, who was born in 1918.", step="summarise", contains=maker),
        Rule(f"{second} was made by {other}, who was born in 1934.", step="summarise"),
        Rule(first, step="final"),
    ]


async def answer(numbers: Sequence[int], *, at_once: int, index: Path, concurrency: int | None = None) -> Run:
    """Answer the questions with `at_once` of them in flight, and check what came out."""
    questions = {number: question(number) for number in numbers}
    expected = {number: _pair(number)[0] for number in numbers}
    with tempfile.TemporaryDirectory() as folder:
        trace = TraceFile(Path(folder) / "trace.jsonl")
        engine = Engine(
            method="taikc",
            model=Cast(numbers),
            corpus=BM25(Index(index)),
            cache=Path(folder) / "replies.sqlite",
            concurrency=concurrency,
            listeners=(trace,),
        )
        places = asyncio.Semaphore(at_once)

        async def one(number: int) -> None:
            async with places:
                result = await engine.ask(questions[number])
            usage = result.usage
            seen = (result.answer, usage.llm_calls, usage.cached_calls, usage.retrievals)
            if seen != (expected[number], CALLS, 0, RETRIEVALS):
                raise SystemExit(f"Case {number} went wrong: {seen} {result.error_message}")

        async with engine:
            began, cpu_began = time.perf_counter(), time.process_time()
            await asyncio.gather(*(one(number) for number in numbers))
            run = Run(time.perf_counter() - began, time.process_time() - cpu_began)
        trace.close()
    return run


def ideal_questions(number: int, places: int) -> float:
    """Seconds of the list schedule: each place takes the next question, which lasts as long as its critical path."""
    free = [0.0] * min(places, number)
    for _ in range(number):
        heapq.heapreplace(free, free[0] + SECONDS_ALONE)
    return max(free)


def ideal_calls(number: int, slots: int) -> float:
    """Seconds no schedule can go below: all work over all slots, in whole rounds, or one question's critical path."""
    rounds = -(-number * CALLS // slots)
    return max(rounds * LATENCY, SECONDS_ALONE)


async def sleep_only(number: int, at_once: int) -> float:
    """Seconds of the same schedule with bare sleeps in place of questions: what event loop and machine take away."""
    places = asyncio.Semaphore(at_once)

    async def calls(count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(LATENCY)

    async def one() -> None:
        async with places:
            await asyncio.gather(calls(CRITICAL_CALLS), calls(CALLS - CRITICAL_CALLS))

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(number)))
    return time.perf_counter() - began


def measure_runs(number: int, at_once: int, repeats: int) -> list[Figure]:
    index = sample_index()
    asyncio.run(answer(range(number, number + 2), at_once=2, index=index))  # imports, prompts and index are loaded
    ideal = ideal_questions(number, at_once)
    bare = asyncio.run(sleep_only(number, at_once))
    runs = [asyncio.run(answer(range(number), at_once=at_once, index=index)) for _ in range(repeats)]
    figures = _figures(f"{number} questions, {at_once} questions at once", runs, ideal, number)
    figures.append(Figure("  bare sleeps in the same schedule: wall / ideal", bare / ideal, "x"))

    ideal = ideal_calls(number, at_once)
    runs = [
        asyncio.run(answer(range(number), at_once=number, index=index, concurrency=at_once)) for _ in range(repeats)
    ]
    figures += _figures(f"{number} questions, {at_once} calls at once", runs, ideal, number)

    walls = [asyncio.run(answer([number + 2 + i], at_once=1, index=index)).wall for i in range(9)]
    alone = statistics.median(walls)
    note = f"{alone:.3f} s against {SECONDS_ALONE:.3f} s, median of {len(walls)}"
    return [*figures, Figure("one question alone: wall / critical path", alone / SECONDS_ALONE, "x", 1.1, note)]


def _figures(name: str, runs: list[Run], ideal: float, number: int) -> list[Figure]:
    wall = statistics.median(run.wall for run in runs)
    per_call = 1000 * statistics.median(run.cpu for run in runs) / (number * CALLS)
    note = f"{wall:.2f} s against {ideal:.2f} s, median of {len(runs)}"
    return [
        Figure(f"{name}: wall / ideal", wall / ideal, "x", 1.15, note),
        Figure("  own CPU a call", per_call, " ms", 1.5, f"{number * CALLS} calls, all threads"),
    ]


def measure_start() -> list[Figure]:
    script = shutil.which("hoptree", path=str(Path(sys.executable).parent))
    show_help = [script, "--help"] if script else [sys.executable, "-m", "hoptree", "--help"]
    bare = _median_seconds([sys.executable, "-c", "pass"])
    loaded = _median_seconds([sys.executable, "-c", "import hoptree"])
    note = f"whole process, median of 5; an empty one takes {bare:.3f} s"
    shown = "hoptree --help" if script else "python -m hoptree --help"
    return [
        Figure("import hoptree", loaded, " s", 0.2, note),
        Figure(shown, _median_seconds(show_help), " s", 0.4, "whole process, median of 5"),
    ]


def _median_seconds(command: list[str]) -> float:
    """The median of five runs after one that fills the caches; a command that fails measures nothing."""
    seconds = []
    for _ in range(6):
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds.append(time.perf_counter() - began)
        if done.returncode:
            print(f"{' '.join(command)} failed:\n{done.stderr.strip()}")
            return float("inf")
    return statistics.median(seconds[1:])


def measure_install() -> list[Figure]:
    """The size of a fresh environment's packages, compiled, without pip and setuptools."""
    root = Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
        steps = (
            [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder / "wheel"), str(root)],
            [sys.executable, "-m", "venv", str(folder / "venv")],
            [str(python), "-m", "pip", "install", "-q", "--compile", "--find-links", str(folder / "wheel"), "hoptree"],
        )
        for step in steps:
            done = subprocess.run(step, capture_output=True, text=True, check=False)
            if done.returncode and any(sign in done.stderr for sign in _NO_INDEX):
                print("Install size: skipped, since no package index is within reach")
                return []
            if done.returncode:
                print(f"{' '.join(step)} failed:\n{done.stderr.strip()}")
                return [Figure("base install", float("inf"), " MB", 60.0, "could not be installed, see above")]
        packages = next((folder / "venv").glob("**/site-packages"))
        tools = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence")
        size = sum(
            path.stat().st_size
            for entry in packages.iterdir()
            if not entry.name.startswith(tools)
            for path in ([entry] if entry.is_file() else entry.rglob("*"))
            if path.is_file()
        )
    return [Figure("base install", size / 1e6, " MB", 60.0, "site-packages with .pyc, without pip and setuptools")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=500, help="how many questions (default 500)")
    parser.add_argument("--at-once", type=int, default=64, help="questions, and then calls, at once (default 64)")
    parser.add_argument(
        "--quick", action="store_true", help="128 questions and no install size: under a minute, coarser figures"
    )
    chosen = parser.parse_args()
    if chosen.questions < 1 or chosen.at_once < 1:
        parser.error("--questions and --at-once are 1 or more")
    number = min(128, chosen.questions) if chosen.quick else chosen.questions
    figures = measure_runs(number, chosen.at_once, repeats=1 if chosen.quick else 3) + measure_start()
    if chosen.quick:
        print("Install size: skipped with --quick")
    else:
        figures += measure_install()
    for figure in figures:
        print(figure.line())
    return 1 if any(figure.missed for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
