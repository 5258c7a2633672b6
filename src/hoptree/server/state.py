"""Everything that requests share, opened once and closed in order."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from hoptree.core.errors import ConfigError, IndexUnavailable
from hoptree.core.files import FolderLock
from hoptree.engine.calls import open_calls
from hoptree.engine.registry import find_method, read_options
from hoptree.retrieval.retriever import KINDS
from hoptree.server.corpus_service import CorpusService
from hoptree.server.jobs import Jobs
from hoptree.server.keys import Quotas
from hoptree.server.prometheus import Metrics
from hoptree.server.question_service import QuestionService
from hoptree.server.resources import Corpora, Graphs, Models, Retrievers
from hoptree.server.running_questions import Journal, RunningQuestions
from hoptree.server.runs import Runs
from hoptree.server.settings import Settings
from hoptree.server.workers import Workers

_AFTER_QUESTION_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ServerState:
    """The parts of a running server."""

    settings: Settings
    questions: QuestionService
    jobs: Jobs
    corpus_service: CorpusService
    runs: Runs
    lock: FolderLock | None

    async def aclose(self) -> None:
        """Close jobs first: they write what the others have open."""
        await self.jobs.aclose()
        await self.questions.aclose()
        if self.lock is not None:
            self.lock.release()


def open_state(settings: Settings) -> ServerState:
    """Open what a server needs; wrong settings are an error here, before anything is served."""
    settings.check()
    find_method(settings.method)
    for name, options in settings.options.items():
        read_options(find_method(name), options)
    if settings.retriever not in KINDS:
        raise ConfigError(f"There is no retriever '{settings.retriever}'.", f"Choose one of {', '.join(KINDS)}.")
    _check_folders(settings)
    questions = open_question_service(settings)
    jobs = Jobs()
    watch = questions.metrics.watch
    watch("hoptree_jobs_under_way", "Corpora being made or changed.", jobs.running)
    if questions.workers is not None:
        watch("hoptree_workers", "Processes that answer beside the server's own.", questions.workers.__len__)
    return ServerState(
        settings=settings,
        questions=questions,
        jobs=jobs,
        corpus_service=CorpusService(questions.corpora, questions.forget, jobs, settings.limits),
        runs=Runs(settings.runs),
        lock=_lock_folder(settings.corpora_folder),
    )


def open_question_service(settings: Settings, *, processes: int = 1) -> QuestionService:
    """Open what answering takes, in one of the processes that share models and endpoints."""
    limits, cached = settings.limits, settings.cache is not None
    corpora = Corpora(settings.corpora, settings.corpora_folder)
    keep_seconds = limits.seconds + _AFTER_QUESTION_SECONDS
    return QuestionService(
        settings=settings,
        models=Models(settings),
        corpora=corpora,
        retrievers=Retrievers(corpora.place, settings.rerankers, cached=cached, keep_seconds=keep_seconds),
        graphs=Graphs(settings.graphs),
        calls=open_calls(settings.cache, concurrency=settings.concurrency, shared_by=processes),
        running=RunningQuestions(limits.asking, Journal(settings.journal), cached=cached),
        quotas=Quotas(limits.rate),
        metrics=Metrics(),
        workers=Workers(settings) if settings.workers else None,
    )


def _lock_folder(folder: Path | None) -> FolderLock | None:
    """Take the right to change the corpora of a folder: two servers would undo each other's changes.

    The system releases it where a server is killed.
    """
    if folder is None:
        return None
    lock = FolderLock(folder, IndexUnavailable)
    try:
        lock.acquire()
    except IndexUnavailable as error:
        cause = f"Another server uses the folder {folder} of corpora."
        raise ConfigError(cause, "Stop that one, or give another: --corpora DIR") from error
    except OSError as error:
        raise _unusable_folder(folder, error.strerror) from error
    return lock


def _check_folders(settings: Settings) -> None:
    """Refuse folders that cannot be used, and make that of the corpora, readable by its owner only."""
    if settings.runs is not None and not settings.runs.is_dir():
        raise ConfigError(f"There is no folder {settings.runs} of runs.", "Correct --runs, or leave it out.")
    if (folder := settings.corpora_folder) is None:
        return
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable_folder(folder, error.strerror) from error
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise _unusable_folder(folder, "it may not be written")


def _unusable_folder(folder: Path, why: str | None) -> ConfigError:
    return ConfigError(f"The folder {folder} cannot hold corpora: {why}.", "Give another: --corpora DIR")
