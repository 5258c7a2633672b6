"""A run whose questions are answered by a Ray cluster.

This process alone holds the run's folder: workers send back outcomes and events, and they are written here as if the
questions had been asked here. Replies of the model go through one store on this machine, so that a call that is
finished is on disk and is never sent again, whichever worker needs it. A worker that is lost takes nothing with it:
its questions are asked again, by others, and find its finished calls remembered.
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
from typing import Any

from hoptree.engine import Engine
from hoptree.errors import EndpointError, HoptreeError, InputError, MissingExtra
from hoptree.evaluation.asking import Asked, at_once, failed_row, searches
from hoptree.evaluation.datasets import Example
from hoptree.evaluation.experiment import Experiment
from hoptree.evaluation.ray_parts import SharedReplies, Worker
from hoptree.evaluation.run_folder import Row
from hoptree.runtime.cache import default_cache_path
from hoptree.runtime.trace import Listener

__all__ = ["RayAsker", "WorkerLost", "on_ray"]

_ATTEMPTS = 5
"""Workers that may be lost over one question before it counts as failed: it may be what kills them."""
_PATIENCE = 120.0
"""Seconds without any worker before the run is given up."""
_SLOTS_EACH = 16
"""Requests at once that make a worker worth its process, where all workers share one endpoint."""


class WorkerLost(HoptreeError):
    """The processes that were to answer a question, or all of them, are gone."""


@dataclass(slots=True)
class _Seat:
    """A place for a worker: when the worker is lost, Ray starts another there, with another `pid`."""

    number: int
    actor: Any
    opens: tuple[Any, ...]
    pid: int = 0
    under_way: int = 0
    usable: bool = True


class RayAsker:
    """Puts each question to the worker with the fewest under way."""

    def __init__(
        self, ray: ModuleType, seats: list[_Seat], shared: Any, hear: Listener, engine: Engine, at_once: int
    ) -> None:
        self.at_once = at_once
        self._ray = ray
        self.seats = seats
        self._shared = shared
        self._hear = hear
        self._engine = engine
        self._usable = asyncio.Event()
        self._usable.set()
        self._reviving: set[asyncio.Task[None]] = set()

    async def ask(self, example: Example) -> Asked:
        question = json.dumps(asdict(example))
        for _ in range(_ATTEMPTS):
            seat = await self._free()
            seat.under_way += 1
            try:
                reply = json.loads(await seat.actor.ask.remote(question))
            except self._ray.exceptions.RayActorError:
                self._lose(seat)
                continue
            finally:
                seat.under_way -= 1
            for event in reply["events"]:
                self._hear(event)
            return Asked(Row.read(reply["row"]), _error(reply["hopeless"]) if reply["hopeless"] else None)
        lost = WorkerLost(f"{_ATTEMPTS} workers were lost over this question.", "Look at the cluster's logs.")
        return Asked(failed_row(example, lost, searchable=searches(self._engine)))

    async def ready(self) -> None:
        """Wait until every worker has opened its engine, and check that it rests on the same as the one here."""
        await asyncio.gather(*(self._check(seat) for seat in self.seats))

    async def _check(self, seat: _Seat) -> None:
        said = json.loads(await seat.actor.ready.remote(seat.number, *seat.opens))
        if failure := said.get("failure"):
            raise _error(failure)
        corpus = self._engine.retriever.identity if self._engine.retriever else None
        if (said["model"], said["corpus"]) != (self._engine.models_identity, corpus):
            raise InputError(
                f"A worker has another model or index: {said['model']} and {said['corpus']}, not "
                f"{self._engine.models_identity} and {corpus}.",
                "Put the same index at the same place on every machine of the cluster.",
            )
        seat.pid = said["pid"]

    async def _free(self) -> _Seat:
        while not (usable := [seat for seat in self.seats if seat.usable]):
            self._usable.clear()
            try:
                async with asyncio.timeout(_PATIENCE):
                    await self._usable.wait()
            except TimeoutError:
                raise WorkerLost(
                    f"The cluster has had no worker for {_PATIENCE:.0f} seconds.",
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
        """Use a place again once there is a worker who can answer."""
        if self._shared is not None:
            await self._shared.lost.remote(seat.number)
        while True:
            try:
                await self._check(seat)
            except self._ray.exceptions.RayActorError:
                await asyncio.sleep(0.5)
            except HoptreeError:
                return  # a machine that has not what the others have: the place stays empty
            else:
                seat.usable = True
                self._usable.set()
                return

    async def aclose(self) -> None:
        for task in self._reviving:
            task.cancel()
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
    hear: Callable[[dict[str, Any]], None],
) -> AsyncIterator[RayAsker]:
    """Workers on the cluster at an address ("local": one that is started here), for as long as the block lasts."""
    ray, started = _connect(address)
    try:
        shared = None if cache is None else _share(ray, cache)
        count, needs, slots = _places(ray, experiment, concurrency or engine.model.slots)
        worker = ray.remote(Worker).options(max_restarts=-1, max_concurrency=1000, **needs)
        opens = (experiment, math.ceil(slots / count), str(Path.cwd()), shared)
        seats = [_Seat(number, worker.remote(), opens) for number in range(count)]
        together = at_once(slots, timed=experiment.budget.seconds is not None)
        asker = RayAsker(ray, seats, shared, hear, engine, together)
        try:
            await asker.ready()
            yield asker
        finally:
            await asker.aclose()
    finally:
        if started:
            ray.shutdown()


def _share(ray: Any, cache: str | Path) -> Any:
    """The store of all workers' replies, which are written to a file of this machine: so it must run here."""
    path = (default_cache_path() if cache == "default" else Path(cache)).absolute()
    here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False
    )
    needs = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1, "scheduling_strategy": here}
    return ray.remote(SharedReplies).options(**needs).remote(str(path))


def _connect(address: str) -> tuple[Any, bool]:
    """Ray, and whether the connection was made here."""
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
    _knock(address)
    more: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a run tells nobody about itself
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **more)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        raise _no_cluster(address, error) from error
    return ray, True


def _knock(address: str) -> None:
    """Whether anybody is there: Ray itself tries for minutes."""
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
    """How many workers there are to be, what each needs, and how many requests all of them may have under way.

    Workers that share an endpoint share its slots; those that load a model themselves have slots of their own.
    """
    has = ray.cluster_resources()
    kind = experiment.model.partition("/")[0]
    if kind == "hf" and has.get("GPU", 0) >= 1:
        count = int(has["GPU"])
        return count, {"num_cpus": 1, "num_gpus": 1}, count * slots
    if kind in ("hf", "local"):
        count = sum(node["Alive"] for node in ray.nodes())
        return count, {"num_cpus": 1, "scheduling_strategy": "SPREAD"}, count * slots
    count = max(1, min(int(has.get("CPU", 1)), slots // _SLOTS_EACH))
    return count, {"num_cpus": 1, "scheduling_strategy": "SPREAD"}, slots


def _error(told: dict[str, Any]) -> HoptreeError:
    error = HoptreeError(told["cause"], told["remedy"])
    if told["status"] is not None:
        error = EndpointError(told["cause"], told["remedy"], status=told["status"])
    error.exit_code = told["exit_code"]
    return error
