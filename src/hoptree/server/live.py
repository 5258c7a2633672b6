"""The questions that are being answered, and what a stop does about them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from hoptree.server.journal import Journal
from hoptree.server.refusals import Refusal

__all__ = ["Live"]

T = TypeVar("T")
_LOG = logging.getLogger("hoptree.server")
_GONE = "Stopped"


@dataclass(slots=True, eq=False)
class _Question:
    """One that is under way, in the task that asks it; `told` is what the journal says of it."""

    task: asyncio.Task[Any]
    told: dict[str, Any]
    stopped: bool = False


class Live:
    """Runs questions, as many at once as allowed; a stop waits for them, then writes down and ends what is left."""

    def __init__(self, at_once: int, journal: Journal, *, remembers: bool) -> None:
        self._at_once = at_once
        self._remedy = f"Ask again when it is back{': replies that came are remembered' if remembers else ''}."
        self.journal = journal
        self._questions: set[_Question] = set()
        self.stopping = False

    def __len__(self) -> int:
        return len(self._questions)

    def check(self) -> None:
        """Refuse a further question where that is one too many, or the server is about to stop."""
        if self.stopping:
            raise Refusal(503, _GONE, "The server is stopping.", "Ask again when it is back.", retry_after=5)
        if len(self._questions) >= self._at_once:
            raise Refusal(
                429,
                "Busy",
                f"{self._at_once} questions are being answered, and no more are taken at once.",
                "Wait as long as Retry-After says.",
                retry_after=1,
            )

    async def run(
        self, work: Awaitable[T], told: dict[str, Any], answered: Callable[[T], bool] = lambda result: True
    ) -> T:
        """Carry a question through; when the server stops it is refused, and cancelled when its client goes away.

        `answered` tells of a result whether it makes up for having been cut off once.
        """
        task = asyncio.current_task()
        assert task is not None
        question = _Question(task, told)
        self._questions.add(question)
        try:
            result = await work
            if answered(result):
                self.journal.take_out(told)
            return result
        except asyncio.CancelledError:
            if not question.stopped:
                raise
            task.uncancel()
            raise Refusal(
                503,
                _GONE,
                "The server was stopped while it answered.",
                self._remedy,
                retry_after=5,
            ) from None
        finally:
            self._questions.discard(question)

    async def stop(self, seconds: float) -> None:
        """Take no more questions, wait for those under way, and end what is left then; a later call may wait less."""
        self.stopping = True
        tasks = {question.task for question in self._questions}
        if tasks:
            _LOG.info("stopping: waiting up to %g s for %d questions", seconds, len(tasks))
            await asyncio.wait(tasks, timeout=seconds)
        left = [question for question in self._questions if not question.stopped]
        if not left:
            return
        self.journal.write([question.told for question in left])
        for question in left:
            question.stopped = True
            question.task.cancel()
