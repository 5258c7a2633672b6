"""OpenAI's chat completions: the question in a request, and the answer as its clients read it."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from hoptree.engine.events import Event
from hoptree.engine.registry import list_methods
from hoptree.engine.result import Result
from hoptree.server.error_responses import Refusal, error_body, note_refusal, refusal_of
from hoptree.server.question_service import AskRequest, PreparedQuestion, QuestionService
from hoptree.server.reply_schemas import CHAT_ERRORS, AskReply, replies, reply
from hoptree.server.request_schemas import ChatBody, Choices, require_json
from hoptree.server.settings import guess, unknown
from hoptree.server.streaming import KEEP_ALIVE, EventStream, ProgressText, ask_until_disconnect, question_updates
from hoptree.server.views import Json, result_view, to_json

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


_REPLIES = replies(None, CHAT_ERRORS, openai=True) | {
    200: reply(Completion, "A completion, or with stream its chunks.", stream=True)
}


def chat_routes(questions: QuestionService) -> APIRouter:
    """Make the route of chat completions."""
    routes = APIRouter(tags=["openai"])

    @routes.post(
        "/v1/chat/completions",
        summary="OpenAI's chat completions",
        dependencies=[Depends(require_json)],
        responses=_REPLIES,
    )
    async def complete(body: ChatBody, request: Request) -> Response:
        prepared = await questions.prepare(_ask_request(body, questions.models.names), request.state.key)
        chat_id = f"chatcmpl-{uuid.uuid4().hex}"
        chat = _Chat(chat_id, int(time.time()), body.model, prepared, ignored_fields(body))
        if body.stream:
            usage = bool(body.stream_options and body.stream_options.include_usage)
            return EventStream(_stream(questions, chat, request, usage=usage))
        return Json(await _complete(questions, chat, request))

    return routes


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
    if others := [_with_guess(name) for name in given if name not in _SAMPLING_FIELDS]:
        more = ", …" if len(others) > _MAX_IGNORED_SHOWN else ""
        warnings.append(f"Not read: {', '.join(others[:_MAX_IGNORED_SHOWN])}{more}.")
    return warnings


def _with_guess(name: str) -> str:
    close, shown = guess(name, [*ChatBody.model_fields]), name[:_MAX_FIELD_CHARS]
    return f"{shown} (did you mean {close}?)" if close and close not in name else shown


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
        corpus, end = quote(self.prepared.corpus or "", safe=""), len(_content(result))
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


def _content(result: Result) -> str:
    return result.answer or _NO_ANSWER


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
        content=_content(result),
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


async def _stream(
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
                yield chunk({"content": _content(update)})
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
