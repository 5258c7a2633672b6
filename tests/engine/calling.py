"""Calls begun one by one, and what they are made of."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping

from tests.timing import TIMEOUT_S

from hoptree.core.errors import ModelError
from hoptree.core.values import Passage
from hoptree.engine.calls import Call, Calls
from hoptree.models.model import Message, Reply, Request
from hoptree.models.scripted import ScriptedModel

__all__ = ["REQUEST", "Finder", "asking", "full", "ignore", "one_after_another", "say", "soon"]

REQUEST = Request((Message("user", "Who?"),))


def asking(text: str) -> Request:
    return Request((Message("user", text),))


def ignore(error: ModelError, wait: float) -> None:
    """A retry nobody wants to hear of."""


def say(calls: Calls, model: ScriptedModel, request: Request = REQUEST) -> asyncio.Task[Call[Reply]]:
    """Begin a call."""
    return asyncio.create_task(calls.generate(model, request, step="test/step", on_retry=ignore))


async def soon(happened: Callable[[], bool]) -> None:
    """Let other tasks run until it happened."""
    async with asyncio.timeout(TIMEOUT_S):
        while not happened():
            await asyncio.sleep(0)


def one_after_another(calls: Calls, model: ScriptedModel, *requests: Request) -> list[Call[Reply]]:
    async def run() -> list[Call[Reply]]:
        return [await say(calls, model, request) for request in requests]

    return asyncio.run(run())


def full(*_: object) -> None:
    raise sqlite3.OperationalError("database or disk is full")


class Finder:
    """A retriever that finds the query itself, after failing as it is told to."""

    kind = "fake"

    def __init__(self, *failures: ModelError, remote: bool = True, identity: str = "fake:1") -> None:
        self.remote = remote
        self.identity = identity
        self.asked: list[tuple[str, int, dict[str, str]]] = []
        self.at_once = self.most_at_once = 0
        self._failures = list(failures)

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        self.asked.append((query, k, dict(where or {})))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0.005)
        self.at_once -= 1
        if self._failures:
            raise self._failures.pop(0)
        return (
            Passage("p1", "Łódź", query, 1.5, "d", 3, 9, ("alias",), (("lang", "pl"),), (("bm25", 1.5),)),
            Passage("p2", "", "half \ud83d"),
        )

    async def aclose(self) -> None:
        """There is nothing to close."""
