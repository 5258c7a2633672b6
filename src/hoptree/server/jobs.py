"""Jobs that change corpora: progress, staging of files, and state on disk."""

from __future__ import annotations

import asyncio
import logging
import shutil
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from hoptree.core.errors import HoptreeError
from hoptree.core.files import atomic_write
from hoptree.core.http_server import log_line
from hoptree.server.error_responses import Refusal, error_body, log_internal_error, refusal_of
from hoptree.server.reply_schemas import ErrorDetail, dataclass_schema
from hoptree.server.resources import ManagedCorpus
from hoptree.server.settings import unknown

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
    """Why a change of a corpus failed, for clients and in files."""

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
    """A change of a corpus, and how far it is."""

    kind: JobKind
    corpus: str
    id: str = field(default_factory=new_job_id)
    state: Literal["running", "done", "failed", "stopped"] = "running"
    done: int = 0  # of `total` bytes or passages
    total: int | None = None
    unit: Literal["bytes", "passages"] = "passages"
    message: str = "waiting"
    passed_over: list[PassedOver] = field(default_factory=list)
    error: Failure | None = None
    left_out: tuple[str, ...] = ()  # files that were in an archive and not taken
    locked: tuple[str, ...] = ()  # those of them with a password

    def succeeded(self, message: str) -> Self:
        """Return the finished job; `message` says what it did."""
        return replace(self, state="done", message=message, done=self.done if self.total is None else self.total)

    def failed(self, error: Failure) -> Self:
        """Return the failed job."""
        return replace(self, state="failed", message=error.cause, error=error)

    def as_dict(self) -> dict[str, Any]:
        """Return the job as clients see it."""
        error = error_body(self.error.refusal())["error"] if self.error else None
        return {**_JOB_JSON.dump_python(self, exclude={"left_out", "locked"}), "error": error}

    def to_json(self) -> str:
        """Return the job as it is stored in a file."""
        return _JOB_JSON.dump_json(self, exclude={"left_out", "locked"}).decode()

    @staticmethod
    def from_json(text: bytes) -> Job:
        return _JOB_JSON.validate_json(text)


_JOB_JSON = TypeAdapter(Job)
JobReply = dataclass_schema(
    "JobReply",
    "A change of a corpus, and how far it is.",
    Job,
    always=Job("add", "").as_dict(),
    without=("left_out", "locked"),
    error=ErrorDetail | None,
)


class Jobs:
    """The jobs of a server: one at a time for a corpus."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._held: set[str] = set()
        self.turn = asyncio.Semaphore(_MAX_BUSY_JOBS)  # held during the part of a job that keeps a processor busy

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
        """Refuse a change of a corpus that is already being changed."""
        if self.of(corpus) or corpus in self._held:
            cause = f"The corpus '{corpus}' is being changed."
            raise Refusal(409, "Busy", cause, "Wait for its job to be done.", retry_after=2)

    @contextmanager
    def hold(self, corpus: str) -> Iterator[None]:
        """Reserve a free corpus until the job of its change has begun."""
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
        """Begin a job on a held or free corpus; `work` returns a sentence on the outcome."""
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
        """Stop running jobs, which the next start resumes."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


_INCOMING = ".incoming"
_REMOVED = ".removed"


class Stage(StrEnum):
    """The stage of a change."""

    PLACING = "placing"
    INDEXING = "indexing"
    UNDOING = "undoing"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class Change:
    """What a change does to the documents of a corpus, by file names."""

    kind: JobKind
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()  # old versions, in `replaced/` until the change is settled
    stage: Stage = Stage.PLACING
    tries: int = 0  # how often indexing was begun
    stale: bool = False  # the index may no longer match the documents before the change
    resumed: bool = False  # by the server itself: the client has seen no failure, so it may be tried again
    left_out: tuple[str, ...] = ()
    locked: tuple[str, ...] = ()
    job: str = ""  # the id of its job
    failure: Failure | None = None  # why it is undone

    def begun(self) -> Self:
        """Return the change with one more try, after which the index may be stale."""
        return replace(self, tries=self.tries + 1, stale=True)

    def stopped(self) -> Self:
        """Return the change without the last try, which a stop of the server ended."""
        return replace(self, tries=self.tries - 1)

    def write(self, corpus: ManagedCorpus) -> None:
        """Write the change to `pending`, atomically."""
        atomic_write(corpus.pending, [_CHANGE_JSON.dump_json(self).decode()])

    @classmethod
    def read(cls, corpus: ManagedCorpus) -> Change | None:
        """Read the pending change, if any; a damaged file means to restore old versions.

        OSError means that the file cannot be read now, for instance because too many are open.
        """
        try:
            return _CHANGE_JSON.validate_json(corpus.pending.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError:
            kept = (path.relative_to(corpus.replaced) for path in corpus.replaced.rglob("*") if path.is_file())
            return cls("add", kept=tuple(path.as_posix() for path in kept), stage=Stage.UNDOING, stale=True)


_CHANGE_JSON = TypeAdapter(Change)


def incoming(folder: Path, name: str) -> ManagedCorpus:
    """Return a new folder for the documents of an upload, below that of the corpora."""
    return ManagedCorpus(name, folder / _INCOMING / uuid.uuid4().hex)


def clear_leftovers(folder: Path) -> None:
    """Remove uploads that an earlier server had not begun, and removed corpora."""
    for leftover in (_INCOMING, _REMOVED):
        remove(folder / leftover)


def hide(corpus: ManagedCorpus) -> Path:
    """Hide a corpus atomically; return the folder that is left to be removed."""
    away = corpus.folder.parent / _REMOVED / uuid.uuid4().hex
    away.parent.mkdir(exist_ok=True)
    corpus.folder.rename(away)
    return away


def remove(folder: Path) -> None:
    """Remove a folder if it exists; the next start removes what is left."""
    shutil.rmtree(folder, ignore_errors=True)


def place(corpus: ManagedCorpus, change: Change, staged: ManagedCorpus | None) -> Change:
    """Move documents out and in, after writing how to undo it; undo a failure."""
    named = (*change.added, *change.removed)
    change = replace(change, kept=tuple(name for name in named if (corpus.documents / name).is_file()))
    try:
        remove(corpus.replaced)  # left by a change that was settled
        change.write(corpus)
        for name in change.kept:
            _move(corpus.documents / name, corpus.replaced / name)
        for name in change.added:
            assert staged is not None
            _move(staged.documents / name, corpus.documents / name)
        _drop_empty_folders(corpus, change.removed)
        placed = replace(change, stage=Stage.INDEXING)
        placed.write(corpus)
    except Exception:
        undo(corpus, change)
        raise
    return placed


def undo(corpus: ManagedCorpus, change: Change) -> bool:
    """Restore documents, or remove a new corpus; return whether its index is stale.

    It can be repeated after an interruption: restored documents are no longer in `replaced/`.
    """
    if change.stage is Stage.UNDONE:
        return True
    if change.kind == "create":
        remove(hide(corpus))
        return False
    if change.stage is Stage.INDEXING:  # from here on the documents are a mix of old and new
        change = replace(change, stage=Stage.UNDOING)
        change.write(corpus)
    new = set(change.added) - set(change.kept)
    for name in new:
        (corpus.documents / name).unlink(missing_ok=True)
    for name in change.kept:
        _move(corpus.replaced / name, corpus.documents / name)
    _drop_empty_folders(corpus, new)
    if not change.stale:
        settle(corpus)
        return False
    replace(change, stage=Stage.UNDONE).write(corpus)
    return True


def undo_pending(corpus: ManagedCorpus) -> bool:
    """Undo an unfinished change, if any; return whether the index may be stale."""
    change = Change.read(corpus)
    return change is not None and undo(corpus, change)


def settle(corpus: ManagedCorpus) -> None:
    """End a change whose index matches the documents: drop its notes and old versions."""
    corpus.pending.unlink(missing_ok=True)
    remove(corpus.replaced)


def _move(path: Path, to: Path) -> None:
    """Move a file if it exists; an empty folder in its place is removed."""
    if path.is_file():
        to.parent.mkdir(parents=True, exist_ok=True)
        if to.is_dir():
            shutil.rmtree(to)
        path.replace(to)


def _drop_empty_folders(corpus: ManagedCorpus, names: Iterable[str]) -> None:
    """Remove the folders that are empty without these files."""
    for name in names:
        for folder in (corpus.documents / name).parents:
            if folder == corpus.documents:
                break
            with suppress(OSError):  # not empty
                folder.rmdir()
