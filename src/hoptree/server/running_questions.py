"""The questions that are being answered, and what a stop does about them."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from hoptree.core.files import atomic_write
from hoptree.server.error_responses import Refusal

_SAME = ("question", "method", "model", "corpus", "graph", "retriever", "rerank", "options", "budget")
"""By what a question is known again, whoever asks it."""
_OWNER = 0o600


class Journal:
    """One JSON line a question; without a `path` nothing is kept. A file in which nothing is left goes."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._open = {_identity(told) for told in self._read()}

    def __len__(self) -> int:
        """How many questions an earlier stop cut off, and nobody has asked again."""
        return len(self._open)

    def write(self, questions: Sequence[Mapping[str, Any]]) -> None:
        """Add questions; what was paid for them is in the cache."""
        if self._path is None:
            _LOG.warning("stopping: %d questions are given up", len(questions))
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._append([{"stopped_at": time.time(), **told} for told in questions])
            _LOG.warning("stopping: %d questions are written to %s", len(questions), self._path)
        except OSError as error:
            _LOG.error("stopping: %d questions could not be written down: %s", len(questions), error.strerror)

    def take_out(self, told: Mapping[str, Any]) -> None:
        """A question was answered: if it was cut off once, that is made up for."""
        if not self._open or self._path is None or (found := _identity(told)) not in self._open:
            return
        self._open.discard(found)
        try:
            left = [one for one in self._read() if _identity(one) != found]
            if left:
                atomic_write(self._path, (_line(one) for one in left), mode=_OWNER)
            else:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            _LOG.error("the journal %s cannot be changed: %s", self._path, error.strerror)

    def _append(self, questions: Sequence[Mapping[str, Any]]) -> None:
        assert self._path is not None
        lines = "".join(_line(told) for told in questions)
        with os.fdopen(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, _OWNER), "rb+") as file:
            self._path.chmod(_OWNER)  # where it was there before
            whole = not file.seek(0, os.SEEK_END) or (file.seek(-1, os.SEEK_END) >= 0 and file.read(1) == b"\n")
            file.write(("" if whole else "\n").encode() + lines.encode())

    def _read(self) -> list[dict[str, Any]]:
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines() if self._path else []
        except OSError:
            return []
        return [told for line in lines if (told := _load(line)) is not None]


def _line(told: Mapping[str, Any]) -> str:
    return json.dumps(told) + "\n"


def _load(line: str) -> dict[str, Any] | None:
    """A line that was written as a whole; a stop that was cut off itself may have left half of one."""
    try:
        told = json.loads(line)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def _identity(told: Mapping[str, Any]) -> str:
    return json.dumps([told.get(name) or None for name in _SAME], sort_keys=True)


T = TypeVar("T")
_LOG = logging.getLogger("hoptree.server")
_GONE = "Stopped"


@dataclass(slots=True, eq=False)
class _Question:
    """One that is under way, in the task that asks it; `told` is what the journal says of it."""

    task: asyncio.Task[Any]
    told: dict[str, Any]
    stopped: bool = False


class RunningQuestions:
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
                503, _GONE, "The server was stopped while it answered.", self._remedy, retry_after=5
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
