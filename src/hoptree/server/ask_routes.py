"""Routes of questions, stored answers and searches."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from typing_extensions import TypedDict

from hoptree.core.errors import CacheError, HoptreeError
from hoptree.core.values import Passage
from hoptree.engine.cache import Form
from hoptree.engine.events import Event
from hoptree.engine.result import Result
from hoptree.engine.schedule import fold_events
from hoptree.engine.trace import ModelProgress, Retrieved, passage_of
from hoptree.server import reply_schemas as schemas
from hoptree.server import streaming
from hoptree.server.error_responses import Refusal, error_body, log_failure, note_refusal, refusal_of
from hoptree.server.question_service import PreparedQuestion, QuestionService
from hoptree.server.reply_schemas import replies, reply
from hoptree.server.request_schemas import AskBody, SearchBody, require_json
from hoptree.server.settings import unknown
from hoptree.server.views import Json, event_view, passage_view, result_view, tree_view

_ABOUT_REPLY = (
    "The object that hoptree ask --json prints; with stream the events step, progress, passages, tree (and trace), and "
    "at last result or error."
)
_REPLIES = replies(None, schemas.QUESTION_ERRORS, failure=schemas.AskFailure) | {
    200: reply(schemas.AskReply, _ABOUT_REPLY, stream=True)
}
_ANSWER_HEADER = "Hoptree-Answer"
JSON_FORM: Form[dict[str, Any]] = Form(dict, dict)


class StoredAnswer(TypedDict):
    """An answer that was given before, and the corpus it was looked up in."""

    id: str
    corpus: str | None
    result: schemas.AskReply


class SearchReply(TypedDict):
    """Passages, best first."""

    corpus: str
    retriever: str
    passages: list[schemas.PassageReply]


def ask_routes(questions: QuestionService) -> APIRouter:
    """Make the routes of questions and searches."""
    routes = APIRouter()
    takes_json = [Depends(require_json)]

    async def ask(body: AskBody, request: Request) -> Response:
        turns = [(turn.question, turn.answer) for turn in body.history]
        prepared = await questions.prepare(
            body.as_request(body.question, body.method, body.model, turns), request.state.key
        )
        answer_id = "" if questions.calls.cache is None else secrets.token_urlsafe(16)
        headers = {_ANSWER_HEADER: answer_id} if answer_id else {}
        if body.stream:
            return streaming.EventStream(_stream(questions, prepared, request, answer_id, events=body.events), headers)
        result = await streaming.ask_until_disconnect(request, questions, prepared)
        view = result_view(result, prepared.model_name)
        if result.failure:
            refusal = refusal_of(result.failure)
            return Json({**error_body(refusal), "result": view}, refusal.status, refusal.headers)
        await _store(questions, prepared, answer_id, view)
        return Json(view, headers=headers)

    routes.add_api_route(
        "/v1/ask",
        ask,
        methods=["POST"],
        tags=["ask"],
        summary="Answer a question, and show the tree behind the answer",
        responses=_REPLIES,
        dependencies=takes_json,
        route_class_override=_FastRoute,
    )

    @routes.get(
        "/v1/answers/{answer}",
        tags=["ask"],
        summary="An answer that was given before, by the id in its header Hoptree-Answer",
        responses=replies(StoredAnswer, schemas.READ_ERRORS),
    )
    async def stored(answer: str) -> Response:
        cache, key = questions.calls.cache, _answer_key(answer)
        known = await cache.get(key, JSON_FORM) if cache else None
        if known is None:
            if cache:
                cache.give_up(key)
            remedy = "Ask the question again; a server started with --no-cache stores no answers."
            raise Refusal(404, "NotFound", "There is no such answer here.", remedy)
        return Json(StoredAnswer(id=answer, corpus=known[0]["corpus"], result=known[0]["result"]))

    @routes.post(
        "/v1/search",
        tags=["search"],
        summary="The best passages for a query",
        responses=replies(SearchReply, schemas.QUESTION_ERRORS),
        dependencies=takes_json,
    )
    async def search(body: SearchBody, request: Request) -> Response:
        questions.running.check()
        if not body.query.strip():
            raise Refusal(400, "InputError", "The query is empty.", "Search for words.")
        corpus = body.corpus or questions.corpora.default
        if corpus is None:
            raise unknown("corpus", "", ())
        kind = body.retriever or questions.settings.retriever
        entry = {"question": body.query, "method": "search", "corpus": corpus, "key": request.state.key.name}
        # A task of its own, so that a stop cancels the search, and not the task of the request.
        hits = await asyncio.create_task(questions.running.run(_search(questions, body, corpus, kind), entry))
        return Json(SearchReply(corpus=corpus, retriever=kind, passages=[passage_view(passage) for passage in hits]))

    return routes


class _FastRoute(APIRoute):
    """Reads a valid body itself, which is faster, and leaves others to FastAPI."""

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


def _answer_key(answer: str) -> bytes:
    return f"answer:{answer}".encode("utf-8", "replace")


async def _store(
    questions: QuestionService, prepared: PreparedQuestion, answer_id: str, view: schemas.AskReply
) -> None:
    """Store an answer, so that its address can be shared; ignore a failing cache."""
    cache = questions.calls.cache
    if cache is not None and answer_id:
        with suppress(CacheError):
            await cache.put(_answer_key(answer_id), JSON_FORM, {"corpus": prepared.corpus, "result": view}, 0.0)


async def _stream(
    questions: QuestionService, prepared: PreparedQuestion, request: Request, answer_id: str, *, events: bool
) -> AsyncGenerator[bytes, None]:
    """Yield steps, passages and the tree as they come, and at last a result or error."""
    progress, seen = streaming.ProgressText(), set[str]()
    async for update in streaming.question_updates(questions, prepared):
        match update:
            case ModelProgress():
                yield streaming.server_sent("progress", _progress_view(update))
            case Event():
                if events:
                    yield streaming.server_sent("trace", event_view(update, prepared.model_name, seen))
                if isinstance(update, Retrieved):
                    fresh = [passage for passage in map(passage_of, update.passages) if passage.id not in seen]
                    seen.update(passage.id for passage in fresh)
                    if fresh:
                        yield streaming.server_sent("passages", {"passages": [*map(passage_view, fresh)]})
                if step := progress.step(update):
                    yield streaming.server_sent("step", step)
            case list():
                yield streaming.server_sent("tree", await fold_events(tree_view, update))
            case None:
                yield streaming.KEEP_ALIVE
            case Result():
                view = result_view(update, prepared.model_name)
                if update.failure:
                    error = error_body(refusal_of(update.failure))["error"]
                    yield streaming.server_sent("error", {**error, "result": view})
                else:
                    await _store(questions, prepared, answer_id, view)
                    yield streaming.server_sent("result", view)
            case Refusal():
                note_refusal(request, update, questions.metrics)
                yield streaming.server_sent("error", error_body(update)["error"])


def _progress_view(now: ModelProgress) -> schemas.ProgressEvent:
    return schemas.ProgressEvent(
        text=f"The model is {now.describe()}",
        node=now.node,
        read=now.read,
        total=now.total,
        written=now.written,
        seconds=now.seconds,
    )


async def _search(questions: QuestionService, body: SearchBody, corpus: str, kind: str) -> tuple[Passage, ...]:
    seconds = questions.settings.limits.seconds
    try:
        async with asyncio.timeout(seconds):
            retriever = await questions.retrievers.find(corpus, kind, body.rerank or "")
            call = await questions.calls.search(
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
