"""Changes of corpora that go on after their request was answered, and how far they are."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from hoptree.core.errors import HoptreeError
from hoptree.core.http_server import log_line
from hoptree.server.error_responses import Refusal, error_body, log_internal_error, refusal_of
from hoptree.server.names import unknown
from hoptree.server.reply_schemas import ErrorDetail, dataclass_schema

_LOG = logging.getLogger("hoptree.server")
_MAX_ENDED_JOBS = 200
_MAX_BUSY_JOBS = 2
JobKind = Literal["create", "add", "remove"]


class PassedOver(TypedDict):
    """A file that was not read, or not wholly."""

    file: str
    cause: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a change of a corpus failed, as its client sees it and as it is written to files."""

    status: int
    kind: str
    cause: str
    remedy: str

    @classmethod
    def of(cls, refusal: Refusal) -> Self:
        return cls(refusal.status, refusal.kind, refusal.cause, refusal.remedy)

    def refusal(self) -> Refusal:
        return Refusal(self.status, self.kind, self.cause, self.remedy)


def new_job_id() -> str:
    return uuid.uuid4().hex[:16]


@dataclass(slots=True, eq=False)
class Job:
    """A change of a corpus, and how far it is; `done` of `total` are bytes or passages, as `message` says.

    `left_out` lists files that were in an archive and not taken.
    """

    kind: JobKind
    corpus: str
    id: str = field(default_factory=new_job_id)
    state: Literal["running", "done", "failed", "stopped"] = "running"
    done: int = 0
    total: int | None = None
    message: str = "waiting"
    passed_over: list[PassedOver] = field(default_factory=list)
    error: Failure | None = None
    left_out: tuple[str, ...] = ()

    def succeeded(self, message: str) -> Self:
        """Return the job as it is once it is done; `message` says what it did."""
        return replace(self, state="done", message=message, done=self.done if self.total is None else self.total)

    def failed(self, error: Failure) -> Self:
        """Return the job as it is once it has failed."""
        return replace(self, state="failed", message=error.cause, error=error)

    def as_dict(self) -> dict[str, Any]:
        """Return the job as clients see it."""
        error = error_body(self.error.refusal())["error"] if self.error else None
        return {**_JOB_JSON.dump_python(self, exclude={"left_out"}), "error": error}

    def to_json(self) -> str:
        """Return the job as it is kept in a file."""
        return _JOB_JSON.dump_json(self, exclude={"left_out"}).decode()

    @staticmethod
    def from_json(text: bytes) -> Job:
        return _JOB_JSON.validate_json(text)


_JOB_JSON = TypeAdapter(Job)
JobReply = dataclass_schema(
    "JobReply",
    "A change of a corpus, and how far it is.",
    Job,
    always=Job("add", "").as_dict(),
    without=("left_out",),
    error=ErrorDetail | None,
)


class Jobs:
    """The jobs of a server: one at a time for a corpus.

    `turn` is held during the part of a job that keeps a processor busy: two at a time in all.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._held: set[str] = set()
        self.turn = asyncio.Semaphore(_MAX_BUSY_JOBS)

    def find(self, job_id: str) -> Job:
        if job_id not in self._jobs:
            raise unknown("job", job_id, (), status=404)
        return self._jobs[job_id]

    def of(self, corpus: str) -> Job | None:
        """Return the job that is under way for a corpus."""
        return next((job for job in self._jobs.values() if job.corpus == corpus and job.state == "running"), None)

    def is_running(self, job_id: str) -> bool:
        return job_id in self._tasks

    def running(self) -> int:
        return len(self._tasks)

    def check(self, corpus: str) -> None:
        """Refuse a change of a corpus that is being changed."""
        if self.of(corpus) or corpus in self._held:
            cause = f"The corpus '{corpus}' is being changed."
            raise Refusal(409, "Busy", cause, "Wait for its job to be done.", retry_after=2)

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
        """Keep a job that ended before the server was started."""
        self._jobs[job.id] = job

    def start(self, job: Job, work: Callable[[Job], Awaitable[str]]) -> Job:
        """Begin a job on a corpus that is held or free; `work` returns a sentence about what it did."""
        self._jobs[job.id] = job
        for ended in [job_id for job_id, known in self._jobs.items() if known.state != "running"][:-_MAX_ENDED_JOBS]:
            del self._jobs[ended]
        task = asyncio.get_running_loop().create_task(self._run(job, work))
        self._tasks[job.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(job.id, None))
        return job

    async def _run(self, job: Job, work: Callable[[Job], Awaitable[str]]) -> None:
        try:
            self._jobs[job.id] = job.succeeded(await work(job))
        except asyncio.CancelledError:
            job.state, job.message = "stopped", "goes on when the server is back"
        except Exception as error:
            if not isinstance(error, HoptreeError):
                log_internal_error(error)
            failure = Failure.of(refusal_of(error))
            self._jobs[job.id] = job.failed(failure)
            why = f"{failure.kind}: {log_line(failure.cause)}"
            _LOG.warning("job %s (%s) of corpus %s failed: %s", job.id, job.kind, job.corpus, why)

    async def aclose(self) -> None:
        """End what runs; it is taken up at the next start."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
