"""Work that goes on after its request was answered, and how far it is."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self

from hoptree.core.errors import HoptreeError
from hoptree.core.http_server import log_line
from hoptree.server.error_responses import Refusal, error_body, log_internal_error, refusal_of
from hoptree.server.names import unknown

_LOG = logging.getLogger("hoptree.server")
_REMEMBERED = 200
_AT_ONCE = 2


def new_job_id() -> str:
    return uuid.uuid4().hex[:16]


@dataclass(slots=True, eq=False)
class Job:
    """One change of a corpus; `done` of `total` are bytes or passages, as `message` says.

    `passed_over` tells of uploaded files that were not read, or not wholly: `file`, `cause` and `remedy`; `left_out`
    was in an archive and not taken.
    """

    kind: str
    corpus: str
    id: str = field(default_factory=new_job_id)
    state: str = "running"
    done: int = 0
    total: int | None = None
    message: str = "waiting"
    passed_over: list[dict[str, str]] = field(default_factory=list)
    error: Refusal | None = None
    left_out: tuple[str, ...] = ()

    def succeeded(self, message: str) -> Self:
        """The job as it is once it is done, with what it did in words."""
        return replace(self, state="done", message=message, done=self.done if self.total is None else self.total)

    def failed(self, error: Refusal) -> Self:
        """The job as it is once it has failed."""
        return replace(self, state="failed", message=error.cause, error=error)

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": self.kind,
            "corpus": self.corpus,
            "state": self.state,
            "done": self.done,
            "total": self.total,
            "message": self.message,
            "passed_over": self.passed_over,
            "error": error_body(self.error)["error"] if self.error else None,
        }


class Jobs:
    """The jobs of a server: one at a time for a corpus.

    `turn` is for the part of a job that keeps a processor busy: two at a time in all.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._held: set[str] = set()
        self.turn = asyncio.Semaphore(_AT_ONCE)

    def find(self, name: str) -> Job:
        if name not in self._jobs:
            raise unknown("job", name, (), status=404)
        return self._jobs[name]

    def of(self, corpus: str) -> Job | None:
        """The job that is under way for a corpus."""
        return next((job for job in self._jobs.values() if job.corpus == corpus and job.state == "running"), None)

    def is_running(self, name: str) -> bool:
        return name in self._tasks

    def running(self) -> int:
        return len(self._tasks)

    def check(self, corpus: str) -> None:
        if self.of(corpus) or corpus in self._held:
            raise Refusal(
                409, "Busy", f"The corpus '{corpus}' is being changed.", "Wait for its job to be done.", retry_after=2
            )

    @contextmanager
    def hold(self, corpus: str) -> Iterator[None]:
        """Keep others from a corpus that is free, until the job of its change has begun."""
        self.check(corpus)
        self._held.add(corpus)
        try:
            yield
        finally:
            self._held.discard(corpus)

    def remember(self, job: Job) -> None:
        """A job that ended before the server was started."""
        self._jobs[job.id] = job

    def start(self, job: Job, work: Callable[[Job], Awaitable[str]]) -> Job:
        """Begin with a job; `work` returns what it did in words. Hold the corpus, or check that it is free."""
        self._jobs[job.id] = job
        for name in [name for name, old in self._jobs.items() if old.state != "running"][:-_REMEMBERED]:
            del self._jobs[name]
        task = asyncio.get_running_loop().create_task(self._run(job, work))
        self._tasks[job.id] = task
        task.add_done_callback(lambda done: self._tasks.pop(job.id, None))
        return job

    async def _run(self, job: Job, work: Callable[[Job], Awaitable[str]]) -> None:
        try:
            self._jobs[job.id] = job.succeeded(await work(job))
        except asyncio.CancelledError:
            job.state, job.message = "stopped", "goes on when the server is back"
        except Exception as error:
            if not isinstance(error, HoptreeError):
                log_internal_error(error)
            refusal = refusal_of(error)
            self._jobs[job.id] = job.failed(refusal)
            why = f"{refusal.kind}: {log_line(refusal.cause)}"
            _LOG.warning("job %s (%s) of corpus %s failed: %s", job.id, job.kind, job.corpus, why)

    async def aclose(self) -> None:
        """End what runs; it is taken up at the next start."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
