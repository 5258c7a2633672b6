"""What runs in other processes of a Ray cluster: engines that answer questions, and the one store of their replies.

Only text and bytes go over the wire, as JSON where they have parts: what comes back is read like a line of a file.
"""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from hoptree.engine import Engine
from hoptree.errors import CacheError, EndpointError, HoptreeError
from hoptree.evaluation.asking import EngineAsker
from hoptree.evaluation.datasets import Example
from hoptree.evaluation.experiment import Experiment
from hoptree.runtime.cache import Cache, Form, from_text, to_text
from hoptree.runtime.trace import Event

__all__ = ["SharedReplies", "Worker", "told"]

T = TypeVar("T")


def told(error: HoptreeError) -> dict[str, Any]:
    """An error as it can be sent: what its class is called, and what it says."""
    return {
        "class": type(error).__name__,
        "cause": error.cause,
        "remedy": error.remedy,
        "exit_code": error.exit_code,
        "status": error.status if isinstance(error, EndpointError) else None,
    }


class SharedReplies:
    """The call cache of a run, beside the process that holds the run: one connection to the file, for all workers.

    A call that one worker has under way is waited for by the others. What a lost worker had under way is free again.
    """

    def __init__(self, path: str) -> None:
        self._cache = Cache(Path(path))
        self._claims: dict[bytes, tuple[int, asyncio.Future[None]]] = {}

    async def claim(self, key: bytes, worker: int) -> str | None:
        """What is remembered under a key; None: the worker is the one to pay for it, and to tell."""
        while True:
            if (text := self._cache.text(key)) is not None:
                return text
            if key not in self._claims:
                self._claims[key] = (worker, asyncio.get_running_loop().create_future())
                return None
            await asyncio.shield(self._claims[key][1])

    async def put(self, key: bytes, text: str, worker: int) -> None:
        """Remember a reply; it is on disk when this returns."""
        try:
            await self._cache.put_text(key, text)
        finally:
            await self.give_up(key, worker)

    async def give_up(self, key: bytes, worker: int) -> None:
        """Let others pay for what the worker was to pay for."""
        if key in self._claims and self._claims[key][0] == worker:
            self._claims.pop(key)[1].set_result(None)

    async def lost(self, worker: int) -> None:
        """Let others pay for all that a worker had under way."""
        for key in [key for key, (claimed_by, _) in self._claims.items() if claimed_by == worker]:
            await self.give_up(key, worker)


class Replies:
    """The shared replies as the engine of one worker sees them."""

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
        """The file is closed where it is open."""


def _unusable(error: Exception) -> CacheError:
    return CacheError(f"The shared cache cannot be used: {type(error).__name__}.", "What it held is safe.")


class Worker:
    """An engine in a process of its own, which answers any number of questions at once.

    It is told what to open when it is asked whether it is ready, as Ray starts it anew without any word from us.
    """

    def __init__(self) -> None:
        self._events: dict[str, list[Event]] = {}
        self._engine: Engine | None = None

    def _hear(self, event: Event) -> None:
        self._events.setdefault(event["run"], []).append(event)

    async def ready(self, number: int, experiment: Experiment, concurrency: int, folder: str, shared: Any) -> str:
        """What the engine rests on here, once it is open; or why it cannot be opened."""
        try:
            if self._engine is None:
                if Path(folder).is_dir():  # so that relative names mean here what they mean to who gave them
                    os.chdir(folder)
                cache = Replies(shared, number) if shared is not None else None
                self._engine = experiment.open(listeners=(self._hear,), cache=cache, concurrency=concurrency)
        except HoptreeError as error:
            return json.dumps({"failure": told(error)})
        found = self._engine.retriever
        return json.dumps(
            {"pid": os.getpid(), "model": self._engine.models_identity, "corpus": found.identity if found else None}
        )

    async def ask(self, question: str) -> str:
        """The outcome of a question with its events, both as they stand in a run's folder."""
        assert self._engine is not None
        asked = await EngineAsker(self._engine).ask(_example(json.loads(question)))
        return json.dumps(
            {
                "row": asdict(asked.row),
                "events": self._events.pop(asked.row.trace),
                "hopeless": told(asked.hopeless) if asked.hopeless else None,
            }
        )


def _example(data: dict[str, Any]) -> Example:
    def frozen(value: Any) -> Any:
        return tuple(frozen(item) for item in value) if isinstance(value, list) else value

    return Example(**{name: frozen(value) for name, value in data.items()})
