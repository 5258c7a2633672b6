"""Run an experiment durably and resumably, and judge its answers."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hoptree.core.backoff import SHUT_OUT_STATUS, CircuitBreaker
from hoptree.core.errors import EndpointError, IndexUnavailable, InputError
from hoptree.core.files import FolderLock
from hoptree.engine.calls import Calls, open_calls
from hoptree.engine.engine import Engine
from hoptree.engine.events import Event
from hoptree.engine.prompts import using_prompts
from hoptree.engine.schedule import rare_collections, together
from hoptree.engine.trace import TraceFile
from hoptree.evaluation.datasets.examples import DataSet, Example
from hoptree.evaluation.experiment import (
    Asked,
    Asker,
    BoundaryExperiment,
    EngineAsker,
    Experiment,
    at_once,
    describe_run,
)
from hoptree.evaluation.judge import (
    Judge,
    JudgeItem,
    Judgements,
    JudgementsFile,
    Verdict,
    agreement,
    judge_all,
    read_judgements,
    template,
)
from hoptree.evaluation.run_folder import (
    TRACES,
    Row,
    RunFolder,
    money_spent,
    read_rows,
    read_run,
    read_warnings,
    summarise,
    write_summary,
)
from hoptree.models.model import Model

JUDGE_PROMPTS = "evaluation"
_MIN_SUSPICIOUS_QUESTIONS = 5  # from this number on, a retrieval recall of 0 is warned of


@dataclass(slots=True)
class Progress:
    """Progress of a run; `rows` are all outcomes so far, of which `asked` are new."""

    total: int
    rows: list[Row]
    spent: float = 0.0
    asked: int = 0
    tokens: int = 0
    calls: int = 0
    cached: int = 0
    began: float = 0.0


Listener = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run is carried out; its results do not depend on this.

    `anyway` resumes although something that the run rests on has changed, `retry_failed` asks failed questions again,
    `only` asks that many and stops. `max_cost` limits the total cost, including what other runs under the same limit
    have `spent`. `workers` is the number of processes on this machine, `ray` the address of a Ray cluster, or "local".
    `reproduces` is the id of the run that this one repeats.
    """

    anyway: bool = False
    retry_failed: bool = False
    only: int | None = None
    cache: str | Path | None = "default"
    concurrency: int | None = None
    max_cost: float | None = None
    spent: float = 0.0
    workers: int = 1
    ray: str = ""
    reproduces: str = ""


async def run_experiment(
    experiment: Experiment,
    out: Path,
    options: RunOptions | None = None,
    *,
    model: Model | None = None,
    roles: Mapping[str, Model] | None = None,
    data: DataSet | None = None,
    on_begin: Callable[[dict[str, Any]], None] = lambda run: None,
    on_progress: Listener = lambda progress: None,
    on_judged: Callable[[JudgeProgress], None] = lambda progress: None,
) -> dict[str, Any]:
    """Ask every question without an outcome, judge, and summarise.

    `on_begin` gets `run.json` before the first question. A trace that cannot be written is a warning; for boundary
    runs, whose outcomes are in it, an error.
    """
    options = options or RunOptions()
    data, answer_filter = await experiment.drop_unfound_answers(data or experiment.read_data())
    folder = RunFolder(out)
    writer: TraceFile | None = None
    refused = False

    def on_event(event: Event) -> None:
        assert writer is not None
        writer(event)
        check_trace()

    def on_trace(lines: bytes) -> None:
        assert writer is not None
        writer.write(lines)
        check_trace()

    def check_trace() -> None:
        if writer is not None and writer.failure is not None and isinstance(experiment, BoundaryExperiment):
            raise writer.failure

    judge = experiment.open_judge() if experiment.judge else None  # it may fail, so before the first question
    async with (
        aclosing(judge) if judge else nullcontext(),
        experiment.open_engine(
            listeners=(on_event,),
            cache=options.cache,
            concurrency=options.concurrency,
            model=model,
            roles=roles,
        ) as engine,
    ):
        try:
            repeated = {"reproduces": options.reproduces} if options.reproduces else {}
            run = folder.begin(describe_run(experiment, data, engine, answer_filter) | repeated, anyway=options.anyway)
            on_begin(run)
            writer = TraceFile(out / TRACES)
            with rare_collections():
                await _ask_missing(experiment, data, engine, folder, options, on_trace, on_progress)
            warnings = [str(writer.failure)] if writer.failure else []
            summary = summarise(out) | {"warnings": warnings}
            warnings += [*data.notes, *_cautions(summary, options)]
            write_summary(out, summary)
        except InputError:
            refused = True
            raise
        finally:
            if writer:
                writer.close()
            folder.close(refused=refused)
        if judge is not None and options.only is None and summary["finished"]:
            with using_prompts(engine.prompts.texts, JUDGE_PROMPTS):
                await judge_run(out, judge, cache=options.cache, concurrency=options.concurrency, on_progress=on_judged)
            summary = summarise(out) | {"warnings": warnings}
    return {"run": run["id"], "name": run["name"], "folder": str(out), **summary}


def _cautions(summary: Mapping[str, Any], options: RunOptions) -> Iterator[str]:
    """Yield warnings about the scores of a run."""
    left = summary["questions"] - summary["finished"]
    if options.max_cost is not None and options.only is None and left:
        yield f"{left:,} questions were not asked: the limit of {options.max_cost:g} leaves no room."
    recall = summary["metrics"].get("retrieval_recall")
    if recall and recall["questions"] >= _MIN_SUSPICIOUS_QUESTIONS and not recall["mean"]:
        yield "No search found any of the gold passages: is this the corpus of these questions?"
    calls, tokens = (summary["usage"][name]["total"] for name in ("llm_calls", "tokens"))
    if calls and not tokens:
        yield "The model does not say how many tokens it used: they and their price are counted as none."


async def _ask_missing(
    experiment: Experiment,
    data: DataSet,
    engine: Engine,
    folder: RunFolder,
    options: RunOptions,
    on_trace: Callable[[bytes], None],
    on_progress: Listener,
) -> None:
    rows = read_rows(folder.path)
    # A question of a boundary run that its budget stopped lacks one of the two answers: it counts as failed.
    is_boundary = isinstance(experiment, BoundaryExperiment)
    done = {
        row.id: row for row in rows if not (options.retry_failed and (row.error or (is_boundary and row.stopped_by)))
    }
    waiting = [example for example in data.examples if example.id not in done][: options.only]
    spent = options.spent + (0.0 if options.max_cost is None else money_spent(folder.path))
    progress = Progress(len(data.examples), list(done.values()), spent, began=time.monotonic())
    on_progress(progress)
    if waiting:
        async with _asker(engine, experiment, options, on_trace) as asker:
            await _ask_all(asker, waiting, folder, progress, options.max_cost, on_progress)


@asynccontextmanager
async def _asker(
    engine: Engine, experiment: Experiment, options: RunOptions, on_trace: Callable[[bytes], None]
) -> AsyncIterator[Asker]:
    """Yield an asker: this engine, worker processes, or a Ray cluster."""
    how: dict[str, Any] = {"cache": options.cache, "concurrency": options.concurrency, "on_trace": on_trace}
    if options.workers > 1 and not options.ray:
        from hoptree.evaluation.workers import in_processes

        async with in_processes(options.workers, experiment, engine, **how) as pool:
            yield pool
        return
    if not options.ray:
        slots = min(engine.model.slots, options.concurrency or engine.model.slots)
        yield EngineAsker(engine, at_once(slots, timed=experiment.budget.seconds is not None))
        return
    from hoptree.evaluation.ray_run import on_ray

    async with on_ray(options.ray, experiment, engine, **how) as asker:
        yield asker


class _QuestionQueue:
    """Hands out questions while the cost limit allows it.

    Each question in progress is expected to cost the mean price so far. Until a price is known, questions are asked one
    by one.
    """

    def __init__(self, examples: Sequence[Example], progress: Progress, limit: float | None) -> None:
        self._left = iter(examples)
        self._limit = limit
        self._progress = progress
        prices = [price for row in progress.rows if (price := _price(row))]  # immediate failures have no price
        self._prices, self._finished, self._under_way = math.fsum(prices), len(prices), 0
        self._changed = asyncio.Condition()

    async def take(self) -> Example | None:
        async with self._changed:
            while self._under_way and not self._affordable():
                await self._changed.wait()
            if not self._affordable():
                return None
            example = next(self._left, None)
            self._under_way += example is not None
            return example

    async def done(self, row: Row) -> None:
        async with self._changed:
            self._under_way -= 1
            self._finished += bool(_price(row))
            self._prices += _price(row)
            self._progress.spent += row.usage.get("cost", 0.0)
            self._changed.notify_all()

    def _affordable(self) -> bool:
        if self._limit is None:
            return True
        if not self._prices:
            return not self._under_way and self._progress.spent < self._limit
        return self._progress.spent + (self._under_way + 1) * self._prices / self._finished <= self._limit


def _price(row: Row) -> float:
    return row.usage.get("price", 0.0)


class _OutcomeWriter:
    """Writes outcomes; holds back failures until another question succeeds.

    Before the first success, every error that requires another command counts; later, only a refusal by the endpoint.
    """

    def __init__(self, folder: RunFolder, progress: Progress, on_progress: Listener) -> None:
        self._folder = folder
        self._progress = progress
        self._on_progress = on_progress
        self._breaker = CircuitBreaker()
        self._breaker.succeeded = bool(progress.rows)
        self._held: list[Asked] = []

    async def take(self, asked: Asked) -> None:
        shut_out = isinstance(asked.stops_run, EndpointError) and asked.stops_run.status in SHUT_OUT_STATUS
        if asked.stops_run is not None and (shut_out or not self._breaker.succeeded):
            self._held.append(asked)
            self._breaker.failure(asked.stops_run)
            return
        self._breaker.success()  # before writing, as others end meanwhile
        postponed, self._held = self._held, []
        for waiting in (*postponed, asked):
            await self._keep(waiting.row)

    async def end(self) -> None:
        """Write the failures held back, or raise the first if all failed."""
        for waiting in self._held:
            if waiting.stops_run is not None and not self._breaker.succeeded:
                raise waiting.stops_run
            await self._keep(waiting.row)

    async def _keep(self, row: Row) -> None:
        await self._folder.add(row)
        progress, usage = self._progress, row.usage
        progress.rows.append(row)
        progress.asked += 1
        progress.calls += int(usage.get("llm_calls", 0))
        progress.cached += int(usage.get("cached_calls", 0))
        progress.tokens += int(usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0))
        self._on_progress(progress)


async def _ask_all(
    asker: Asker,
    examples: Sequence[Example],
    folder: RunFolder,
    progress: Progress,
    max_cost: float | None,
    on_progress: Listener,
) -> None:
    queue = _QuestionQueue(examples, progress, max_cost)
    writer = _OutcomeWriter(folder, progress, on_progress)

    async def work() -> None:
        while (example := await queue.take()) is not None:
            asked = await asker.ask(example)
            await queue.done(asked.row)
            await writer.take(asked)

    await together(work() for _ in range(min(asker.at_once, len(examples))))
    await writer.end()


@dataclass(slots=True)
class JudgeProgress:
    """Progress of a judge; `new` counts the verdicts of this call."""

    total: int
    done: int = 0
    correct: int = 0
    new: int = 0
    began: float = 0.0

    def count(self, verdict: Verdict, *, new: bool) -> None:
        self.done += 1
        self.correct += verdict.correct
        self.new += new


async def judge_run(
    folder: Path,
    model: Model,
    *,
    cache: str | Path | None = "default",
    concurrency: int | None = None,
    on_progress: Callable[[JudgeProgress], None] = lambda progress: None,
) -> dict[str, Any]:
    """Judge the answers that this judge has not judged yet, and summarise.

    Failed questions and blank answers are wrong without a call. A failed call counts as wrong until repeated.
    """
    run, rows = read_run(folder), read_rows(folder)
    if not rows:
        raise InputError(f"The run in {folder} has no answers to judge.", "Finish it first: the same hoptree run.")
    judge = Judge(model.name, model.identity, template())
    lock = FolderLock(folder, IndexUnavailable)
    try:
        lock.acquire()
        file = JudgementsFile(folder, judge)
    except OSError as error:
        lock.release()
        raise InputError(
            f"Verdicts cannot be written to {folder}: {error.strerror or error}.", "Make the folder writable."
        ) from error
    try:
        calls = open_calls(cache, concurrency=concurrency)
        await _judge_missing(rows, _judgements_of(folder, judge), file, model, calls, on_progress)
        write_summary(folder, summarise(folder) | {"warnings": read_warnings(folder)})
    finally:
        file.close()
        lock.release()
    report = _judgements_of(folder, judge).report(rows)
    others = [known.report(rows) for known in read_judgements(folder) if known.judge != judge]
    return {
        "run": run["id"],
        "name": run["name"],
        "folder": str(folder),
        "questions": len(run["questions"]),
        "judge": report.as_dict(),
        "agreement": {other.model: asdict(agreement(report.clear_verdicts, other.clear_verdicts)) for other in others},
    }


async def _judge_missing(
    rows: Sequence[Row],
    known: Judgements,
    file: JudgementsFile,
    model: Model,
    calls: Calls,
    on_progress: Callable[[JudgeProgress], None],
) -> None:
    by_id = {row.id: row for row in rows}
    progress = JudgeProgress(len(rows), began=time.monotonic())
    waiting: list[Row] = []
    for row in rows:
        verdict = known.on(row)
        if verdict is None or verdict.error:
            waiting.append(row)
        else:
            progress.count(verdict, new=False)
    on_progress(progress)
    without_reply: list[Verdict] = []

    async def on_verdict(verdict: Verdict) -> None:
        # Verdicts without a reply are written last: a judge that never answers writes none.
        if verdict.error or not verdict.asked:
            without_reply.append(verdict)
        else:
            await file.add(by_id[verdict.id], verdict)
        progress.count(verdict, new=True)
        on_progress(progress)

    try:
        items = [JudgeItem(row.id, row.question, "" if row.error else row.answer, row.answers) for row in waiting]
        await judge_all(items, model, calls, on_verdict)
    finally:
        calls.close()
    await file.name()
    for verdict in without_reply:
        await file.add(by_id[verdict.id], verdict)


def _judgements_of(folder: Path, judge: Judge) -> Judgements:
    return next((known for known in read_judgements(folder) if known.judge == judge), Judgements(judge))
