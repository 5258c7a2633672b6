"""Making, changing and removing the corpora of clients: each change happens as a whole, or not at all.

`pending` in the folder of a corpus says what is being done, so that a server that was killed in between goes on with
it; `replaced/` holds what was there before, until the index is up to date.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from starlette.datastructures import UploadFile

from hoptree.errors import CorpusError
from hoptree.server.corpora import Corpora, Managed
from hoptree.server.file_names import check_beside, check_file_name
from hoptree.server.indexing import Postponed, bring_up_to_date
from hoptree.server.jobs import Job, Jobs
from hoptree.server.limits import Limits
from hoptree.server.names import check_name
from hoptree.server.refusals import Refusal
from hoptree.server.sources import Retrievers
from hoptree.server.unpacking import Staging
from hoptree.whole_files import write_whole

__all__ = ["Changing"]

_INCOMING = ".incoming"
_REMOVED = ".removed"
_MAKE_ROOM = "Remove some, or make another corpus."
_AT_ONCE = 2
"""Uploads that are unpacked at the same time: each takes a thread, and most of a processor."""


@dataclass(frozen=True, slots=True)
class _Change:
    """What a change does to the documents of a corpus: names that come, names that go.

    `kept` are those of them that were there before: they are in `replaced/` until the change is settled.
    """

    kind: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    def write(self, corpus: Managed) -> None:
        write_whole(corpus.pending, [json.dumps(asdict(self))])

    @classmethod
    def read(cls, corpus: Managed) -> _Change:
        """What was being done; where that cannot be read, the documents are indexed as they are."""
        try:
            data = json.loads(corpus.pending.read_text(encoding="utf-8"))
            return cls(str(data["kind"]), tuple(data["added"]), tuple(data["removed"]), tuple(data["kept"]))
        except (OSError, ValueError, KeyError, TypeError):
            return cls("add")


@dataclass(frozen=True, slots=True)
class Changing:
    """Changes corpora, one job each."""

    corpora: Corpora
    retrievers: Retrievers
    jobs: Jobs
    limits: Limits
    _turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    _unfinished: set[str] = field(default_factory=set)
    """Corpora whose documents are those of a change that failed by no fault of theirs; the next start tries again."""

    async def create(self, name: str, files: Sequence[UploadFile]) -> Job:
        """A new corpus of uploaded files."""
        check_name(name)
        folder = self._folder()
        self.jobs.check(name)
        self._check_new(name)
        staged, sizes = await self._stage(files)
        return await self._begin(Managed(name, folder / name), _Change("create", tuple(sizes)), staged, sizes)

    async def add(self, name: str, files: Sequence[UploadFile]) -> Job:
        """Further files, or new versions of some, for a corpus made here."""
        corpus = self._changeable(name)
        staged, sizes = await self._stage(files)
        return await self._begin(corpus, _Change("add", tuple(sizes)), staged, sizes)

    async def remove_document(self, name: str, document: str) -> Job:
        """Take a file out of a corpus made here."""
        return await self._begin(self._changeable(name), _Change("remove", removed=(check_file_name(document),)))

    async def remove(self, name: str) -> None:
        """Remove a corpus made here with all that is in it."""
        corpus = self.corpora.own(name)
        self.jobs.check(name)
        self.retrievers.forget(name)
        self._unfinished.discard(name)
        away = self._folder() / _REMOVED / uuid.uuid4().hex
        away.parent.mkdir(exist_ok=True)
        corpus.folder.rename(away)
        await asyncio.to_thread(shutil.rmtree, away, ignore_errors=True)

    def take_up(self) -> None:
        """Go on with what an earlier server was doing; throw away what it had not begun."""
        if self.corpora.folder is None:
            return
        for leftover in (_INCOMING, _REMOVED):
            shutil.rmtree(self.corpora.folder / leftover, ignore_errors=True)
        for corpus in self.corpora.managed():
            if corpus.pending.exists():
                change = _Change.read(corpus)
                if _in_place(corpus, change):
                    self._start(corpus, change, taken_up=True)
                else:
                    _undo(corpus, change)  # the files that were to come went with the leftovers

    def _folder(self) -> Path:
        if self.corpora.folder is None:
            raise Refusal(
                403, "NoCorpora", "This server takes no uploads.", "Start it with --corpora DIR, a folder for them."
            )
        self.corpora.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.corpora.folder

    def _changeable(self, name: str) -> Managed:
        """A corpus made here that nothing is being done to."""
        corpus = self.corpora.own(name)
        self.jobs.check(name)
        if name in self._unfinished:
            raise Refusal(
                409,
                "Unfinished",
                f"An earlier change of the corpus '{name}' is not indexed yet.",
                "Its files are kept, and tried again at the server's next start; or remove the corpus.",
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

    async def _stage(self, files: Sequence[UploadFile]) -> tuple[Path, dict[str, int]]:
        """Put uploaded files into a folder of their own, and tell their sizes; where one is refused, none stays."""
        folder = self._folder() / _INCOMING / uuid.uuid4().hex
        staging = Staging(folder, self.limits)

        def put() -> dict[str, int]:
            folder.mkdir(parents=True)
            for file in files:
                staging.take(file.filename or "", file.file)
            if not staging.names:
                raise Refusal(400, "NoFiles", "No file was uploaded.", "Send one or more as 'files'.")
            return {name: (folder / name).stat().st_size for name in staging.names}

        try:
            async with self._turn:
                return folder, await asyncio.to_thread(put)
        except BaseException:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            raise

    async def _begin(
        self, corpus: Managed, change: _Change, staged: Path | None = None, sizes: Mapping[str, int] | None = None
    ) -> Job:
        """Put the documents in place, and start the job that indexes them."""
        try:
            if change.kind != "create":
                self._changeable(corpus.name)  # files were received meanwhile, and others may have been quicker
            with self.jobs.hold(corpus.name):
                if change.kind != "create" and corpus.pending.exists():
                    _undo(corpus, _Change.read(corpus))  # what an earlier change that failed could not undo
                await asyncio.to_thread(self._check_fits, corpus, change, sizes or {})
                if change.kind == "create":
                    self._check_new(corpus.name)
                return self._start(corpus, _put_in_place(corpus, change, staged))
        finally:
            if staged is not None:
                await asyncio.to_thread(shutil.rmtree, staged, ignore_errors=True)

    def _check_fits(self, corpus: Managed, change: _Change, sizes: Mapping[str, int]) -> None:
        """Refuse a change after which the corpus would be too large, or empty, or a file a folder as well."""
        before = dict(corpus.files())
        if any(name not in before for name in change.removed):
            raise Refusal(404, "NotFound", "The corpus has no such document.", "GET its documents for their ids.")
        after = {name: size for name, size in before.items() if name not in change.removed} | dict(sizes)
        if not after:
            raise Refusal(409, "LastDocument", "That would leave the corpus empty.", "Remove the corpus instead.")
        for name in change.added:
            check_beside(name, before)
        if change.added and len(after) > self.limits.files:
            raise Refusal(413, "TooMany", f"A corpus may hold {self.limits.files:,} files.", _MAKE_ROOM)
        if change.added and sum(after.values()) > self.limits.stored:
            raise Refusal(413, "TooLarge", f"A corpus may hold {self.limits.stored:,} bytes of files.", _MAKE_ROOM)

    def _start(self, corpus: Managed, change: _Change, *, taken_up: bool = False) -> Job:
        async def work(job: Job) -> str:
            try:
                said = await bring_up_to_date(corpus, self.limits, job, change.added)
            except Exception as error:  # a stop, which is none, leaves it to be taken up
                if isinstance(error, Postponed) or (taken_up and not _is_of_files(error)):
                    self._unfinished.add(corpus.name)
                else:
                    await asyncio.to_thread(_undo, corpus, change)
                raise
            await asyncio.to_thread(_settle, corpus)
            return said

        return self.jobs.start(Job(change.kind, corpus.name), work)


def _is_of_files(error: Exception) -> bool:
    """Whether what was uploaded is at fault, so that trying again cannot help.

    Of a change that is taken up its client was not told that it failed, and what ended it may be of this moment.
    """
    return isinstance(error, Refusal) and error.kind == CorpusError.__name__


def _replaced(corpus: Managed) -> Path:
    return corpus.folder / "replaced"


def _put_in_place(corpus: Managed, change: _Change, staged: Path | None) -> _Change:
    """Move documents out and in, with a note of how to undo that; where it fails, they are what they were."""
    named = (*change.added, *change.removed)
    change = replace(change, kept=tuple(name for name in named if (corpus.documents / name).exists()))
    try:
        corpus.documents.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(_replaced(corpus), ignore_errors=True)  # of a change that was settled
        change.write(corpus)
        for name in change.kept:
            _move(corpus.documents / name, _replaced(corpus) / name)
        for name in change.added:
            assert staged is not None
            _move(staged / name, corpus.documents / name)
    except Exception:
        _undo(corpus, change)
        raise
    return change


def _in_place(corpus: Managed, change: _Change) -> bool:
    """Whether the documents are what they should be after a change."""
    there = [(corpus.documents / name).exists() for name in change.added]
    return all(there) and not any((corpus.documents / name).exists() for name in change.removed)


def _undo(corpus: Managed, change: _Change) -> None:
    """Make the documents what they were; one that was to be made goes.

    It may be done again where it was cut off: what was put back already is no longer in `replaced/`, and stays.
    """
    if change.kind == "create":
        shutil.rmtree(corpus.folder, ignore_errors=True)
        return
    for name in set(change.added) - set(change.kept):
        (corpus.documents / name).unlink(missing_ok=True)
    for name in change.kept:
        _move(_replaced(corpus) / name, corpus.documents / name)
    _settle(corpus)


def _settle(corpus: Managed) -> None:
    """The documents are those of the index: nothing is pending, and what was replaced goes."""
    corpus.pending.unlink(missing_ok=True)
    shutil.rmtree(_replaced(corpus), ignore_errors=True)


def _move(path: Path, to: Path) -> None:
    """Move a file if it is there."""
    if path.exists():
        to.parent.mkdir(parents=True, exist_ok=True)
        path.replace(to)
