"""Questions: everything that `hoptree ask --json` prints, at once or as it happens."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from hoptree.engine.result import Result
from hoptree.server.ask import AskRequest, PreparedQuestion
from hoptree.server.error_responses import Refusal, error_body, note_refusal, refusal_of
from hoptree.server.json_response import Json
from hoptree.server.openapi import JSON_BODY, replies, reply
from hoptree.server.progress_text import ProgressText
from hoptree.server.reply_schemas.answers import AskFailure, AskReply
from hoptree.server.request_schemas import AskBody, require_json
from hoptree.server.state import ServerState
from hoptree.server.streaming import (
    EventStream,
    Idle,
    TraceUpdate,
    TreeUpdate,
    ask_until_disconnect,
    question_updates,
    server_sent,
)
from hoptree.server.views import event_view, result_view, tree_view

_WHAT_COMES = (
    "The object that hoptree ask --json prints; with stream the events step, passages, tree (and trace), and at last "
    "result or error."
)
_REPLIES = replies(None, JSON_BODY, failure=AskFailure) | {200: reply(AskReply, _WHAT_COMES, stream=True)}


def ask_routes(state: ServerState) -> APIRouter:
    """The route of questions."""
    routes = APIRouter(tags=["ask"], route_class=_Quick)

    @routes.post(
        "/v1/ask",
        summary="Answer a question, and show the tree behind the answer",
        dependencies=[Depends(require_json)],
        responses=_REPLIES,
    )
    async def ask(body: AskBody, request: Request) -> Response:
        prepared = await state.questions.prepare(_wanted(body), request.state.key)
        if body.stream:
            return EventStream(_stream(state, prepared, request, events=body.events))
        result = await ask_until_disconnect(request, state.questions, prepared)
        if result.failure:
            refusal = refusal_of(result.failure)
            told = {**error_body(refusal), "result": result_view(result, prepared.model_name)}
            return Json(told, refusal.status, refusal.headers)
        return Json(result_view(result, prepared.model_name))

    return routes


class _Quick(APIRoute):
    """A body that is as it should be is read at once; of any other the framework tells what is wrong."""

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


def _wanted(body: AskBody) -> AskRequest:
    return AskRequest(
        body.question,
        method=body.method,
        model=body.model,
        corpus=body.corpus,
        graph=body.graph,
        retriever=body.retriever,
        rerank=body.rerank,
        options=body.options,
        budget=body.budget.as_budget(),
    )


async def _stream(
    state: ServerState, prepared: PreparedQuestion, request: Request, *, events: bool
) -> AsyncGenerator[bytes, None]:
    """Steps, passages and the tree as they come; a result, or an error, is the last."""
    words, shown = ProgressText(), set[str]()
    async for news in question_updates(state.questions, prepared):
        match news:
            case TraceUpdate(event):
                if events:
                    yield server_sent("trace", event_view(event, prepared.model_name, shown))
                if event["event"] == "retrieve":
                    fresh = [passage for passage in event["passages"] if passage["id"] not in shown]
                    shown.update(passage["id"] for passage in fresh)
                    if fresh:
                        yield server_sent("passages", {"passages": fresh})
                if step := words.of(event):
                    yield server_sent("step", step)
            case TreeUpdate(so_far):
                yield server_sent("tree", tree_view(so_far))
            case Idle():
                yield b": still answering\n\n"
            case Result():
                if news.failure:
                    told = error_body(refusal_of(news.failure))["error"]
                    yield server_sent("error", {**told, "result": result_view(news, prepared.model_name)})
                else:
                    yield server_sent("result", result_view(news, prepared.model_name))
            case Refusal():
                note_refusal(request, news, state.metrics)
                yield server_sent("error", error_body(news)["error"])
