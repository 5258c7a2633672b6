"""One question asked of a method with a scripted model, and all that can be seen of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.timing import run_without_waiting
from tests.traced import as_dicts

from hoptree.core.values import Passage
from hoptree.engine.context import Budget
from hoptree.engine.engine import Engine
from hoptree.engine.events import Event
from hoptree.engine.result import Result
from hoptree.models.scripted import Rule, ScriptedModel

__all__ = ["Asked", "Shelf"]


class Shelf:
    """A retriever that always finds the same passages, and remembers what it was asked."""

    kind = "shelf"
    identity = "shelf"
    remote = False

    def __init__(self, *passages: Passage) -> None:
        self.passages = passages
        self.asked: list[tuple[str, int]] = []

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        self.asked.append((query, k))
        return self.passages[:k]

    async def aclose(self) -> None:
        return None


class Asked:
    """A question, the model and the shelf it was put to, the events and the result."""

    graph: Any = None
    own_prompts: Any = None

    def __init__(
        self,
        method: str,
        script: list[Rule],
        question: str,
        shelf: Shelf,
        *,
        budget: Budget | None = None,
        latency: float = 0.0,
        roles: Mapping[str, Any] | None = None,
        options: Mapping[str, Any],
    ) -> None:
        self.events: list[Event] = []
        self.method, self.shelf = method, shelf
        self.model = ScriptedModel(rules=script, latency=latency)
        self.result = run_without_waiting(self._ask(question, budget, roles, options))

    async def _ask(
        self, question: str, budget: Budget | None, roles: Mapping[str, Any] | None, options: Mapping[str, Any]
    ) -> Result:
        async with Engine(
            method=self.method,
            model=self.model,
            roles=roles,
            corpus=self.shelf,
            graph=self.graph,
            prompts=self.own_prompts,
            options=options,
            budget=budget,
            cache=None,
            listeners=(self.events.append,),
        ) as engine:
            return await engine.ask(question)

    def of(self, event_kind: str, /, **wanted: Any) -> list[dict[str, Any]]:
        return [
            event
            for event in as_dicts(self.events)
            if event["event"] == event_kind and all(event.get(name) == value for name, value in wanted.items())
        ]

    def node(self, number: int) -> dict[str, Any]:
        """What is known of a node, from all its events."""
        merged: dict[str, Any] = {}
        for event in self.of("node", id=number):
            merged |= event
        return merged

    @property
    def steps(self) -> list[str]:
        return [step.removeprefix(f"{self.method}/") for step, _ in self.model.requests]
