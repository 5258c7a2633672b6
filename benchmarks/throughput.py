"""How full a run keeps an endpoint of 64 slots (`--slots`), and what a request costs of our processor time, by method.

The endpoint (`slots.py`) is a process of its own on a real socket; replies take 50 to 150 ms. The questions go through
`run_experiment` with everything on: call cache, real searches, traces, results on disk, scores. Without --data and
--corpus the corpus is generated (25,000 passages with the word frequencies of English) and the questions are made of
words of its passages.

Capacity used is the service time of all requests over slots times the time from the first request to the last reply;
since a run's end empties the slots whatever one does, the time after all slots were busy for the last time is left out.
Processor time is that of our process and its workers. What a request costs is the slope between two runs, of a fifth
of the questions and of all: reading the data, opening the index and the summary's first lines are paid once a run,
however long it is. The line says what that start takes, and what a request costs with its share of it. The goal is
about a request. Figures come last, one a line with its goal; the exit code is 1 where one is missed. The line above
them says whether the machine was too busy to tell. --quick asks 60 questions and judges nothing.

--searches prints what a search takes with each retriever, and asks nothing.

With --flashrag, the same questions then go through FlashRAG's pipelines (`flashrag_adapter.py`), with the same passages
by BM25 and as many requests at once; the last lines compare seconds and processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.slots import Figures
from benchmarks.synthetic import Corpus, write_corpus

from hoptree.evaluation.experiment import Experiment
from hoptree.evaluation.running import RunOptions, run_experiment
from hoptree.models.openai import OpenAIModel
from hoptree.retrieval.retriever import open_retriever

SLOTS = 64
PASSAGES = 25_000
METHODS: dict[str, dict[str, Any]] = {
    "oner": {},
    "iter_retgen": {},
    "ircot": {},
    "self_ask": {},
    "flare": {},
    "taikc": {},
    "treeqa": {"evidence": "text"},
    "hop": {},
}
FLASHRAG_METHODS = ("oner", "iter_retgen", "ircot", "self_ask", "flare")
CPU_MS = 1.4
CAPACITY = {"bm25": 0.9, "linked": 0.8}
_WAITED = 0.15
"""A process that waits for a core for more than this share of the time measures the machine."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One method with one retriever: what the endpoint did, and our share of the processors meanwhile."""

    method: str
    retriever: str
    questions: int
    done: Figures
    cpu: float
    waited: float
    start: float = 0.0
    slots: int = SLOTS

    @property
    def cpu_ms(self) -> float:
        """Milliseconds of our processor time a request, without the start of the run."""
        return 1000 * (self.cpu - self.start) / self.done.requests

    def after(self, small: Measured) -> Measured:
        """Return the figures with the start of the run, by the slope from a run of fewer questions."""
        slope = (self.cpu - small.cpu) / max(1, self.done.requests - small.done.requests)
        return replace(self, start=self.cpu - slope * self.done.requests)

    @property
    def used(self) -> float:
        """The share of the endpoint's capacity that was used until the run began to end."""
        idle = self.done.idle_until
        return self.done.held / (self.done.held + idle) if idle else self.done.service / (self.slots * self.seconds)

    @property
    def seconds(self) -> float:
        """Seconds from the first request to the last reply."""
        return self.done.ended - self.done.began

    def line(self, *, judged: bool) -> str:
        """Return the figures with their goals."""
        goal = CAPACITY[self.retriever]
        verdict = ("pass" if self.met else "FAIL") if judged else "not judged"
        return (
            f"{self.method:<12} {self.retriever:<7} {self.done.requests / self.questions:5.1f} requests a question   "
            f"{self.cpu_ms:5.2f} ms a request (goal {CPU_MS}; {1000 * self.cpu / self.done.requests:.2f} "
            f"with the start of {1000 * self.start:.0f} ms)   {self.done.requests / self.seconds:4.0f} a second   "
            f"{self.used:6.1%} of the slots (goal {goal:.0%})   {verdict}"
        )

    @property
    def met(self) -> bool:
        """Whether both goals are met."""
        return self.cpu_ms <= CPU_MS and self.used >= CAPACITY[self.retriever]


@contextmanager
def endpoint(slots: int) -> Iterator[str]:
    """Yield the address of an endpoint that runs as long as the block."""
    command = [sys.executable, str(Path(__file__).with_name("slots.py")), "--slots", str(slots)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


def figures(url: str) -> Figures:
    """Return what the endpoint has done since it was last asked."""
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{url}/figures") as reply:
        return Figures(**json.load(reply))


def _waited() -> float:
    """Return the seconds that our process has waited for a core (0 where the system does not say)."""
    try:
        return int(Path("/proc/self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _processor_seconds() -> float:
    """Return the processor time of our process and of its workers that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def generated(folder: Path) -> tuple[Path, Path]:
    """Return a generated corpus's index and questions."""
    corpus = Corpus(PASSAGES)
    passages, index, data = folder / "corpus.jsonl", folder / "corpus.idx", folder / "questions.jsonl"
    write_corpus(corpus, passages)
    subprocess.run(
        [sys.executable, "-m", "hoptree", "index", "build", str(passages), "--out", str(index)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    items = corpus.questions(2_000)
    rows = [{"id": str(at), "question": item.question, "answers": ["none"]} for at, item in enumerate(items)]
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return index, data


def measure(url: str, folder: Path, experiment: Experiment, workers: int = 1, slots: int = SLOTS) -> Measured:
    """Run one method over the questions and return its figures."""
    out = folder / f"{experiment.method}-{experiment.retriever}"
    figures(url)
    began, cpu, wait = time.perf_counter(), _processor_seconds(), _waited()
    model = OpenAIModel("slots", base_url=experiment.base_url, slots=slots)
    options = RunOptions(cache=out.with_suffix(".sqlite"), concurrency=slots, workers=workers)
    summary = asyncio.run(_run(experiment, out, model, options))
    wall, cpu, wait = time.perf_counter() - began, _processor_seconds() - cpu, _waited() - wait
    if summary["errors"]:
        raise SystemExit(f"{experiment.method} went wrong: {summary['errors']}")
    done = figures(url)
    return Measured(experiment.method, experiment.retriever, summary["finished"], done, cpu, wait / wall, slots=slots)


async def _run(experiment: Experiment, out: Path, model: OpenAIModel, options: RunOptions) -> dict[str, Any]:
    try:
        return await run_experiment(experiment, out, options, model=model)
    finally:
        await model.aclose()


def compare(url: str, folder: Path, chosen: argparse.Namespace, index: Path, data: Path) -> list[Measured]:
    """Measure every chosen method with every chosen retriever, after one question each to load what they need."""
    measured = []
    for retriever in chosen.retrievers:
        for method in chosen.methods:
            options = METHODS[method]
            common: dict[str, Any] = {"corpus": str(index), "retriever": retriever, "base_url": f"{url}/v1"}
            common |= {"model": "openai/slots"}
            experiment = Experiment(data, method, options=options, limit=chosen.questions, **common)
            measure(url, folder / "warm", replace(experiment, limit=1))
            fewer = replace(experiment, limit=max(1, chosen.questions // 5))
            small = measure(url, folder / "small", fewer, chosen.workers, chosen.slots)
            measured.append(measure(url, folder, experiment, chosen.workers, chosen.slots).after(small))
            print(measured[-1].line(judged=False), flush=True)
    return measured


def time_searches(corpus: Path, data: Path, count: int) -> Iterator[str]:
    """Yield the processor time of a search for each retriever: questions in the order of the file, each once."""
    with data.open(encoding="utf-8") as lines:
        questions = [json.loads(line)["question"] for line in islice(lines, count)]
    for kind in ("bm25", "linked", "ranked"):
        retriever: Any = open_retriever(corpus, kind)
        retriever.search_now("Ada Lovelace", 5)  # loads what is loaded once
        took = []
        for question in questions:
            began = time.thread_time()
            retriever.search_now(question, 5)
            took.append(1000 * (time.thread_time() - began))
        yield f"{kind:<7} a search: {statistics.median(took):.2f} ms of processor time (p50)"


def beside_flashrag(
    url: str, folder: Path, chosen: argparse.Namespace, measured: Sequence[Measured], data: Path
) -> Iterator[str]:
    """Yield a line for each method that FlashRAG has too: our seconds and processor time over its own."""
    ours = {figure.method: figure for figure in measured if figure.retriever == "bm25"}
    methods = [name for name in FLASHRAG_METHODS if name in ours]
    passages = chosen.passages or folder / "corpus.jsonl"
    command = [chosen.flashrag, str(Path(__file__).with_name("flashrag_adapter.py")), "--url", url, "--data", str(data)]
    command += ["--passages", str(passages), "--index", str(folder / "bm25s"), "--cap", str(chosen.slots)]
    command += ["--questions", str(chosen.questions), "--methods", ",".join(methods)]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    for line in ran.stdout.splitlines():
        row = json.loads(line)
        done, mine = Figures(**row["figures"]), ours[row["method"]]
        seconds, cpu_ms = done.ended - done.began, 1000 * row["cpu"] / done.requests
        yield (
            f"{mine.method:<12} seconds {mine.seconds:.2f} / {seconds:.2f} = {mine.seconds / seconds:.3f}   "
            f"ms a request {mine.cpu_ms:.2f} / {cpu_ms:.2f} = {mine.cpu_ms / cpu_ms:.2f}   requests a question "
            f"{mine.done.requests / mine.questions:.1f} / {done.requests / chosen.questions:.1f}"
        )
    yield f"versions {row['versions']}"


def _names(known: Sequence[str]) -> Any:
    def read(text: str) -> list[str]:
        names = text.split(",")
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"{unknown[0]} is none of {', '.join(known)}")
        return names

    return read


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", type=_names([*METHODS]), default=[*METHODS], help="names with commas (all)")
    parser.add_argument("--retrievers", type=_names([*CAPACITY]), default=[*CAPACITY], help="names with commas (both)")
    parser.add_argument("--questions", type=int, default=500, help="how many questions a method (default 500)")
    parser.add_argument("--workers", type=int, default=1, help="processes that answer (default 1)")
    parser.add_argument("--slots", type=int, default=SLOTS, help=f"requests that the endpoint takes at once ({SLOTS})")
    parser.add_argument("--corpus", type=Path, help="an index to search instead of a generated one; with --data")
    parser.add_argument("--data", type=Path, help="a file of questions about it")
    parser.add_argument("--flashrag", help="the python of an environment with FlashRAG, to compare with")
    parser.add_argument("--passages", type=Path, help="the passages of --corpus as JSON lines, for FlashRAG")
    parser.add_argument("--searches", action="store_true", help="time searches of --corpus alone")
    parser.add_argument("--quick", action="store_true", help="60 questions; nothing is judged")
    chosen = parser.parse_args()
    if (chosen.corpus is None) != (chosen.data is None) or min(chosen.questions, chosen.slots) < 1:
        parser.error("--corpus and --data belong together, and --questions and --slots are 1 or more")
    if chosen.flashrag and chosen.corpus and not chosen.passages:
        parser.error("--flashrag with --corpus needs --passages")
    if chosen.searches:
        if not chosen.corpus:
            parser.error("--searches needs --corpus and --data")
        print(*time_searches(chosen.corpus, chosen.data, chosen.questions), sep="\n")
        return 0
    if chosen.quick:
        chosen.questions = 60
    os.environ |= {"NO_PROXY": "127.0.0.1", "OPENAI_API_KEY": "none"}
    with endpoint(chosen.slots) as url, tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in ("warm", "small"):
            (folder / name).mkdir()
        index, data = (chosen.corpus, chosen.data) if chosen.corpus else generated(folder)
        measured = compare(url, folder, chosen, index, data)
        beside = list(beside_flashrag(url, folder, chosen, measured, data)) if chosen.flashrag else []
    waited = max(figure.waited for figure in measured)
    limit = "the limit" if waited > _WAITED else "not the limit"
    print(f"the machine was {limit}: our process waited for a core for up to {waited:.0%} of the time")
    for figure in measured:
        print(figure.line(judged=not chosen.quick))
    for line in beside:
        print(line)
    return 0 if chosen.quick or all(figure.met for figure in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
