"""Rehearsing a step of a method: what it asks is the prompt of a training row, what it should be told the target."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from hoptree.models.model import Capability, Choice, Message, Reply, Request
from hoptree.runtime.calls import Calls
from hoptree.runtime.context import Context
from hoptree.runtime.trace import Trace

__all__ = ["Rehearsed", "rehearse"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rehearsed(Generic[T]):
    """The messages a step sent, the template they came from, and what the step made of the target."""

    messages: tuple[Message, ...]
    template: str
    read: T


class _Prompter:
    """A model that says what it is told to say, and keeps what it was asked."""

    name = identity = endpoint = "rehearsal"
    slots = 1
    capabilities: frozenset[Capability] = frozenset()

    def __init__(self, target: str) -> None:
        self.asked: list[Request] = []
        self._target = target

    async def generate(self, request: Request, *, step: str) -> Reply:
        self.asked.append(request)
        return Reply((Choice(self._target),))

    async def aclose(self) -> None:
        return


async def rehearse(method: str, step: Callable[[Context], Awaitable[T]], target: str) -> Rehearsed[T]:
    """Let a step ask its one question and be told the target.

    So the prompt is the very one that a run sends, and a target that the step would not understand shows at once.
    """
    prompter = _Prompter(target)
    ctx = Context(method=method, model=prompter, calls=Calls(None), trace=Trace("rehearsal"))
    read = await step(ctx)
    (request,) = prompter.asked
    (event,) = (event for event in ctx.trace.events if event["event"] == "llm")
    return Rehearsed(request.messages, event["template"], read)
