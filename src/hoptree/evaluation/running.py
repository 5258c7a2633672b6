"""Running an experiment: every question once, each on disk when it is done, and a killed run goes on."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hoptree.engine import Engine
from hoptree.errors import HoptreeError
from hoptree.evaluation.asking import Asked, Asker, EngineAsker
from hoptree.evaluation.datasets import DataSet, Example
from hoptree.evaluation.experiment import Experiment, described
from hoptree.evaluation.judging import JudgeProgress, judge_run
from hoptree.evaluation.run_folder import METRICS, TRACES, Row, RunFolder, read_rows, write_json
from hoptree.evaluation.summary import summarise
from hoptree.models.model import Model
from hoptree.runtime.trace import Event, TraceFile

__all__ = ["Progress", "Ways", "run_experiment"]


@dataclass(slots=True)
class Progress:
    """How far a run is; `rows` are the outcomes so far, those of earlier calls of the command included."""

    total: int
    rows: list[Row]
    asked: int = 0
    tokens: int = 0
    calls: int = 0
    cached: int = 0
    began: float = 0.0


Listener = Callable[[Progress], None]

_HOPELESS = 8
"""Questions that fail for what no other could do without either, before any comes out, until it is believed.

An endpoint refuses one prompt that is too long sooner than it answers all the others.
"""


@dataclass(frozen=True, slots=True)
class Ways:
    """How a run is carried out; none of it changes what its numbers mean.

    `anyway` goes on although something it rests on has changed, `retry_failed` asks questions that failed again,
    `only` asks that many and stops (which is how a cost is estimated), `max_cost` stops before more is spent in all.
    `ray` is the address of a Ray cluster that answers the questions, or "local" for one on this machine. `reproduces`
    is the id of the run that this one repeats.
    """

    anyway: bool = False
    retry_failed: bool = False
    only: int | None = None
    cache: str | Path | None = "default"
    concurrency: int | None = None
    max_cost: float | None = None
    ray: str = ""
    reproduces: str = ""


async def run_experiment(
    experiment: Experiment,
    out: Path,
    ways: Ways | None = None,
    *,
    model: Model | None = None,
    roles: Mapping[str, Model] | None = None,
    data: DataSet | None = None,
    on_begin: Callable[[dict[str, Any]], None] = lambda run: None,
    on_progress: Listener = lambda progress: None,
    on_judged: Callable[[JudgeProgress], None] = lambda progress: None,
) -> dict[str, Any]:
    """Ask every question that has no outcome yet, have the answers judged where the experiment says so, and sum up.

    `model` is one that is open already, `data` the questions where they are read already. `on_begin` hears what the run
    rests on before anything is asked.
    """
    ways = ways or Ways()
    data, answer_filter = await experiment.filtered(data or experiment.read_data())
    folder = RunFolder(out)
    writer: TraceFile | None = None

    def hear(event: Event) -> None:
        assert writer is not None
        writer(event)

    async with (
        _judge(experiment) as judge,
        experiment.open(
            listeners=(hear,), cache=ways.cache, concurrency=ways.concurrency, model=model, roles=roles
        ) as engine,
    ):
        try:
            repeated = {"reproduces": ways.reproduces} if ways.reproduces else {}
            run = folder.begin(described(experiment, data, engine, answer_filter) | repeated, anyway=ways.anyway)
            on_begin(run)
            writer = TraceFile(out / TRACES)
            await _ask_missing(experiment, data, engine, folder, ways, hear, on_progress)
            summary = summarise(out)
            write_json(out / METRICS, summary)
        finally:
            if writer:
                writer.close()
            folder.close()
        if judge is not None and ways.only is None and summary["finished"]:
            await judge_run(out, judge, cache=ways.cache, concurrency=ways.concurrency, on_progress=on_judged)
            summary = summarise(out)
    return {"run": run["id"], "name": run["name"], "folder": str(out), **summary}


async def _ask_missing(
    experiment: Experiment,
    data: DataSet,
    engine: Engine,
    folder: RunFolder,
    ways: Ways,
    hear: Callable[[Event], None],
    on_progress: Listener,
) -> None:
    done = {row.id: row for row in read_rows(folder.path) if not (ways.retry_failed and row.error)}
    waiting = [example for example in data.examples if example.id not in done][: ways.only]
    progress = Progress(len(data.examples), list(done.values()), began=time.monotonic())
    on_progress(progress)
    if waiting:
        async with _asker(engine, experiment, ways, hear) as asker:
            await _ask_all(asker, waiting, folder, progress, ways.max_cost, on_progress)


@asynccontextmanager
async def _judge(experiment: Experiment) -> AsyncIterator[Model | None]:
    """The model that judges, if one is to: opened before the first question, as it may not be there."""
    judge = experiment.open_judge() if experiment.judge else None
    try:
        yield judge
    finally:
        if judge is not None:
            await judge.aclose()


@asynccontextmanager
async def _asker(
    engine: Engine, experiment: Experiment, ways: Ways, hear: Callable[[Event], None]
) -> AsyncIterator[Asker]:
    """Whoever answers the questions: the engine itself, or engines like it on a cluster."""
    if not ways.ray:
        yield EngineAsker(engine)
        return
    from hoptree.evaluation.ray_run import on_ray

    async with on_ray(ways.ray, experiment, engine, cache=ways.cache, concurrency=ways.concurrency, hear=hear) as asker:
        yield asker


class _Waiting:
    """The questions that are still to be asked, given out one by one while the money lasts.

    What a question under way will cost is not known: it is taken to cost what those before it did on average, and the
    first one goes alone.
    """

    def __init__(self, examples: Sequence[Example], costs: Sequence[float], limit: float | None) -> None:
        self._left = iter(examples)
        self._limit = limit
        self._spent, self._finished, self._under_way = math.fsum(costs), len(costs), 0
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

    async def done(self, cost: float) -> None:
        async with self._changed:
            self._under_way -= 1
            self._finished += 1
            self._spent += cost
            self._changed.notify_all()

    def _affordable(self) -> bool:
        if self._limit is None:
            return True
        if not self._finished:
            return not self._under_way and self._limit > 0
        return self._spent + (self._under_way + 1) * self._spent / self._finished <= self._limit


async def _ask_all(
    asker: Asker,
    examples: Sequence[Example],
    folder: RunFolder,
    progress: Progress,
    max_cost: float | None,
    on_progress: Listener,
) -> None:
    waiting = _Waiting(examples, [row.usage.get("cost", 0.0) for row in progress.rows], max_cost)
    hopeless: list[Asked] = []

    async def keep(row: Row) -> None:
        await folder.add(row)
        _count(progress, row)
        on_progress(progress)

    async def work() -> None:
        while (example := await waiting.take()) is not None:
            asked = await asker.ask(example)
            await waiting.done(asked.row.usage.get("cost", 0.0))
            if asked.hopeless is not None and not progress.rows:
                hopeless.append(asked)
                if len(hopeless) == _HOPELESS:
                    raise asked.hopeless
                continue
            before, hopeless[:] = hopeless[:], []
            for one in (*before, asked):
                await keep(one.row)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(asker.at_once, len(examples))):
                group.create_task(work())
    except* HoptreeError as errors:
        raise errors.exceptions[0] from None
    if hopeless and hopeless[0].hopeless is not None:
        raise hopeless[0].hopeless


def _count(progress: Progress, row: Row) -> None:
    progress.rows.append(row)
    progress.asked += 1
    progress.calls += int(row.usage.get("llm_calls", 0))
    progress.cached += int(row.usage.get("cached_calls", 0))
    progress.tokens += int(row.usage.get("prompt_tokens", 0) + row.usage.get("completion_tokens", 0))
