"""Making, changing and removing the corpora of clients: each change happens as a whole, or not at all.

`pending` in the folder of a corpus says what is being done (see `pending.py`): a server that was killed in between goes
on from there, and so does the next change of a corpus where an earlier one came to no end.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from starlette.datastructures import UploadFile

from hoptree.core.errors import CorpusError
from hoptree.core.files import atomic_write
from hoptree.server.corpora import Corpora, ManagedCorpus
from hoptree.server.error_responses import Refusal, refusal_of, refuse_when_disk_full
from hoptree.server.indexing import IndexBusy, Postponed, run_indexing, wait_until_free
from hoptree.server.jobs import Job, Jobs, new_job_id
from hoptree.server.limits import Limits
from hoptree.server.names import check_name
from hoptree.server.staging import (
    Change,
    Failure,
    Stage,
    clear_leftovers,
    hide,
    incoming,
    note_whole,
    place,
    remove,
    settle,
    undo,
)
from hoptree.server.uploads import Names, Staging, check_file_name

Given = TypeVarTuple("Given")
T = TypeVar("T")


async def run_to_completion(
    work: Callable[[*Given], T], *given: *Given, give_up: Callable[[], None] | None = None
) -> T:
    """What `work` returns; a cancellation holds once it has ended, for until then it uses files and a place.

    `give_up` tells work that takes long that nobody wants it any more.
    """
    running = asyncio.ensure_future(asyncio.to_thread(work, *given))
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
            if give_up is not None:
                give_up()
    if cancelled is not None:
        running.exception()  # nobody is left to be told
        raise cancelled
    return running.result()


def write_outcome(corpus: ManagedCorpus, job: Job) -> None:
    """Write down how a job has ended; without that it is known until the server's next start."""
    told = job.as_dict() | {"error": asdict(Failure.of(job.error)) if job.error else None}
    try:
        atomic_write(corpus.outcome, [json.dumps(told)])
    except OSError as error:
        _LOG.warning("the outcome of a job of corpus %s cannot be kept: %s", corpus.name, error.strerror)


def read_outcome(corpus: ManagedCorpus) -> Job | None:
    """The last job of a corpus that has ended, as far as that is known."""
    try:
        data = json.loads(corpus.outcome.read_text(encoding="utf-8"))
        if data["corpus"] != corpus.name:  # it was copied
            return None
        failure = Failure.read(data["error"])
        return Job(
            str(data["kind"]),
            corpus.name,
            str(data["id"]),
            state="failed" if failure else "done",
            done=int(data["done"]),
            total=None if data["total"] is None else int(data["total"]),
            message=str(data["message"]),
            passed_over=[{part: str(one[part]) for part in ("file", "cause", "remedy")} for one in data["passed_over"]],
            error=failure.refusal() if failure else None,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


_LOG = logging.getLogger("hoptree.server")
_MAKE_ROOM = "Remove some, or make another corpus."
_AT_ONCE = 2
"""Uploads that are unpacked at the same time: each takes a thread, and most of a processor."""
_TRIES = 3
"""How often indexing may be begun that ends by no fault that is seen in the files; then the change is undone."""
_ROUNDS = 3
"""How often another process may be quicker in taking an index that was free a moment ago."""


@dataclass(frozen=True, slots=True)
class CorpusService:
    """Changes corpora, one job each; `forget` lets go of one that is to be removed."""

    corpora: Corpora
    forget: Callable[[str], None]
    jobs: Jobs
    limits: Limits
    _turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def create(self, name: str, files: Sequence[UploadFile]) -> Job:
        """A new corpus of uploaded files."""
        check_name(name)
        corpus = ManagedCorpus(name, self._folder() / name)
        self.jobs.check(name)
        self._check_new(name)
        async with self._staged(name, files) as (staged, staging, sizes):
            with self.jobs.hold(name), refuse_when_disk_full():
                change = _new("create", staging)
                await run_to_completion(self._check_fits, corpus, change, sizes)
                change = await run_to_completion(note_whole, staged, change)
                self._check_new(name)  # nobody comes between this and the next line
                staged.folder.rename(corpus.folder)
                return self._start(corpus, change)

    async def add(self, name: str, files: Sequence[UploadFile]) -> Job:
        """Further files, or new versions of some, for a corpus made here."""
        self._changeable(name)
        async with self._staged(name, files) as (staged, staging, sizes):
            # Files were received meanwhile, and others may have been quicker.
            return await self._begin(self._changeable(name), _new("add", staging), staged, sizes)

    async def remove_document(self, name: str, document: str) -> Job:
        """Take a file out of a corpus made here."""
        change = Change("remove", removed=(check_file_name(document),), job=new_job_id())
        return await self._begin(self._changeable(name), change)

    async def remove(self, name: str) -> None:
        """Remove a corpus made here with all that is in it."""
        corpus = self.corpora.own(name)
        with self.jobs.hold(name):
            folder = hide(corpus)
            self.forget(name)
            await run_to_completion(remove, folder)

    def take_up(self) -> None:
        """Go on with what an earlier server was doing; throw away what it had not begun."""
        if self.corpora.folder is None:
            return
        clear_leftovers(self.corpora.folder)
        for corpus in self.corpora.managed():
            if job := read_outcome(corpus):
                self.jobs.remember(job)
            try:
                change = Change.read(corpus)
            except OSError as error:
                _LOG.error("what is pending of corpus %s cannot be read: %s", corpus.name, error.strerror)
                continue
            if change is not None:
                self._start(corpus, replace(change, resumed=True))
            else:
                remove(corpus.replaced)  # of a change that was settled but for that

    def _folder(self) -> Path:
        if self.corpora.folder is None:
            raise Refusal(
                403, "NoCorpora", "This server takes no uploads.", "Start it with --corpora DIR, a folder for them."
            )
        self.corpora.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.corpora.folder

    def _changeable(self, name: str) -> ManagedCorpus:
        """A corpus made here that nothing is being done to; a change of it that came to no end is tried again first."""
        corpus = self.corpora.own(name)
        self.jobs.check(name)
        change = Change.read(corpus)
        if change is not None and change.stage is Stage.INDEXING:
            self._start(corpus, replace(change, resumed=True))
            raise Refusal(
                409,
                "Unfinished",
                f"An earlier change of the corpus '{name}' is not indexed yet, and is tried again now.",
                "Wait for its job to end, then send this again.",
                retry_after=2,
            )
        return corpus

    def _check_new(self, name: str) -> None:
        if self.corpora.taken(name):
            raise Refusal(
                409, "NameTaken", f"There is a corpus '{name}' already.", "Choose another name, or add to it."
            )
        if len(self.corpora.managed()) >= self.limits.corpora:
            raise Refusal(
                409, "TooMany", f"There are {self.limits.corpora} corpora, and no more may be made.", "Remove one."
            )

    @asynccontextmanager
    async def _staged(
        self, name: str, files: Sequence[UploadFile]
    ) -> AsyncIterator[tuple[ManagedCorpus, Staging, dict[str, int]]]:
        """Uploaded files in a folder of their own, with their sizes; what is not taken from there goes at the end."""
        staged = incoming(self._folder(), name)
        staging = Staging(staged.documents, self.limits)

        def put() -> dict[str, int]:
            staged.documents.mkdir(parents=True)
            for file in files:
                staging.take(file.filename or "", file.file)
            if not staging.names:
                cause = "Only hidden files were uploaded." if staging.left_out else "No file was uploaded."
                raise Refusal(400, "NoFiles", cause, "Send one or more as 'files'.")
            return {name: (staged.documents / name).stat().st_size for name in staging.names}

        try:
            async with self._turn:
                with refuse_when_disk_full():
                    sizes = await run_to_completion(put, give_up=staging.give_up)
            yield staged, staging, sizes
        finally:
            await run_to_completion(remove, staged.folder)

    async def _begin(
        self,
        corpus: ManagedCorpus,
        change: Change,
        staged: ManagedCorpus | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> Job:
        """Put the documents in place, and start the job that indexes them."""
        with self.jobs.hold(corpus.name):
            try:
                with refuse_when_disk_full():
                    placed = await run_to_completion(self._place, corpus, change, staged, sizes or {})
            except asyncio.CancelledError:
                await run_to_completion(_undo_what_is_pending, corpus)
                raise
            return self._start(corpus, placed)

    def _place(
        self, corpus: ManagedCorpus, change: Change, staged: ManagedCorpus | None, sizes: Mapping[str, int]
    ) -> Change:
        """Put the documents in place, once those of an earlier change that could not be undone are back in theirs."""
        stale = _undo_what_is_pending(corpus)
        self._check_fits(corpus, change, sizes)
        return place(corpus, replace(change, stale=stale), staged)

    def _check_fits(self, corpus: ManagedCorpus, change: Change, sizes: Mapping[str, int]) -> None:
        """Refuse a change after which the corpus would be too large, or empty, or a file a folder as well."""
        before = dict(corpus.files())
        if any(name not in before for name in change.removed):
            raise Refusal(404, "NotFound", "The corpus has no such document.", "GET its documents for their ids.")
        after = {name: size for name, size in before.items() if name not in change.removed} | dict(sizes)
        if not after:
            raise Refusal(409, "LastDocument", "That would leave the corpus empty.", "Remove the corpus instead.")
        known = corpus.passages()
        if change.removed and not any(known.get(name, 1) for name in after):
            raise Refusal(
                409,
                "LastDocument",
                "That would leave nothing in the corpus that can be read.",
                "Remove the corpus instead, or add to it first.",
            )
        if change.added and len(after) > self.limits.files:
            raise Refusal(413, "TooMany", f"A corpus may hold {self.limits.files:,} files.", _MAKE_ROOM)
        if change.added and sum(after.values()) > self.limits.stored:
            raise Refusal(413, "TooLarge", f"A corpus may hold {self.limits.stored:,} bytes of files.", _MAKE_ROOM)
        names = Names(before)
        for name in change.added:
            names.check_beside(name)

    def _start(self, corpus: ManagedCorpus, change: Change) -> Job:
        known = change.job and not self.jobs.is_running(change.job)  # a corpus that was copied brings its note along
        job = Job(change.kind, corpus.name, change.job if known else new_job_id(), left_out=change.left_out)
        return self.jobs.start(job, lambda job: self._carry_out(corpus, change, job))

    async def _carry_out(self, corpus: ManagedCorpus, change: Change, job: Job) -> str:
        """Bring a change to its end from wherever it is: indexed, or undone."""
        failure: Exception | None = change.failure.refusal() if change.failure else None
        if change.stage is Stage.INDEXING:
            try:
                if change.tries >= _TRIES:
                    raise _given_up()
                said = await self._index(corpus, job, change)
            except Exception as error:  # a stop, which is none, leaves it to be taken up
                told = refusal_of(error)
                failure, change = error, replace(change.begun(), failure=Failure.of(told))
                if _is_kept(error, change):
                    raise
                await run_to_completion(write_outcome, corpus, job.failed(told))
            else:
                await run_to_completion(write_outcome, corpus, job.succeeded(said))
                await run_to_completion(settle, corpus)
                return said
        said = await self._undo(corpus, change, job, failure)
        if failure is not None:
            raise failure
        return said

    async def _undo(self, corpus: ManagedCorpus, change: Change, job: Job, failure: Exception | None) -> str:
        """Undo a change, and bring the index up to date with the documents as they were."""
        stale = await run_to_completion(undo, corpus, change)
        if change.kind == "create":
            self.forget(corpus.name)
        if not stale:
            return "what was cut off is undone"
        try:
            said = await self._index(corpus, job)
        except Exception as error:
            if failure is None:
                raise
            # Its client is told why the change failed; the next one, or the next start, brings the index up to date.
            _LOG.warning("corpus %s is not indexed as it was: %s", corpus.name, refusal_of(error).kind)
            return ""
        await run_to_completion(settle, corpus)
        return said

    async def _index(self, corpus: ManagedCorpus, job: Job, change: Change | None = None) -> str:
        """Bring the index up to date once nobody else writes it, and it is this job's turn.

        A `change` that brings documents, or takes some, is noted as begun; one that is undone needs no such note.
        """
        begun = change.begun() if change else None
        for _ in range(_ROUNDS):
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


def _is_kept(error: Exception, change: Change) -> bool:
    """Whether a change is to be tried again: the files seem not to be at fault, and nobody was told that it failed."""
    if isinstance(error, Postponed):
        return True
    of_files = isinstance(error, Refusal) and error.kind == CorpusError.__name__
    return not of_files and change.resumed and change.tries < _TRIES


def _given_up() -> Refusal:
    return Refusal(
        500,
        "IndexingDied",
        f"Indexing was begun {_TRIES} times, and came to no end.",
        "Upload less at once; what was there is as it was.",
    )


def _new(kind: str, staging: Staging) -> Change:
    return Change(kind, tuple(staging.names), left_out=tuple(staging.left_out), job=new_job_id())


def _undo_what_is_pending(corpus: ManagedCorpus) -> bool:
    """Make the documents what they were before a change that came to no end; whether the index may not be theirs."""
    change = Change.read(corpus)
    return change is not None and undo(corpus, change)
