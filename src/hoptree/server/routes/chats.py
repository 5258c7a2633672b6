"""OpenAI's chat completions: a method is a model, its steps are its reasoning."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from hoptree.methods.registry import list_methods
from hoptree.runtime.result import Result
from hoptree.runtime.trace import Event
from hoptree.server.asking import Prepared, Wanted
from hoptree.server.chat import citations, content_of, finish_of, question_in, unread, usage_of
from hoptree.server.document import QUESTION, replies, reply
from hoptree.server.house import House
from hoptree.server.mistakes import note_refusal
from hoptree.server.names import unknown
from hoptree.server.refusals import Refusal, refusal_of, told_error
from hoptree.server.reply_schemas.chats import Completion
from hoptree.server.replying import Json, to_json
from hoptree.server.schemas import ChatBody, Choices, said_to_be_json
from hoptree.server.streaming import EventStream, Happened, Idle, happenings, unless_gone
from hoptree.server.telling import told_result
from hoptree.server.words import Words

__all__ = ["chat_routes"]

_REPLIES = replies(None, QUESTION, openai=True) | {
    200: reply(Completion, "A completion, or with stream its chunks.", stream=True)
}


@dataclass(frozen=True, slots=True)
class _Completion:
    """One completion: the fields that all of its chunks share, and what a request said in vain."""

    id: str
    created: int
    model: str
    prepared: Prepared
    unread: list[str]

    def told(self, kind: str, **fields: Any) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model, **fields}

    def extension(self, result: Result) -> dict[str, Any]:
        data = told_result(result, self.prepared.model_name)
        return data | {"warnings": [*data["warnings"], *self.unread]}

    def citations(self, result: Result) -> list[dict[str, Any]]:
        return citations(result, self.prepared.corpus)


def chat_routes(house: House) -> APIRouter:
    """The route of chat completions."""
    routes = APIRouter(tags=["openai"])

    @routes.post(
        "/v1/chat/completions",
        summary="OpenAI's chat completions",
        dependencies=[Depends(said_to_be_json)],
        responses=_REPLIES,
    )
    async def complete(body: ChatBody, request: Request) -> Response:
        wanted = _wanted(body, house.models.names)
        prepared = await house.asking.prepare(wanted, request.state.key)
        name = f"chatcmpl-{uuid.uuid4().hex}"
        completion = _Completion(name, int(time.time()), body.model, prepared, unread(body))
        if body.stream:
            usage = bool(body.stream_options and body.stream_options.include_usage)
            return EventStream(_stream(house, completion, request, usage=usage))
        return await _whole(house, completion, request)

    return routes


def _wanted(body: ChatBody, models: Collection[str]) -> Wanted:
    question = question_in(body)
    method, sign, model = body.model.partition("@")
    if method not in (known := [one.name for one in list_methods()]):
        raise unknown("model", body.model, known, status=404, param="model")
    if sign and model not in models:
        raise unknown("model", model, models, status=404, param="model")
    said = body.hoptree or Choices()
    return Wanted(
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


async def _whole(house: House, completion: _Completion, request: Request) -> Response:
    steps: list[str] = []
    words = Words()

    def listen(event: Event) -> None:
        if step := words.of(event):
            steps.append(step["text"])

    result = await unless_gone(request, house.asking, completion.prepared, (listen,))
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
    house: House, completion: _Completion, request: Request, *, usage: bool
) -> AsyncGenerator[bytes, None]:
    """Steps as reasoning while they happen, then the answer, what it rests on, and the bill."""

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
        told = completion.told("chat.completion.chunk", choices=choices, **({"usage": None} if usage else {}))
        return _data(told)

    words = Words()
    yield chunk({"role": "assistant", "content": ""})
    async for news in happenings(house.asking, completion.prepared):
        match news:
            case Happened(event):
                if step := words.of(event):
                    yield chunk({"reasoning_content": f"{step['text']}\n"})
            case Idle():
                yield b": still answering\n\n"
            case Result():
                if news.failure:
                    yield _data(told_error(refusal_of(news.failure), openai=True))
                    break
                yield chunk({"content": content_of(news)})
                told = {"annotations": completion.citations(news), "hoptree": completion.extension(news)}
                yield chunk(told, finish_of(news))
                if usage:
                    yield _data(completion.told("chat.completion.chunk", choices=[], usage=usage_of(news)))
            case Refusal():
                note_refusal(request, news, house.metrics)
                yield _data(told_error(news, openai=True))
    yield b"data: [DONE]\n\n"


def _data(value: Any) -> bytes:
    return b"data: %s\n\n" % to_json(value)
