"""Searches: what a method would get to read."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fastapi import APIRouter, Depends, FastAPI, Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from hoptree.core.errors import HoptreeError
from hoptree.core.values import Passage
from hoptree.retrieval.opening import KINDS
from hoptree.server.error_responses import Refusal, log_failure
from hoptree.server.json_response import Json
from hoptree.server.names import unknown
from hoptree.server.openapi import JSON_BODY, replies
from hoptree.server.reply_schemas.answers import Found
from hoptree.server.request_schemas import SearchBody, require_json
from hoptree.server.state import ServerState


def search_routes(state: ServerState) -> APIRouter:
    """The route of searches."""
    routes = APIRouter(tags=["search"])

    @routes.post(
        "/v1/search",
        summary="The best passages for a query",
        dependencies=[Depends(require_json)],
        responses=replies(Found, JSON_BODY),
    )
    async def search(body: SearchBody, request: Request) -> Response:
        state.running.check()
        if not body.query.strip() or not _is_text(body.query):
            raise Refusal(400, "InputError", "The query is empty, or no valid text.", "Search for words.")
        corpus = body.corpus or state.corpora.default
        if corpus is None:
            raise unknown("corpus", "", ())
        kind = body.retriever or state.settings.retriever
        if kind not in KINDS:
            raise unknown("retriever", kind, KINDS)
        told = {"question": body.query, "method": "search", "corpus": corpus, "key": request.state.key.name}
        # In a task of its own: a stop cancels it, and not what carries the request.
        found = await asyncio.create_task(state.running.run(_find(state, body, corpus, kind), told))
        passages = [{"id": p.id, "title": p.title, "text": p.text, "score": p.score} for p in found]
        return Json({"corpus": corpus, "retriever": kind, "passages": passages})

    return routes


async def _find(state: ServerState, body: SearchBody, corpus: str, kind: str) -> tuple[Passage, ...]:
    seconds = state.settings.limits.seconds
    try:
        async with asyncio.timeout(seconds):
            retriever = await state.retrievers.find(corpus, kind, body.rerank or "")
            found = await state.questions.calls.search(
                retriever, body.query, k=body.k, where=None, on_retry=lambda error, wait: None
            )
            return found.reply
    except TimeoutError:
        raise Refusal(
            504, "TooSlow", f"The search took more than {seconds:g} seconds.", "Search again later."
        ) from None
    except HoptreeError as error:
        if not isinstance(error, Refusal):
            log_failure(error, what=f"a search ({kind} in {corpus})")
        raise


def _is_text(query: str) -> bool:
    try:
        query.encode()
    except UnicodeEncodeError:
        return False
    return True


_FOLDER = Path(__file__).parent.parent / "page"


class _Parts(StaticFiles):
    """The files of the page; browsers ask each time whether they changed."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        reply = await super().get_response(path, scope)
        reply.headers["Cache-Control"] = "no-cache"
        return reply


def add_page(app: FastAPI) -> None:
    """Serve the page at / and its parts below /page/."""
    routes = APIRouter()

    @routes.head("/", include_in_schema=False)
    @routes.get("/", include_in_schema=False)
    async def index() -> Response:
        if not (_FOLDER / "index.html").is_file():
            return Json({"name": "hoptree", "openapi": "/openapi.json"})
        return FileResponse(_FOLDER / "index.html", headers={"Cache-Control": "no-cache"})

    app.include_router(routes)
    if _FOLDER.is_dir():
        app.mount("/page", _Parts(directory=_FOLDER), name="page")
