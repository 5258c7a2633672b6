"""The questions that are being answered, and the journal of those that a stop cuts off."""

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

T = TypeVar("T")
_LOG = logging.getLogger("hoptree.server")
_IDENTITY = ("question", "method", "model", "corpus", "graph", "retriever", "rerank", "options", "budget")
"""Entries that agree in these are the same question, whoever asks it."""
_OWNER_ONLY = 0o600


class Journal:
    """A file with one JSON line a question, removed when it is empty; without a `path` nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._open = {_identity(entry) for entry in self._read()}

    def __len__(self) -> int:
        """How many questions an earlier stop cut off, and nobody has asked again."""
        return len(self._open)

    def write(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Add questions; what was paid for them is in the cache."""
        if self._path is None:
            _LOG.warning("stopping: %d questions are given up", len(entries))
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._append(self._path, [{"stopped_at": time.time(), **entry} for entry in entries])
            _LOG.warning("stopping: %d questions are written to %s", len(entries), self._path)
        except OSError as error:
            _LOG.error("stopping: %d questions could not be written down: %s", len(entries), error.strerror)

    def take_out(self, entry: Mapping[str, Any]) -> None:
        """Remove a question that was cut off once, and is answered now."""
        if not self._open or self._path is None or (answered := _identity(entry)) not in self._open:
            return
        self._open.discard(answered)
        try:
            left = [other for other in self._read() if _identity(other) != answered]
            if left:
                atomic_write(self._path, (_line(other) for other in left), mode=_OWNER_ONLY)
            else:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            _LOG.error("the journal %s cannot be changed: %s", self._path, error.strerror)

    @staticmethod
    def _append(path: Path, entries: Sequence[Mapping[str, Any]]) -> None:
        lines = "".join(_line(entry) for entry in entries)
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, _OWNER_ONLY), "rb+") as file:
            path.chmod(_OWNER_ONLY)  # where it was there before
            complete = not file.seek(0, os.SEEK_END) or (file.seek(-1, os.SEEK_END) >= 0 and file.read(1) == b"\n")
            file.write(("" if complete else "\n").encode() + lines.encode())

    def _read(self) -> list[dict[str, Any]]:
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines() if self._path else []
        except OSError:
            return []
        return [entry for line in lines if (entry := _load(line)) is not None]


def _line(entry: Mapping[str, Any]) -> str:
    return json.dumps(entry) + "\n"


def _load(line: str) -> dict[str, Any] | None:
    """Read a line; a stop that was cut off itself may have left half of one."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _identity(entry: Mapping[str, Any]) -> str:
    return json.dumps([entry.get(name) or None for name in _IDENTITY], sort_keys=True)


@dataclass(slots=True, eq=False)
class _Question:
    """A question that is under way, with the task that asks it and its entry for the journal."""

    task: asyncio.Task[Any]
    entry: dict[str, Any]
    stopped: bool = False


class RunningQuestions:
    """Runs a bounded number of questions; a stop waits for them, then journals and cancels what is left."""

    def __init__(self, limit: int, journal: Journal, *, cached: bool) -> None:
        self._limit = limit
        self._remedy = f"Ask again when it is back{': replies that came are remembered' if cached else ''}."
        self.journal = journal
        self._questions: set[_Question] = set()
        self.stopping = False

    def __len__(self) -> int:
        return len(self._questions)

    def check(self) -> None:
        """Refuse a further question where that is one too many, or the server is about to stop."""
        if self.stopping:
            raise Refusal(503, "Stopped", "The server is stopping.", "Ask again when it is back.", retry_after=5)
        if len(self._questions) >= self._limit:
            cause = f"{self._limit} questions are being answered, and no more are taken at once."
            raise Refusal(429, "Busy", cause, "Wait as long as Retry-After says.", retry_after=1)

    async def run(
        self, work: Awaitable[T], entry: dict[str, Any], answered: Callable[[T], bool] = lambda result: True
    ) -> T:
        """Carry a question through; when the server stops it is refused.

        `answered` tells whether a result takes the question out of the journal.
        """
        task = asyncio.current_task()
        assert task is not None
        question = _Question(task, entry)
        self._questions.add(question)
        try:
            result = await work
            if answered(result):
                self.journal.take_out(entry)
            return result
        except asyncio.CancelledError:
            if not question.stopped:
                raise
            task.uncancel()
            cause = "The server was stopped while it answered."
            raise Refusal(503, "Stopped", cause, self._remedy, retry_after=5) from None
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
        self.journal.write([question.entry for question in left])
        for question in left:
            question.stopped = True
            question.task.cancel()
