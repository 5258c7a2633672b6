"""A chat completion as OpenAI's clients know it: the question in it, and the answer as its parts."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from hoptree.engine.events import Event
from hoptree.engine.registry import list_methods
from hoptree.engine.result import Result
from hoptree.server.ask import AskRequest, PreparedQuestion
from hoptree.server.error_responses import Refusal, error_body, note_refusal, refusal_of
from hoptree.server.json_response import Json, to_json
from hoptree.server.names import guess, unknown
from hoptree.server.openapi import QUESTION, replies, reply
from hoptree.server.progress_text import ProgressText
from hoptree.server.reply_schemas.answers import Completion
from hoptree.server.request_schemas import ChatBody, Choices, require_json
from hoptree.server.state import ServerState
from hoptree.server.streaming import EventStream, Idle, TraceUpdate, ask_until_disconnect, question_updates
from hoptree.server.views import result_view

NO_ANSWER = "No answer was found."
"""What stands in the place of an answer where a method gives none."""
_SAMPLING = (
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "seed",
    "stop",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
)


_FEW = 10
_LETTERS = 40


def question_in(body: ChatBody) -> str:
    """The last message, which must be the user's; what the server cannot do is refused and not passed over."""
    _check_possible(body)
    last = body.messages[-1]
    if last.role != "user":
        raise _refused("messages", "The last message is not the user's.")
    if isinstance(last.content, list):
        if any(part.type != "text" for part in last.content):
            raise _refused("messages", "Only text can be asked.")
        return "\n".join(part.text for part in last.content)
    return last.content or ""


def _check_possible(body: ChatBody) -> None:
    if body.n not in (None, 1):
        raise _refused("n", "A question has one answer.")
    for name in ("tools", "functions"):
        if getattr(body, name):
            raise _refused(name, "Methods call no tools of clients.")
    if body.logprobs:
        raise _refused("logprobs", "An answer has no log-probabilities.")
    if body.response_format and body.response_format.get("type", "text") != "text":
        raise _refused("response_format", "Answers are text.")


def _refused(field: str, why: str) -> Refusal:
    remedy = "End with a message of the user's, the question as text." if field == "messages" else "Leave it out."
    return Refusal(400, "Unsupported", f"{field}: {why}", remedy, param=field)


def unread(body: ChatBody) -> list[str]:
    """What of a request has no effect, in words."""
    said = []
    if len(body.messages) > 1:
        said.append("Only the last message was read: every question stands for itself.")
    given = [name for name, value in (body.model_extra or {}).items() if value is not None]
    if sampling := [name for name in _SAMPLING if name in given]:
        said.append(f"Methods decide for themselves about {', '.join(sampling)}.")
    if others := [_doubted(name) for name in given if name not in _SAMPLING]:
        said.append(f"Not read: {', '.join(others[:_FEW])}{', …' * (len(others) > _FEW)}.")
    return said


def _doubted(name: str) -> str:
    close = guess(name, [*ChatBody.model_fields])
    return f"{name[:_LETTERS]} (did you mean {close}?)" if close and close not in name else name[:_LETTERS]


def content_of(result: Result) -> str:
    return result.answer or NO_ANSWER


def finish_of(result: Result) -> str:
    return "length" if result.stopped_by else "stop"


def citations(result: Result, corpus: str | None) -> list[dict[str, Any]]:
    """The passages the answer rests on, as citations of the whole answer."""
    whole = len(content_of(result))
    return [
        {
            "type": "url_citation",
            "url_citation": {
                "start_index": 0,
                "end_index": whole,
                "title": passage.title,
                "url": f"hoptree:{quote(corpus or '', safe='')}/{quote(passage.id, safe='', errors='replace')}",
            },
        }
        for passage in result.evidence
    ]


def usage_of(result: Result) -> dict[str, Any]:
    usage = result.usage
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


_REPLIES = replies(None, QUESTION, openai=True) | {
    200: reply(Completion, "A completion, or with stream its chunks.", stream=True)
}


@dataclass(frozen=True, slots=True)
class _Completion:
    """One completion: the fields that all of its chunks share, and what a request said in vain."""

    id: str
    created: int
    model: str
    prepared: PreparedQuestion
    unread: list[str]

    def told(self, kind: str, **fields: Any) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model, **fields}

    def extension(self, result: Result) -> dict[str, Any]:
        data = result_view(result, self.prepared.model_name)
        return data | {"warnings": [*data["warnings"], *self.unread]}

    def citations(self, result: Result) -> list[dict[str, Any]]:
        return citations(result, self.prepared.corpus)


def chat_routes(state: ServerState) -> APIRouter:
    """The route of chat completions."""
    routes = APIRouter(tags=["openai"])

    @routes.post(
        "/v1/chat/completions",
        summary="OpenAI's chat completions",
        dependencies=[Depends(require_json)],
        responses=_REPLIES,
    )
    async def complete(body: ChatBody, request: Request) -> Response:
        wanted = _wanted(body, state.models.names)
        prepared = await state.questions.prepare(wanted, request.state.key)
        name = f"chatcmpl-{uuid.uuid4().hex}"
        completion = _Completion(name, int(time.time()), body.model, prepared, unread(body))
        if body.stream:
            usage = bool(body.stream_options and body.stream_options.include_usage)
            return EventStream(_stream(state, completion, request, usage=usage))
        return await _whole(state, completion, request)

    return routes


def _wanted(body: ChatBody, models: Collection[str]) -> AskRequest:
    question = question_in(body)
    method, sign, model = body.model.partition("@")
    if method not in (known := [one.name for one in list_methods()]):
        raise unknown("model", body.model, known, status=404, param="model")
    if sign and model not in models:
        raise unknown("model", model, models, status=404, param="model")
    said = body.hoptree or Choices()
    return AskRequest(
        question,
        method=method,
        model=model if sign else None,
        corpus=said.corpus,
        graph=said.graph,
        retriever=said.retriever,
        rerank=said.rerank,
        options=said.options,
        budget=said.budget.as_budget(),
    )


async def _whole(state: ServerState, completion: _Completion, request: Request) -> Response:
    steps: list[str] = []
    words = ProgressText()

    def listen(event: Event) -> None:
        if step := words.of(event):
            steps.append(step["text"])

    result = await ask_until_disconnect(request, state.questions, completion.prepared, (listen,))
    if result.failure:
        raise result.failure
    message = {
        "role": "assistant",
        "content": content_of(result),
        "refusal": None,
        "reasoning_content": "\n".join(steps),
        "annotations": completion.citations(result),
        "hoptree": completion.extension(result),
    }
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_of(result)}
    return Json(completion.told("chat.completion", choices=[choice], usage=usage_of(result)))


async def _stream(
    state: ServerState, completion: _Completion, request: Request, *, usage: bool
) -> AsyncGenerator[bytes, None]:
    """Steps as reasoning while they happen, then the answer, what it rests on, and the bill."""

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
        told = completion.told("chat.completion.chunk", choices=choices, **({"usage": None} if usage else {}))
        return _data(told)

    words = ProgressText()
    yield chunk({"role": "assistant", "content": ""})
    async for news in question_updates(state.questions, completion.prepared):
        match news:
            case TraceUpdate(event):
                if step := words.of(event):
                    yield chunk({"reasoning_content": f"{step['text']}\n"})
            case Idle():
                yield b": still answering\n\n"
            case Result():
                if news.failure:
                    yield _data(error_body(refusal_of(news.failure), openai=True))
                    break
                yield chunk({"content": content_of(news)})
                told = {"annotations": completion.citations(news), "hoptree": completion.extension(news)}
                yield chunk(told, finish_of(news))
                if usage:
                    yield _data(completion.told("chat.completion.chunk", choices=[], usage=usage_of(news)))
            case Refusal():
                note_refusal(request, news, state.metrics)
                yield _data(error_body(news, openai=True))
    yield b"data: [DONE]\n\n"


def _data(value: Any) -> bytes:
    return b"data: %s\n\n" % to_json(value)
