"""Questions and searches: what `hoptree ask --json` prints, at once or as it happens, and what a method would read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from typing_extensions import TypedDict

from hoptree.core.errors import HoptreeError
from hoptree.core.values import Passage
from hoptree.engine.result import Result
from hoptree.engine.trace import Retrieved
from hoptree.retrieval.opening import KINDS
from hoptree.server.ask import PreparedQuestion
from hoptree.server.error_responses import Refusal, error_body, log_failure, note_refusal, refusal_of
from hoptree.server.reply_schemas import QUESTION_ERRORS, AskFailure, AskReply, PassageReply, replies, reply
from hoptree.server.request_schemas import AskBody, SearchBody, require_json
from hoptree.server.settings import unknown
from hoptree.server.state import ServerState
from hoptree.server.streaming import (
    KEEP_ALIVE,
    EventStream,
    Idle,
    ProgressText,
    TraceUpdate,
    TreeUpdate,
    ask_until_disconnect,
    question_updates,
    server_sent,
)
from hoptree.server.views import Json, event_view, page_view, result_view, tree_view

_ABOUT_REPLY = (
    "The object that hoptree ask --json prints; with stream the events step, passages, tree (and trace), and at last "
    "result or error."
)
_REPLIES = replies(None, QUESTION_ERRORS, failure=AskFailure) | {200: reply(AskReply, _ABOUT_REPLY, stream=True)}


class SearchReply(TypedDict):
    """Passages, best first."""

    corpus: str
    retriever: str
    passages: list[PassageReply]


def ask_routes(state: ServerState) -> APIRouter:
    """Make the routes of questions and searches."""
    routes = APIRouter()

    async def ask(body: AskBody, request: Request) -> Response:
        prepared = await state.questions.prepare(
            body.as_request(body.question, body.method, body.model), request.state.key
        )
        if body.stream:
            return EventStream(_stream(state, prepared, request, events=body.events))
        result = await ask_until_disconnect(request, state.questions, prepared)
        view = result_view(result, prepared.model_name)
        if result.failure:
            refusal = refusal_of(result.failure)
            return Json({**error_body(refusal), "result": view}, refusal.status, refusal.headers)
        return Json(view)

    routes.add_api_route(
        "/v1/ask",
        ask,
        methods=["POST"],
        tags=["ask"],
        summary="Answer a question, and show the tree behind the answer",
        dependencies=[Depends(require_json)],
        responses=_REPLIES,
        route_class_override=_FastRoute,
    )

    @routes.post(
        "/v1/search",
        tags=["search"],
        summary="The best passages for a query",
        dependencies=[Depends(require_json)],
        responses=replies(SearchReply, QUESTION_ERRORS),
    )
    async def search(body: SearchBody, request: Request) -> Response:
        state.running.check()
        if not body.query.strip():
            raise Refusal(400, "InputError", "The query is empty.", "Search for words.")
        corpus = body.corpus or state.corpora.default
        if corpus is None:
            raise unknown("corpus", "", ())
        kind = body.retriever or state.settings.retriever
        if kind not in KINDS:
            raise unknown("retriever", kind, KINDS)
        entry = {"question": body.query, "method": "search", "corpus": corpus, "key": request.state.key.name}
        # In a task of its own: a stop cancels it, and not what carries the request.
        found = await asyncio.create_task(state.running.run(_search(state, body, corpus, kind), entry))
        passages = [PassageReply(id=hit.id, title=hit.title, text=hit.text, score=hit.score) for hit in found]
        return Json(SearchReply(corpus=corpus, retriever=kind, passages=passages))

    return routes


class _FastRoute(APIRoute):
    """Reads a valid body directly; FastAPI, which is slower, explains what is wrong with any other."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def receive(request: Request) -> Response:
            try:
                body = AskBody.model_validate_json(await request.body())
            except (ClientDisconnect, ValidationError):
                return await handle(request)
            await require_json(request)
            reply: Response = await self.endpoint(body, request)
            return reply

        return receive


async def _stream(
    state: ServerState, prepared: PreparedQuestion, request: Request, *, events: bool
) -> AsyncGenerator[bytes, None]:
    """Yield steps, passages and the tree as they come; a result, or an error, is the last."""
    progress, seen = ProgressText(), set[str]()
    async for update in question_updates(state.questions, prepared):
        match update:
            case TraceUpdate(event):
                if events:
                    yield server_sent("trace", event_view(event, prepared.model_name, seen))
                if isinstance(event, Retrieved):
                    fresh = [passage for passage in event.passages if passage["id"] not in seen]
                    seen.update(passage["id"] for passage in fresh)
                    if fresh:
                        yield server_sent("passages", {"passages": fresh})
                if step := progress.step(event):
                    yield server_sent("step", step)
            case TreeUpdate(so_far):
                yield server_sent("tree", tree_view(so_far))
            case Idle():
                yield KEEP_ALIVE
            case Result():
                view = page_view(update, prepared.model_name)
                if update.failure:
                    error = error_body(refusal_of(update.failure))["error"]
                    yield server_sent("error", {**error, "result": view})
                else:
                    yield server_sent("result", view)
            case Refusal():
                note_refusal(request, update, state.metrics)
                yield server_sent("error", error_body(update)["error"])


async def _search(state: ServerState, body: SearchBody, corpus: str, kind: str) -> tuple[Passage, ...]:
    seconds = state.settings.limits.seconds
    try:
        async with asyncio.timeout(seconds):
            retriever = await state.retrievers.find(corpus, kind, body.rerank or "")
            call = await state.questions.calls.search(
                retriever, body.query, k=body.k, where=None, on_retry=lambda error, wait: None
            )
            return call.reply
    except TimeoutError:
        cause = f"The search took more than {seconds:g} seconds."
        raise Refusal(504, "TooSlow", cause, "Search again later.") from None
    except HoptreeError as error:
        if not isinstance(error, Refusal):
            log_failure(error, what=f"a search ({kind} in {corpus})")
        raise
