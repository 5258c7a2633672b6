"""The application: routes, the guard in front of them, and what is closed at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.routing import Match

from hoptree import __version__
from hoptree.core.errors import HoptreeError
from hoptree.server.chat import chat_routes
from hoptree.server.error_responses import Refusal, note_refusal, refusal_of
from hoptree.server.guard import EXPOSED, Guard, speaks_openai
from hoptree.server.json_response import refusal_response
from hoptree.server.openapi import describe
from hoptree.server.request_schemas import validation_refusal
from hoptree.server.routes.about import about_routes
from hoptree.server.routes.asks import ask_routes
from hoptree.server.routes.corpora import corpus_routes
from hoptree.server.routes.runs import run_routes
from hoptree.server.routes.searches import add_page, search_routes
from hoptree.server.settings import Settings
from hoptree.server.state import ServerState, open_state

_KINDS = {404: "NotFound", 405: "NotAllowed"}
_SAID = {
    "Not Found": "There is nothing at this address.",
    "Method Not Allowed": "This address does not take that method.",
    "There was an error parsing the body": "The body is no JSON in UTF-8 that can be read.",
}
"""Words in the place of the framework's."""


def create_app(settings: Settings) -> FastAPI:
    """The server as an ASGI application, with all that it needs open."""
    state = open_state(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        try:
            state.corpus_service.take_up()
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
        # The usual pages of documentation load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        # A redirect would name the host that the client named, and no TLS.
        redirect_slashes=False,
    )
    app.state.server = state
    # In one list, questions first: a router in a router is matched again on each floor, for every request.
    for router in (ask_routes, chat_routes, search_routes, about_routes, corpus_routes, run_routes):
        app.router.routes += router(state).routes
    add_page(app)
    describe(app, keys=bool(settings.keys))
    _tell_errors(app)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
            expose_headers=EXPOSED,
        )
    app.add_middleware(Guard, settings=_guarded(settings), quotas=state.quotas, metrics=state.metrics)
    return app


def _guarded(settings: Settings) -> Settings:
    """As the guard sees them: where no uploads are taken, none are received."""
    if settings.corpora_folder is not None:
        return settings
    limits = settings.limits
    return replace(settings, limits=replace(limits, upload=limits.body, upload_seconds=limits.body_seconds))


def state_of(app: FastAPI) -> ServerState:
    """What an application has open."""
    state: ServerState = app.state.server
    return state


def _tell_errors(app: FastAPI) -> None:
    """Every error is told in the same form."""

    def tell(request: Request, refusal: Refusal) -> Response:
        note_refusal(request, refusal, state_of(request.app).metrics)
        return refusal_response(refusal, openai=speaks_openai(request.url.path))

    @app.exception_handler(HoptreeError)
    async def on_error(request: Request, error: HoptreeError) -> Response:
        return tell(request, refusal_of(error))

    @app.exception_handler(RequestValidationError)
    async def on_invalid(request: Request, error: RequestValidationError) -> Response:
        return tell(request, validation_refusal(error.errors()))

    @app.exception_handler(HTTPException)
    async def on_http(request: Request, error: HTTPException) -> Response:
        kind = _KINDS.get(error.status_code, "BadRequest")
        said = _SAID.get(error.detail, error.detail) if error.status_code < 500 else "Something went wrong."
        reply = tell(request, Refusal(error.status_code, kind, said, "GET /openapi.json tells what there is."))
        reply.headers.update(error.headers or {})
        if error.status_code == 405:  # the router names those of one route, and a path may have several
            reply.headers["Allow"] = ", ".join(_methods(request))
        return reply


def _methods(request: Request) -> list[str]:
    """The methods that the path of a request has."""
    routes = request.app.routes
    return [
        method
        for method in ("DELETE", "GET", "HEAD", "POST")
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ]
