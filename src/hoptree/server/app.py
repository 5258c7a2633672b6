"""The FastAPI application, its shared state, and the process that serves it."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import FileResponse, Response
from starlette.routing import Match
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from hoptree import __version__
from hoptree.core.errors import ConfigError, HoptreeError, IndexUnavailable
from hoptree.core.files import FolderLock
from hoptree.core.http_server import protocol_with_timeouts, stopped_by_signals
from hoptree.engine.calls import open_calls
from hoptree.engine.registry import find_method, read_options
from hoptree.retrieval.retriever import KINDS
from hoptree.server.about_routes import about_routes
from hoptree.server.ask_routes import ask_routes
from hoptree.server.corpus_routes import corpus_routes
from hoptree.server.corpus_service import CorpusService
from hoptree.server.error_responses import Refusal, clear_frames, note_refusal, refusal_of
from hoptree.server.guard import EXPOSED_HEADERS, Guard, speaks_openai
from hoptree.server.jobs import Jobs
from hoptree.server.keys import Quotas
from hoptree.server.openai_routes import openai_routes
from hoptree.server.prometheus import Metrics
from hoptree.server.question_service import Journal, QuestionService, RunningQuestions
from hoptree.server.reply_schemas import complete_document
from hoptree.server.request_schemas import validation_refusal
from hoptree.server.resources import Corpora, Graphs, Models, Retrievers
from hoptree.server.runs import Runs, run_routes
from hoptree.server.settings import Settings
from hoptree.server.views import refusal_response
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
    """Check the settings, and open all that the server needs."""
    settings.check()
    find_method(settings.method)
    for name, options in settings.options.items():
        read_options(find_method(name), options)
    if settings.retriever not in KINDS:
        raise ConfigError(f"There is no retriever '{settings.retriever}'.", f"Choose one of {', '.join(KINDS)}.")
    if settings.runs is not None and not settings.runs.is_dir():
        raise ConfigError(f"There is no folder {settings.runs} of runs.", "Correct --runs, or leave it out.")
    lock = _lock_corpora(settings.corpora_folder)
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
        lock=lock,
    )


def open_question_service(settings: Settings, *, processes: int = 1) -> QuestionService:
    """Open what answering needs, in one of the `processes` that share endpoints."""
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


def _lock_corpora(folder: Path | None) -> FolderLock | None:
    """Make the folder of corpora, for its owner only, and lock out other servers."""
    if folder is None:
        return None
    lock = FolderLock(folder, IndexUnavailable)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "it may not be written")
        lock.acquire()
    except IndexUnavailable as error:
        cause = f"Another server uses the folder {folder} of corpora."
        raise ConfigError(cause, "Stop that one, or give another: --corpora DIR") from error
    except OSError as error:
        cause = f"The folder {folder} cannot hold corpora: {error.strerror}."
        raise ConfigError(cause, "Give another: --corpora DIR") from error
    return lock


_PAGE_FOLDER = Path(__file__).parent / "page"
_ERROR_CLASSES = {404: "NotFound", 405: "NotAllowed"}
_MESSAGES = {
    "Not Found": "There is nothing at this address.",
    "Method Not Allowed": "This address does not take that method.",
    "There was an error parsing the body": "The body is not valid JSON in UTF-8.",
}
"""Our messages, by those of the framework."""


def create_app(settings: Settings) -> FastAPI:
    """Make the ASGI application, with all that it needs open."""
    state = open_state(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        try:
            state.corpus_service.resume()
            if state.questions.workers is not None:
                await state.questions.workers.start()
            yield
        finally:
            await state.aclose()

    app = FastAPI(
        title="Hoptree",
        version=__version__,
        summary="Answers multi-hop questions, and shows the tree behind the answer.",
        lifespan=lifespan,
        # FastAPI's own documentation pages load scripts from a CDN.
        docs_url=None,
        redoc_url=None,
        # A redirect would repeat the client's Host header, and lose TLS behind a proxy.
        redirect_slashes=False,
    )
    app.state.server = state
    # One flat list, questions first: nested routers would be matched level by level for each request.
    questions = state.questions
    routers = [ask_routes(questions), openai_routes(questions), about_routes(questions)]
    routers += [corpus_routes(questions.corpora, state.corpus_service, state.jobs), run_routes(state.runs)]
    for router in routers:
        app.router.routes += router.routes
    _add_page(app)
    complete_document(app, keys=bool(settings.keys), prices=settings.prices is not None)
    _handle_errors(app)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
            expose_headers=EXPOSED_HEADERS,
        )
    if settings.corpora_folder is None:  # without uploads, no body needs more than the usual limit
        limits = settings.limits
        limits = replace(limits, upload=limits.body, upload_seconds=limits.body_seconds)
        settings = replace(settings, limits=limits)
    app.add_middleware(Guard, settings=settings, quotas=questions.quotas, metrics=questions.metrics)
    return app


def state_of(app: FastAPI) -> ServerState:
    """Return what an application has open."""
    state: ServerState = app.state.server
    return state


def _handle_errors(app: FastAPI) -> None:
    """Reply to every error in the same form."""

    def respond(request: Request, error: Exception, refusal: Refusal) -> Response:
        clear_frames(error)
        note_refusal(request, refusal, state_of(request.app).questions.metrics)
        return refusal_response(refusal, openai=speaks_openai(request.url.path))

    @app.exception_handler(HoptreeError)
    async def on_error(request: Request, error: HoptreeError) -> Response:
        return respond(request, error, refusal_of(error))

    @app.exception_handler(RequestValidationError)
    async def on_invalid(request: Request, error: RequestValidationError) -> Response:
        return respond(request, error, validation_refusal(error.errors()))

    @app.exception_handler(HTTPException)
    async def on_http(request: Request, error: HTTPException) -> Response:
        kind = _ERROR_CLASSES.get(error.status_code, "BadRequest")
        cause = _MESSAGES.get(error.detail, error.detail) if error.status_code < 500 else "Something went wrong."
        refusal = Refusal(error.status_code, kind, cause, "GET /openapi.json tells what there is.")
        reply = respond(request, error, refusal)
        reply.headers.update(error.headers or {})
        if error.status_code == 405:  # the router's own header names the methods of a single route
            methods = ("DELETE", "GET", "HEAD", "POST")
            reply.headers["Allow"] = ", ".join(method for method in methods if takes(method, request.scope))
        return reply

    def takes(method: str, scope: Scope) -> bool:
        return any(route.matches({**scope, "method": method})[0] is Match.FULL for route in app.routes)


class _PageFiles(StaticFiles):
    """The files of the page, which browsers revalidate each time."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        reply = await super().get_response(path, scope)
        reply.headers["Cache-Control"] = "no-cache"
        return reply


def _add_page(app: FastAPI) -> None:
    """Serve the page at /, that of the API at /docs, and their files below /page/."""

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    @app.api_route("/docs", methods=["GET", "HEAD"], include_in_schema=False)
    async def page(request: Request) -> Response:
        name = "docs.html" if request.url.path == "/docs" else "index.html"
        return FileResponse(_PAGE_FOLDER / name, headers={"Cache-Control": "no-cache"})

    app.mount("/page", _PageFiles(directory=_PAGE_FOLDER), name="page")


_GC_THRESHOLD = 50_000
"""New objects between collections; 200 running questions have fewer.

With the default of 700 a busy server would spend a sixth of its time looking for cycles among running questions.
"""
_MAX_HEADER_BYTES = 32 * 2**10
_KEEP_ALIVE_SECONDS = 15
_SHUTDOWN_SECONDS = 5.0
_ADDRESSES = 4  # clients needed to use up all connections, so that one alone cannot keep others out
_ABORT_SECONDS = 2.0  # time to tell clients that their questions were cancelled
_OTHER_FILES = 256  # open files that are not connections: indexes, the cache, endpoints, uploads


def collect_garbage_rarely() -> None:
    """Collect garbage rarely, and never what exists now: questions leave no cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, *gc.get_threshold()[1:])


class Server(uvicorn.Server):
    """uvicorn, which on a stop lets questions finish, or journals them."""

    def __init__(self, app: FastAPI) -> None:
        self._state = state_of(app)
        limits = self._state.settings.limits
        super().__init__(
            uvicorn.Config(
                app,
                http=protocol_with_timeouts(limits.header_seconds, per_address=limits.connections // _ADDRESSES),
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=int(limits.stop_seconds + _SHUTDOWN_SECONDS),
                limit_concurrency=limits.connections,
                h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
            )
        )
        self._stopping: list[asyncio.Task[None]] = []

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve; the whole process belongs to the server."""
        collect_garbage_rarely()
        super().run(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop in order at a first signal, at once at a second."""
        with stopped_by_signals(self.stop):
            yield

    def stop(self) -> None:
        """Stop in order, or at once on a second call; call it in the server's loop."""
        if len(self._stopping) < 2:
            work = self._stop_at_once() if self._stopping else self._stop_in_order()
            self._stopping.append(asyncio.get_running_loop().create_task(work))

    async def _stop_in_order(self) -> None:
        """Let running questions finish, and refuse new ones with the reason."""
        seconds = self._state.settings.limits.stop_seconds
        began = time.monotonic()
        await self._state.questions.running.stop(seconds)
        left = max(0.0, began + seconds - time.monotonic())  # for uploads and the like
        self.config.timeout_graceful_shutdown = int(left + _SHUTDOWN_SECONDS)
        self.should_exit = True

    async def _stop_at_once(self) -> None:
        """Journal running questions, tell their clients, and close all connections."""
        await self._state.questions.running.stop(0)
        if tasks := set(self.server_state.tasks):
            await asyncio.wait(tasks, timeout=_ABORT_SECONDS)
        self.should_exit = self.force_exit = True
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close what is open, also after a forced exit, where uvicorn closes nothing."""
        await super().shutdown(sockets)
        if self.force_exit:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.lifespan.shutdown(), _SHUTDOWN_SECONDS)


def raise_open_file_limit(connections: int) -> str:
    """Raise the limit of open files for the connections; return a warning if refused."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return ""
    wanted = connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return ""
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    except (OSError, ValueError):  # some systems have a lower limit that they do not report
        limit = soft
    if limit >= wanted:
        return ""
    return (
        f"only {limit} files may be open at once, too few for {connections} connections; raise that "
        f"(ulimit -n {wanted}) or lower this (--limits connections={max(1, limit - _OTHER_FILES)})."
    )
