"""Atomic changes of corpora over HTTP: create, add, remove.

The file `pending` in the folder of a corpus describes an unfinished change (see `jobs.py`). The next start of the
server, or the next change of the corpus, resumes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from starlette.datastructures import UploadFile

from hoptree.core.errors import CorpusError
from hoptree.core.files import atomic_write
from hoptree.server import jobs as staging
from hoptree.server.error_responses import Refusal, refusal_of, refuse_when_disk_full
from hoptree.server.indexing import IndexBusy, Postponed, run_indexing, wait_until_free
from hoptree.server.jobs import Change, Failure, Job, JobKind, Jobs, Stage, new_job_id
from hoptree.server.resources import Corpora, ManagedCorpus
from hoptree.server.settings import Limits, check_name
from hoptree.server.uploads import Names, UploadFolder

Args = TypeVarTuple("Args")
T = TypeVar("T")
_LOG = logging.getLogger("hoptree.server")
_MAKE_ROOM = "Remove some, or make another corpus."
_MAX_UNPACKING = 2  # uploads unpacked at the same time: each takes a thread, and most of a processor
_MAX_TRIES = 3  # failures of indexing that are not about the files, before the change is undone
_MAX_ROUNDS = 3  # how often another process may take the index first


async def run_to_completion(work: Callable[[*Args], T], *args: *Args, give_up: Callable[[], None] | None = None) -> T:
    """Run `work` in a thread to its end; `give_up` asks a cancelled one to end early."""
    running = asyncio.ensure_future(asyncio.to_thread(work, *args))
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
            if give_up is not None:
                give_up()
    if cancelled is not None:
        running.exception()  # mark it as retrieved, or asyncio logs it
        raise cancelled
    return running.result()


def write_outcome(corpus: ManagedCorpus, job: Job) -> None:
    """Write how a job has ended to a file, which outlives the server."""
    try:
        atomic_write(corpus.outcome, [job.to_json()])
    except OSError as error:
        _LOG.warning("the outcome of a job of corpus %s cannot be kept: %s", corpus.name, error.strerror)


def read_outcome(corpus: ManagedCorpus) -> Job | None:
    """Return the last job of a corpus that has ended, or None."""
    try:
        job = Job.from_json(corpus.outcome.read_bytes())
    except (OSError, ValueError):
        return None
    return job if job.corpus == corpus.name else None  # else the folder was copied


@dataclass(frozen=True, slots=True)
class CorpusService:
    """Changes corpora in jobs; `forget` closes a corpus before it is removed."""

    corpora: Corpora
    forget: Callable[[str], None]
    jobs: Jobs
    limits: Limits
    _unpacking: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_UNPACKING))

    async def create(self, name: str, files: Sequence[UploadFile]) -> Job:
        """Make a new corpus of uploaded files."""
        check_name(name)
        corpus = ManagedCorpus(name, self._folder() / name)
        self.jobs.check(name)
        self._check_new(name)
        async with self._staged(name, files) as (staged, upload, sizes):
            with self.jobs.hold(name), refuse_when_disk_full():
                change = replace(_upload_change("create", upload), stage=Stage.INDEXING)
                await run_to_completion(self._check_fits, corpus, change, sizes)
                await run_to_completion(change.write, staged)
                self._check_new(name)  # nothing can run between this and the next line
                staged.folder.rename(corpus.folder)
                return self._start(corpus, change)

    async def add(self, name: str, files: Sequence[UploadFile]) -> Job:
        """Add files, or new versions of files, to a corpus made over HTTP."""
        self._changeable(name)
        async with self._staged(name, files) as (staged, upload, sizes):
            # Checked again: another change may have begun during the upload.
            return await self._begin(self._changeable(name), _upload_change("add", upload), staged, sizes)

    async def remove_document(self, name: str, document: str) -> Job:
        """Remove a file from a corpus made over HTTP."""
        change = Change("remove", removed=(document,), job=new_job_id())
        return await self._begin(self._changeable(name), change, None, {})

    async def remove(self, name: str) -> None:
        """Remove a corpus made over HTTP, with all its files."""
        corpus = self.corpora.own(name)
        with self.jobs.hold(name):
            folder = staging.hide(corpus)
            self.forget(name)
            await run_to_completion(staging.remove, folder)

    def resume(self) -> None:
        """Resume the changes of an earlier server; remove uploads it had not begun."""
        if self.corpora.folder is None:
            return
        staging.clear_leftovers(self.corpora.folder)
        for corpus in self.corpora.managed():
            if job := read_outcome(corpus):
                self.jobs.remember(job)
            try:
                change = Change.read(corpus)
            except OSError as error:
                _LOG.error("the pending change of corpus %s cannot be read: %s", corpus.name, error.strerror)
                continue
            if change is not None:
                self._start(corpus, replace(change, resumed=True))
            else:
                staging.remove(corpus.replaced)  # left by a change that was settled

    def _folder(self) -> Path:
        if self.corpora.folder is None:
            remedy = "Start it with --corpora DIR, a folder for them."
            raise Refusal(403, "NoCorpora", "This server takes no uploads.", remedy)
        self.corpora.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.corpora.folder

    def _changeable(self, name: str) -> ManagedCorpus:
        """Return a corpus made over HTTP; refuse, and resume, an unfinished change of it."""
        corpus = self.corpora.own(name)
        self.jobs.check(name)
        change = Change.read(corpus)
        if change is not None and change.stage is Stage.INDEXING:
            self._start(corpus, replace(change, resumed=True))
            cause = f"An earlier change of the corpus '{name}' is not indexed yet, and is tried again now."
            remedy = "Wait for its job to end, then send this again."
            raise Refusal(409, "Unfinished", cause, remedy, retry_after=2)
        return corpus

    def _check_new(self, name: str) -> None:
        if self.corpora.taken(name):
            cause = f"There is a corpus '{name}' already."
            raise Refusal(409, "NameTaken", cause, "Choose another name, or add to it.")
        if len(self.corpora.managed()) >= self.limits.corpora:
            cause = f"There are {self.limits.corpora} corpora, and no more may be made."
            raise Refusal(409, "TooMany", cause, "Remove one.")

    @asynccontextmanager
    async def _staged(
        self, name: str, files: Sequence[UploadFile]
    ) -> AsyncIterator[tuple[ManagedCorpus, UploadFolder, dict[str, int]]]:
        """Store uploaded files in a temporary folder, removed at the end; yield sizes too."""
        staged = staging.incoming(self._folder(), name)
        upload = UploadFolder(staged.documents, self.limits)

        def store() -> dict[str, int]:
            staged.documents.mkdir(parents=True)
            for file in files:
                upload.add(file.filename or "", file.file)
            upload.check_filled()
            return {name: (staged.documents / name).stat().st_size for name in upload.names}

        try:
            async with self._unpacking:
                with refuse_when_disk_full():
                    sizes = await run_to_completion(store, give_up=upload.give_up)
            yield staged, upload, sizes
        finally:
            await run_to_completion(staging.remove, staged.folder)

    async def _begin(
        self, corpus: ManagedCorpus, change: Change, staged: ManagedCorpus | None, sizes: Mapping[str, int]
    ) -> Job:
        """Put the documents in place, and start the job that indexes them."""

        def place_documents() -> Change:
            stale = staging.undo_pending(corpus)  # an earlier change that could not be undone at the time
            self._check_fits(corpus, change, sizes)
            return staging.place(corpus, replace(change, stale=stale), staged)

        with self.jobs.hold(corpus.name):
            try:
                with refuse_when_disk_full():
                    placed = await run_to_completion(place_documents)
            except asyncio.CancelledError:
                await run_to_completion(staging.undo_pending, corpus)
                raise
            return self._start(corpus, placed)

    def _check_fits(self, corpus: ManagedCorpus, change: Change, sizes: Mapping[str, int]) -> None:
        """Refuse a change that leaves a corpus empty or too large, or names that clash."""
        before = dict(corpus.files())
        if any(name not in before for name in change.removed):
            raise Refusal(404, "NotFound", "The corpus has no such document.", "GET its documents for their ids.")
        after = {name: size for name, size in before.items() if name not in change.removed} | dict(sizes)
        if not after:
            raise Refusal(409, "LastDocument", "That would leave the corpus empty.", "Remove the corpus instead.")
        passages = corpus.passages()
        if change.removed and not any(passages.get(name, 1) for name in after):
            cause = "That would leave nothing in the corpus that can be read."
            raise Refusal(409, "LastDocument", cause, "Remove the corpus instead, or add to it first.")
        if change.added and len(after) > self.limits.files:
            raise Refusal(413, "TooMany", f"A corpus may hold {self.limits.files:,} files.", _MAKE_ROOM)
        if change.added and sum(after.values()) > self.limits.stored:
            raise Refusal(413, "TooLarge", f"A corpus may hold {self.limits.stored:,} bytes of files.", _MAKE_ROOM)
        names = Names(before)
        for name in change.added:
            names.check_beside(name)

    def _start(self, corpus: ManagedCorpus, change: Change) -> Job:
        is_free = change.job and not self.jobs.is_running(change.job)  # a copied corpus has the job id of the original
        name = change.job if is_free else new_job_id()
        job = Job(change.kind, corpus.name, name, left_out=change.left_out, locked=change.locked)
        return self.jobs.start(job, lambda job: self._carry_out(corpus, change, job))

    async def _carry_out(self, corpus: ManagedCorpus, change: Change, job: Job) -> str:
        """Finish a change from any stage: index it, or undo it."""
        failure: Exception | None = change.failure.refusal() if change.failure else None
        if change.stage is Stage.INDEXING:
            try:
                if change.tries >= _MAX_TRIES:
                    cause = f"Indexing was begun {_MAX_TRIES} times, and did not finish."
                    remedy = "Upload less at once; what was there is as it was."
                    raise Refusal(500, "IndexingDied", cause, remedy)
                message = await self._index(corpus, job, change)
            except Exception as error:  # a stop is a CancelledError, which is not caught here: it is resumed
                failure, change = error, replace(change.begun(), failure=Failure.of(refusal_of(error)))
                assert change.failure is not None
                if _is_retried(error, change):
                    raise
                await run_to_completion(write_outcome, corpus, job.failed(change.failure))
            else:
                await run_to_completion(write_outcome, corpus, job.succeeded(message))
                await run_to_completion(staging.settle, corpus)
                return message
        message = await self._undo(corpus, change, job, failure)
        if failure is not None:
            raise failure
        return message

    async def _undo(self, corpus: ManagedCorpus, change: Change, job: Job, failure: Exception | None) -> str:
        """Undo a change, and bring the index up to date with the documents as they were."""
        stale = await run_to_completion(staging.undo, corpus, change)
        if change.kind == "create":
            self.forget(corpus.name)
        if not stale:
            return "the unfinished change is undone"
        try:
            message = await self._index(corpus, job)
        except Exception as error:
            if failure is None:
                raise
            # The client hears why its change failed; the next change or start brings the index up to date.
            _LOG.warning("corpus %s is not indexed as it was: %s", corpus.name, refusal_of(error).kind)
            return ""
        await run_to_completion(staging.settle, corpus)
        return message

    async def _index(self, corpus: ManagedCorpus, job: Job, change: Change | None = None) -> str:
        """Update the index once no other process writes it; count a try of `change`."""
        begun = change.begun() if change else None
        for _ in range(_MAX_ROUNDS):
            await wait_until_free(corpus.index, job)
            async with self.jobs.turn:
                try:
                    if begun is not None:
                        await run_to_completion(begun.write, corpus)
                    return await run_indexing(corpus, self.limits, job, change.added if change else ())
                except IndexBusy:
                    if change is not None:
                        await run_to_completion(change.write, corpus)
                except asyncio.CancelledError:
                    if begun is not None:
                        begun.stopped().write(corpus)
                    raise
        raise Postponed()


def _is_retried(error: Exception, change: Change) -> bool:
    """Return whether to try a change again, as its files may not be at fault."""
    if isinstance(error, Postponed):
        return True
    of_files = isinstance(error, Refusal) and error.kind == CorpusError.__name__
    return not of_files and change.resumed and change.tries < _MAX_TRIES


def _upload_change(kind: JobKind, upload: UploadFolder) -> Change:
    left_out, locked = tuple(upload.left_out), tuple(upload.locked)
    return Change(kind, tuple(upload.names), left_out=left_out, locked=locked, job=new_job_id())
