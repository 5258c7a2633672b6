"""Answer the questions of a run on a Ray cluster.

Only this process writes the run's folder: workers send back outcomes and lines of the trace. Model replies go through
one store on this machine, so that no worker repeats a finished call. If a worker is lost, others ask its questions
again and find its finished calls in the store.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from hoptree.core.errors import CacheError, HoptreeError, InputError, MissingExtra
from hoptree.engine.cache import Form, default_cache_path, from_text, to_text
from hoptree.engine.engine import Engine
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.experiment import Asked, Experiment, at_once, failed_row, searches
from hoptree.evaluation.shared_replies import SharedReplies
from hoptree.evaluation.workers import MAX_ATTEMPTS, Worker, WorkerLost, read_error, read_outcome

T = TypeVar("T")


class Replies:
    """The shared replies as a store for the engine of one worker."""

    def __init__(self, shared: Any, worker: int) -> None:
        self._shared = shared
        self._worker = worker

    async def get(self, key: bytes, form: Form[T]) -> tuple[T, float] | None:
        import ray

        claim = self._shared.claim.remote(key, self._worker)
        try:
            text = await claim
        except asyncio.CancelledError:
            ray.cancel(claim)
            self.give_up(key)
            raise
        except ray.exceptions.RayError as error:
            raise _unusable(error) from error
        return None if text is None else from_text(form, text)

    async def put(self, key: bytes, form: Form[T], value: T, seconds: float) -> None:
        import ray

        try:
            await self._shared.put.remote(key, to_text(form, value, seconds), self._worker)
        except ray.exceptions.RayError as error:
            raise _unusable(error) from error

    def give_up(self, key: bytes) -> None:
        self._shared.give_up.remote(key, self._worker)

    def close(self) -> None:
        """Do nothing: the actor of the shared replies closes the file."""


def _unusable(error: Exception) -> CacheError:
    return CacheError(f"The shared cache cannot be used: {type(error).__name__}.", "What it held is safe.")


class RayWorker:
    """A worker as a Ray actor; `ready` opens its engine, also after Ray restarted it."""

    def __init__(self) -> None:
        self._worker = Worker()

    async def ready(self, number: int, experiment: Experiment, concurrency: int, folder: str, shared: Any) -> str:
        """Open the engine; return its model and corpus, or the error."""
        if Path(folder).is_dir():  # relative paths then mean the same here
            os.chdir(folder)
        cache = Replies(shared, number) if shared is not None else None
        return json.dumps(self._worker.open(experiment, concurrency, cache))

    async def ask(self, question: str) -> tuple[str, bytes]:
        """Return the outcome of a question and its trace, as in a run's folder."""
        outcome, trace = await self._worker.ask(json.loads(question))
        return json.dumps(outcome), trace


_WORKER_TIMEOUT_S = 120.0  # time without any worker after which the run fails
_SLOTS_PER_WORKER = 16  # concurrent requests for each worker process, if all workers share one endpoint


@dataclass(slots=True)
class _Seat:
    """A place for a worker; if it is lost, Ray starts another with a new `pid`."""

    number: int
    actor: Any
    opens: tuple[Any, ...]
    pid: int = 0
    under_way: int = 0
    usable: bool = True


class RayAsker:
    """Gives each question to the worker with the fewest in progress."""

    def __init__(
        self,
        ray: ModuleType,
        seats: list[_Seat],
        shared: Any,
        on_trace: Callable[[bytes], None],
        engine: Engine,
        at_once: int,
    ) -> None:
        self.at_once = at_once
        self._ray = ray
        self.seats = seats
        self._shared = shared
        self._on_trace = on_trace
        self._engine = engine
        self._usable = asyncio.Event()
        self._usable.set()
        self._reviving: set[asyncio.Task[None]] = set()
        self._gone: WorkerLost | None = None

    async def ask(self, example: Example) -> Asked:
        question = json.dumps(asdict(example))
        for _ in range(MAX_ATTEMPTS):
            seat = await self._free()
            seat.under_way += 1
            try:
                outcome, trace = await seat.actor.ask.remote(question)
            except self._ray.exceptions.RayActorError:
                self._lose(seat)
                continue
            finally:
                seat.under_way -= 1
            self._on_trace(trace)
            return read_outcome(json.loads(outcome))
        lost = WorkerLost(f"{MAX_ATTEMPTS} workers were lost over this question.", "Look at the cluster's logs.")
        return Asked(failed_row(example, lost, searchable=searches(self._engine)))

    async def ready(self) -> None:
        """Wait for all workers, and check that they have the same model and index."""
        await asyncio.gather(*(self._check(seat) for seat in self.seats))

    async def _check(self, seat: _Seat) -> None:
        worker = json.loads(await seat.actor.ready.remote(seat.number, *seat.opens))
        if failure := worker.get("failure"):
            raise read_error(failure)
        corpus = self._engine.retriever.identity if self._engine.retriever else None
        if (worker["model"], worker["corpus"]) != (self._engine.models_identity, corpus):
            raise InputError(
                f"A worker has another model or index: {worker['model']} and {worker['corpus']}, not "
                f"{self._engine.models_identity} and {corpus}.",
                "Put the same index at the same place on every machine of the cluster.",
            )
        seat.pid = worker["pid"]

    async def _free(self) -> _Seat:
        while self._gone or not (usable := [seat for seat in self.seats if seat.usable]):
            if self._gone:
                raise self._gone
            self._usable.clear()
            try:
                async with asyncio.timeout(_WORKER_TIMEOUT_S):
                    await self._usable.wait()
            except TimeoutError:
                raise WorkerLost(
                    f"The cluster has had no worker for {_WORKER_TIMEOUT_S:.0f} seconds.",
                    "Start machines, and give the same command again: what is finished is kept.",
                ) from None
        return min(usable, key=lambda seat: seat.under_way)

    def _lose(self, seat: _Seat) -> None:
        if seat.usable:
            seat.usable = False
            task = asyncio.create_task(self._revive(seat))
            self._reviving.add(task)
            task.add_done_callback(self._reviving.discard)

    async def _revive(self, seat: _Seat) -> None:
        """Wait until the place's new worker is ready, and use it again."""
        if self._shared is not None:
            try:
                await self._shared.lost.remote(seat.number)
            except self._ray.exceptions.RayError as error:  # it runs on this machine, and ends with the cluster
                self._gone = WorkerLost(
                    f"The connection to the cluster was lost ({type(error).__name__}).",
                    "Start it again, and give the same command: what is finished is kept.",
                )
                self._usable.set()
                return
        while True:
            try:
                await self._check(seat)
            except self._ray.exceptions.RayActorError:
                await asyncio.sleep(0.5)
            except HoptreeError:
                return  # the machine has another model or index: the place stays empty
            else:
                seat.usable = True
                self._usable.set()
                return

    async def aclose(self) -> None:
        for task in self._reviving:
            task.cancel()
        if self._gone:
            return  # the cluster is gone, with its actors
        for actor in (*(seat.actor for seat in self.seats), *([self._shared] if self._shared else [])):
            self._ray.kill(actor)


@asynccontextmanager
async def on_ray(
    address: str,
    experiment: Experiment,
    engine: Engine,
    *,
    cache: str | Path | None,
    concurrency: int | None,
    on_trace: Callable[[bytes], None],
) -> AsyncIterator[RayAsker]:
    """Yield an asker backed by workers on a cluster ("local" starts one here)."""
    ray, started = _connect(address)
    try:
        shared = None if cache is None else _share(ray, cache)
        count, needs, slots = _places(ray, experiment, concurrency or engine.model.slots)
        worker = ray.remote(RayWorker).options(max_restarts=-1, max_concurrency=1000, **needs)
        opens = (experiment, math.ceil(slots / count), str(Path.cwd()), shared)
        seats = [_Seat(number, worker.remote(), opens) for number in range(count)]
        together = at_once(slots, timed=experiment.budget.seconds is not None)
        asker = RayAsker(ray, seats, shared, on_trace, engine, together)
        try:
            await asker.ready()
            yield asker
        finally:
            await asker.aclose()
    finally:
        if started:
            ray.shutdown()


def _share(ray: Any, cache: str | Path) -> Any:
    """Start the shared reply store on this machine, next to its file."""
    path = (default_cache_path() if cache == "default" else Path(cache)).absolute()
    here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False
    )
    needs = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1, "scheduling_strategy": here}
    return ray.remote(SharedReplies).options(**needs).remote(str(path))


def _connect(address: str) -> tuple[Any, bool]:
    """Connect to Ray; also return whether the connection was made here."""
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise MissingExtra("Running on Ray", "ray") from error
    if ray.is_initialized():
        return ray, False
    if address.startswith("ray://"):
        raise InputError(
            f"The run cannot be held from outside the cluster ({address}).",
            "Give the command on one of its machines, with --ray auto or --ray HOST:PORT.",
        )
    _check_reachable(address)
    more: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage statistics
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **more)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        raise _no_cluster(address, error) from error
    return ray, True


def _check_reachable(address: str) -> None:
    """Check quickly that the cluster answers: Ray itself tries for minutes."""
    host, separator, port = address.rpartition(":")
    if separator and port.isdigit():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        except (OSError, OverflowError, UnicodeError) as error:
            raise _no_cluster(address, error) from error


def _no_cluster(address: str, error: Exception) -> InputError:
    return InputError(
        f"There is no Ray cluster at {address}: {' '.join(str(error).split())[:300]}.",
        "Start one with: ray start --head, or let one be started here: --ray local",
    )


def _places(ray: Any, experiment: Experiment, slots: int) -> tuple[int, dict[str, Any], int]:
    """Return the number of workers, their resources, and concurrent requests."""
    resources = ray.cluster_resources()
    kind = experiment.model.partition("/")[0]
    if kind == "hf" and resources.get("GPU", 0) >= 1:
        count = int(resources["GPU"])
        return count, {"num_cpus": 1, "num_gpus": 1}, count * slots
    if kind in ("hf", "local"):
        count = sum(node["Alive"] for node in ray.nodes())
        return count, {"num_cpus": 1, "scheduling_strategy": "SPREAD"}, count * slots
    count = max(1, min(int(resources.get("CPU", 1)), slots // _SLOTS_PER_WORKER))
    return count, {"num_cpus": 1, "scheduling_strategy": "SPREAD"}, slots
