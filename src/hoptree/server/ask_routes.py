"""Questions, as `hoptree ask --json` answers them or as OpenAI's chat completions do, and searches."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from typing_extensions import TypedDict

from hoptree.core.errors import HoptreeError
from hoptree.core.values import Passage
from hoptree.engine.events import Event
from hoptree.engine.registry import list_methods
from hoptree.engine.result import Result
from hoptree.engine.trace import Retrieved
from hoptree.server.error_responses import Refusal, error_body, log_failure, note_refusal, refusal_of
from hoptree.server.question_service import AskRequest, PreparedQuestion, QuestionService
from hoptree.server.reply_schemas import (
    CHAT_ERRORS,
    QUESTION_ERRORS,
    AskFailure,
    AskReply,
    PassageReply,
    replies,
    reply,
)
from hoptree.server.request_schemas import AskBody, ChatBody, Choices, SearchBody, require_json
from hoptree.server.settings import guess, unknown
from hoptree.server.streaming import (
    KEEP_ALIVE,
    EventStream,
    ProgressText,
    ask_until_disconnect,
    question_updates,
    server_sent,
)
from hoptree.server.views import Json, event_view, passage_view, result_view, to_json, tree_view

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


def ask_routes(questions: QuestionService) -> APIRouter:
    """Make the routes of questions, searches and chat completions."""
    routes = APIRouter(dependencies=[Depends(require_json)])

    async def ask(body: AskBody, request: Request) -> Response:
        prepared = await questions.prepare(body.as_request(body.question, body.method, body.model), request.state.key)
        if body.stream:
            return EventStream(_stream(questions, prepared, request, events=body.events))
        result = await ask_until_disconnect(request, questions, prepared)
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
        responses=_REPLIES,
        route_class_override=_FastRoute,
    )

    @routes.post(
        "/v1/search",
        tags=["search"],
        summary="The best passages for a query",
        responses=replies(SearchReply, QUESTION_ERRORS),
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
        # In a task of its own: a stop cancels it, and not what carries the request.
        hits = await asyncio.create_task(questions.running.run(_search(questions, body, corpus, kind), entry))
        return Json(SearchReply(corpus=corpus, retriever=kind, passages=[passage_view(passage) for passage in hits]))

    @routes.post("/v1/chat/completions", tags=["openai"], summary="OpenAI's chat completions", responses=_CHAT_REPLIES)
    async def complete(body: ChatBody, request: Request) -> Response:
        prepared = await questions.prepare(_ask_request(body, questions.models.names), request.state.key)
        chat_id = f"chatcmpl-{uuid.uuid4().hex}"
        chat = _Chat(chat_id, int(time.time()), body.model, prepared, ignored_fields(body))
        if body.stream:
            usage = bool(body.stream_options and body.stream_options.include_usage)
            return EventStream(_stream_chat(questions, chat, request, usage=usage))
        return Json(await _complete(questions, chat, request))

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
    questions: QuestionService, prepared: PreparedQuestion, request: Request, *, events: bool
) -> AsyncGenerator[bytes, None]:
    """Yield steps, passages and the tree as they come; a result, or an error, is the last."""
    progress, seen = ProgressText(), set[str]()
    async for update in question_updates(questions, prepared):
        match update:
            case Event():
                if events:
                    yield server_sent("trace", event_view(update, prepared.model_name, seen))
                if isinstance(update, Retrieved):
                    fresh = [passage for passage in update.passages if passage["id"] not in seen]
                    seen.update(passage["id"] for passage in fresh)
                    if fresh:
                        yield server_sent("passages", {"passages": fresh})
                if step := progress.step(update):
                    yield server_sent("step", step)
            case list():
                yield server_sent("tree", tree_view(update))
            case None:
                yield KEEP_ALIVE
            case Result():
                view = result_view(update, prepared.model_name)
                if update.failure:
                    error = error_body(refusal_of(update.failure))["error"]
                    yield server_sent("error", {**error, "result": view})
                else:
                    yield server_sent("result", view)
            case Refusal():
                note_refusal(request, update, questions.metrics)
                yield server_sent("error", error_body(update)["error"])


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


_NO_ANSWER = "No answer was found."
_SAMPLING_FIELDS = (
    *("temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop"),
    *("presence_penalty", "frequency_penalty", "logit_bias"),
)
_MAX_IGNORED_SHOWN = 10
_MAX_FIELD_CHARS = 40


class CitedPlace(TypedDict):
    start_index: int
    end_index: int
    title: str
    url: str


class Citation(TypedDict):
    type: Literal["url_citation"]
    url_citation: CitedPlace


class Message(TypedDict):
    """The answer; the steps are its reasoning, and `hoptree` is the reply of `/v1/ask`."""

    role: Literal["assistant"]
    content: str
    refusal: None
    reasoning_content: str
    annotations: list[Citation]
    hoptree: AskReply


class Choice(TypedDict):
    index: int
    message: Message
    logprobs: None
    finish_reason: Literal["stop", "length"]


class CompletionUsage(TypedDict):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: dict[Literal["cached_tokens"], int]
    completion_tokens_details: dict[Literal["reasoning_tokens"], int]


class Completion(TypedDict):
    """OpenAI's chat completion."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: CompletionUsage


_CHAT_REPLIES = replies(None, CHAT_ERRORS, openai=True) | {
    200: reply(Completion, "A completion, or with stream its chunks.", stream=True)
}


def _ask_request(body: ChatBody, models: Collection[str]) -> AskRequest:
    question = _read_question(body)
    method, separator, model = body.model.partition("@")
    methods = [known.name for known in list_methods()]
    if method not in methods:
        raise unknown("model", body.model, methods, status=404, param="model")
    if separator and model not in models:
        raise unknown("model", model, models, status=404, param="model")
    return (body.hoptree or Choices()).as_request(question, method, model if separator else None)


def _read_question(body: ChatBody) -> str:
    """Return the last message, which must be the user's; refuse what the server cannot do."""
    if body.n not in (None, 1):
        raise _unsupported("n", "A question has one answer.")
    for name in ("tools", "functions"):
        if getattr(body, name):
            raise _unsupported(name, "Methods call no tools of clients.")
    if body.logprobs:
        raise _unsupported("logprobs", "An answer has no log-probabilities.")
    if body.response_format and body.response_format.get("type", "text") != "text":
        raise _unsupported("response_format", "Answers are text.")
    last = body.messages[-1]
    if last.role != "user":
        raise _unsupported("messages", "The last message is not the user's.")
    if isinstance(last.content, list):
        if any(part.type != "text" for part in last.content):
            raise _unsupported("messages", "Only text can be asked.")
        return "\n".join(part.text for part in last.content)
    return last.content or ""


def _unsupported(field: str, why: str) -> Refusal:
    remedy = "End with a message of the user's, the question as text." if field == "messages" else "Leave it out."
    return Refusal(400, "Unsupported", f"{field}: {why}", remedy, param=field)


def ignored_fields(body: ChatBody) -> list[str]:
    """Return a warning for everything in a request that has no effect."""
    warnings = []
    if len(body.messages) > 1:
        warnings.append("Only the last message was read: every question stands for itself.")
    given = [name for name, value in (body.model_extra or {}).items() if value is not None]
    if sampling := [name for name in _SAMPLING_FIELDS if name in given]:
        warnings.append(f"Methods decide for themselves about {', '.join(sampling)}.")
    others = []
    for name in given:
        if name not in _SAMPLING_FIELDS:
            close = guess(name, [*ChatBody.model_fields])
            hint = f" (did you mean {close}?)" if close and close not in name else ""
            others.append(f"{name[:_MAX_FIELD_CHARS]}{hint}")
    if others:
        more = ", …" if len(others) > _MAX_IGNORED_SHOWN else ""
        warnings.append(f"Not read: {', '.join(others[:_MAX_IGNORED_SHOWN])}{more}.")
    return warnings


@dataclass(frozen=True, slots=True)
class _Chat:
    """A completion that is being made: the fields that all of its chunks share, and warnings about its request."""

    id: str
    created: int
    model: str
    prepared: PreparedQuestion
    warnings: list[str]

    def chunk(self, choices: list[dict[str, Any]], **fields: Any) -> bytes:
        shared = {"id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model}
        return _data({**shared, "choices": choices, **fields})

    def extension(self, result: Result) -> AskReply:
        view = result_view(result, self.prepared.model_name)
        return {**view, "warnings": [*view["warnings"], *self.warnings]}

    def citations(self, result: Result) -> list[Citation]:
        """Cite the passages that the answer rests on, each for the whole answer."""
        corpus, end = quote(self.prepared.corpus or "", safe=""), len(result.answer or _NO_ANSWER)
        return [
            Citation(
                type="url_citation",
                url_citation=CitedPlace(
                    start_index=0,
                    end_index=end,
                    title=passage.title,
                    url=f"hoptree:{corpus}/{quote(passage.id, safe='', errors='replace')}",
                ),
            )
            for passage in result.evidence
        ]


def _finish_reason(result: Result) -> Literal["stop", "length"]:
    return "length" if result.stopped_by else "stop"


def _usage(result: Result) -> CompletionUsage:
    usage = result.usage
    return CompletionUsage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
        prompt_tokens_details={"cached_tokens": usage.cached_tokens},
        completion_tokens_details={"reasoning_tokens": usage.reasoning_tokens},
    )


async def _complete(questions: QuestionService, chat: _Chat, request: Request) -> Completion:
    steps: list[str] = []
    progress = ProgressText()

    def listen(event: Event) -> None:
        if step := progress.step(event):
            steps.append(step["text"])

    result = await ask_until_disconnect(request, questions, chat.prepared, (listen,))
    if result.failure:
        raise result.failure
    message = Message(
        role="assistant",
        content=result.answer or _NO_ANSWER,
        refusal=None,
        reasoning_content="\n".join(steps),
        annotations=chat.citations(result),
        hoptree=chat.extension(result),
    )
    return Completion(
        id=chat.id,
        object="chat.completion",
        created=chat.created,
        model=chat.model,
        choices=[Choice(index=0, message=message, logprobs=None, finish_reason=_finish_reason(result))],
        usage=_usage(result),
    )


async def _stream_chat(
    questions: QuestionService, chat: _Chat, request: Request, *, usage: bool
) -> AsyncGenerator[bytes, None]:
    """Yield steps as reasoning while they happen, then the answer, what it rests on, and the usage."""

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return chat.chunk([choice], **({"usage": None} if usage else {}))

    progress = ProgressText()
    yield chunk({"role": "assistant", "content": ""})
    async for update in question_updates(questions, chat.prepared):
        match update:
            case Event():
                if step := progress.step(update):
                    yield chunk({"reasoning_content": f"{step['text']}\n"})
            case None:
                yield KEEP_ALIVE
            case Result():
                if update.failure:
                    yield _data(error_body(refusal_of(update.failure), openai=True))
                    break
                yield chunk({"content": update.answer or _NO_ANSWER})
                last = {"annotations": chat.citations(update), "hoptree": chat.extension(update)}
                yield chunk(last, _finish_reason(update))
                if usage:
                    yield chat.chunk([], usage=_usage(update))
            case Refusal():
                note_refusal(request, update, questions.metrics)
                yield _data(error_body(update, openai=True))
    yield b"data: [DONE]\n\n"


def _data(value: Any) -> bytes:
    return b"data: %s\n\n" % to_json(value)
