"""OpenAI's chat completions and responses: cited answers, with trees as reasoning."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from hoptree.core.values import Passage
from hoptree.engine.answer_sentence import CITATIONS
from hoptree.engine.events import Event
from hoptree.engine.registry import list_methods
from hoptree.engine.result import Result
from hoptree.engine.result_text import tree_lines
from hoptree.engine.trace import ModelProgress
from hoptree.retrieval.retriever import is_remote
from hoptree.server import reply_schemas as schemas
from hoptree.server import streaming
from hoptree.server.answer_format import NO_LEVEL, AnswerFormat, read_answer_format
from hoptree.server.error_responses import Refusal, error_body, note_refusal, refusal_of
from hoptree.server.question_service import AskRequest, PreparedQuestion, QuestionService
from hoptree.server.reply_schemas import replies, reply
from hoptree.server.request_schemas import (
    ChatBody,
    ChatMessage,
    Choices,
    ResponsesBody,
    ignored_fields,
    require_json,
)
from hoptree.server.settings import unknown
from hoptree.server.views import Json, result_view, to_json

_NO_ANSWER = "No answer was found."
_NUMBER = re.compile(r"\[(\d+)\]")
_CHAT_REPLIES = replies(None, schemas.CHAT_ERRORS, openai=True) | {
    200: reply(schemas.Completion, "A completion, or with stream its chunks.", stream=True)
}
_RESPONSE_REPLIES = replies(None, schemas.CHAT_ERRORS, openai=True) | {
    200: reply(schemas.ResponseReply, "A response, or with stream its events.", stream=True)
}


def openai_routes(questions: QuestionService) -> APIRouter:
    """Make the routes for OpenAI's clients."""
    routes = APIRouter(dependencies=[Depends(require_json)], tags=["openai"])

    async def open_chat(
        prefix: str, body: ChatBody | ResponsesBody, field: str, form: AnswerFormat | None, request: Request
    ) -> _Chat:
        prepared = await questions.prepare(_ask_request(body, field, questions.models.names), request.state.key)
        corpus, url = quote(prepared.corpus or "", safe=""), f"{request.base_url}v1/corpora/"
        here = prepared.corpus is not None and not is_remote(questions.corpora.place(prepared.corpus))
        passages_url = f"{url}{corpus}/passages/" if here else f"hoptree:{corpus}/"
        chat_id, now = f"{prefix}{uuid.uuid4().hex}", int(time.time())
        return _Chat(chat_id, now, body.model, prepared, ignored_fields(body), form, passages_url)

    @routes.post("/v1/chat/completions", summary="OpenAI's chat completions", responses=_CHAT_REPLIES)
    async def complete(body: ChatBody, request: Request) -> Response:
        if body.n not in (None, 1):
            raise _unsupported("n", "A question has one answer.")
        if body.logprobs:
            raise _unsupported("logprobs", "An answer has no log-probabilities.")
        form = read_answer_format("response_format", body.response_format)
        chat = await open_chat("chatcmpl-", body, "messages", form, request)
        if body.stream:
            usage = bool(body.stream_options and body.stream_options.include_usage)
            return streaming.EventStream(_stream_chat(questions, chat, request, usage=usage))
        steps, result = await _ask(questions, chat, request)
        return Json(chat.completion(result, steps))

    @routes.post("/v1/responses", summary="OpenAI's responses", responses=_RESPONSE_REPLIES)
    async def respond(body: ResponsesBody, request: Request) -> Response:
        if body.previous_response_id:
            raise _unsupported("previous_response_id", "Nothing is stored here; send the conversation as input.")
        given = (body.text or {}).get("format")
        form = read_answer_format("text.format", given if isinstance(given, dict) else None)
        chat = await open_chat("resp_", body, "input", form, request)
        if body.stream:
            return streaming.EventStream(_stream_response(questions, chat, request))
        steps, result = await _ask(questions, chat, request)
        return Json(chat.response(result, steps))

    return routes


def _ask_request(body: ChatBody | ResponsesBody, field: str, models: Collection[str]) -> AskRequest:
    """Return the request for the last message, a user's, after its conversation."""
    messages = body.messages
    for name in ("tools", "functions"):
        if getattr(body, name, None):
            raise _unsupported(name, "Methods call no tools of clients.")
    if not messages or messages[-1].role != "user":
        raise _unsupported(field, "The last message is not the user's.")
    if not messages[-1].is_text:
        raise _unsupported(field, "Only text can be asked.")
    question = messages[-1].text
    method, separator, model = body.model.partition("@")
    methods = [known.name for known in list_methods()]
    if method not in methods:
        raise unknown("model", body.model, methods, status=404, param="model")
    if separator and model not in models:
        raise unknown("model", model, models, status=404, param="model")
    turns = list(_turns(messages[:-1]))
    return (body.hoptree or Choices()).as_request(question, method, model if separator else None, turns)


def _turns(messages: Sequence[ChatMessage]) -> Iterator[tuple[str, str]]:
    """Yield the questions of a conversation with their answers."""
    question = ""
    for message in messages:
        text = message.text if message.role in ("user", "assistant") else ""
        if message.role == "user":
            question = text
        elif question and text:
            yield question, text
            question = ""


def _unsupported(field: str, why: str) -> Refusal:
    last = field in ("messages", "input")
    remedy = "End with a message of the user's, the question as text." if last else "Leave it out."
    return Refusal(400, "Unsupported", f"{field}: {why}", remedy, param=field)


@dataclass(frozen=True, slots=True)
class _Chat:
    """What all parts of one reply share."""

    id: str
    created: int
    model: str
    prepared: PreparedQuestion
    warnings: list[str]  # about its request
    form: AnswerFormat | None  # None for a sentence
    passages_url: str  # the prefix of a passage's URL, which cannot be opened for remote corpora

    def content(self, result: Result) -> str:
        """Return a sentence, or the JSON that the client asked for."""
        if self.form is None:
            return result.sentence or result.answer or _NO_ANSWER
        confidence = result.confidence
        values: dict[str, Any] = {
            "question": result.question,
            "answer": result.answer,
            "sentence": result.sentence,
            "level": confidence.level if confidence else NO_LEVEL,
            "reason": confidence.reason if confidence else "",
            "probability": confidence.probability if confidence else None,
            "citations": [{"id": passage.id, "title": passage.title} for _, passage in _cited(result)],
            "sub_questions": [
                {"question": node.resolved or node.question, "answer": node.answer}
                for top in result.tree
                for node in top.walk()
            ],
        }
        for name, fields in self.form.items():
            if fields:
                values[name] = [{field: item[field] for field in fields} for item in values[name]]
        return json.dumps({name: values[name] for name in self.form}, ensure_ascii=False)

    def chunk(self, choices: list[dict[str, Any]], **fields: Any) -> bytes:
        shared = {"id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model}
        return b"data: %s\n\n" % to_json({**shared, "choices": choices, **fields})

    def extension(self, result: Result) -> schemas.AskReply:
        view = result_view(result, self.prepared.model_name)
        return {**view, "warnings": [*view["warnings"], *self.warnings]}

    def places(self, result: Result) -> list[schemas.CitedPlace]:
        """Cite passages where the sentence has their number.

        Those without a number are cited for the whole answer; without an answer, nothing is.
        """
        content = self.content(result)
        marks = _citation_spans(content) if self.form is None else {}
        return [
            schemas.CitedPlace(
                start_index=marks.get(number, (0, 0))[0],
                end_index=marks.get(number, (0, len(content)))[1],
                title=passage.title,
                url=f"{self.passages_url}{quote(passage.id, safe='', errors='replace')}",
            )
            for number, passage in _cited(result)
        ]

    def citations(self, result: Result) -> list[schemas.Citation]:
        return [schemas.Citation(type="url_citation", url_citation=place) for place in self.places(result)]

    def completion(self, result: Result, steps: Sequence[str]) -> schemas.Completion:
        message = schemas.Message(
            role="assistant",
            content=self.content(result),
            refusal=None,
            reasoning_content="\n".join(steps),
            annotations=self.citations(result),
            hoptree=self.extension(result),
        )
        return schemas.Completion(
            id=self.id,
            object="chat.completion",
            created=self.created,
            model=self.model,
            choices=[schemas.Choice(index=0, message=message, logprobs=None, finish_reason=_finish_reason(result))],
            usage=_usage(result),
        )

    def response(self, result: Result | None, steps: Sequence[str]) -> schemas.ResponseReply:
        """Return a response, which is in progress without a result."""
        usage = _usage(result) if result else None
        incomplete = result is not None and bool(result.stopped_by)
        return schemas.ResponseReply(
            id=self.id,
            object="response",
            created_at=self.created,
            status="incomplete" if incomplete else "completed" if result else "in_progress",
            model=self.model,
            output=[self.reasoning_item(steps), self.message_item(result)] if result else [],
            usage=usage
            and {
                "input_tokens": usage["prompt_tokens"],
                "input_tokens_details": usage["prompt_tokens_details"],
                "output_tokens": usage["completion_tokens"],
                "output_tokens_details": usage["completion_tokens_details"],
                "total_tokens": usage["total_tokens"],
            },
            error=None,
            incomplete_details={"reason": "max_output_tokens"} if incomplete else None,
            hoptree=self.extension(result) if result else None,
            parallel_tool_calls=False,
            tool_choice="none",
            tools=[],
            metadata={},
        )

    def reasoning_item(self, steps: Sequence[str]) -> dict[str, Any]:
        summary = [{"type": "summary_text", "text": "\n".join(steps)}] if steps else []
        return {"type": "reasoning", "id": f"rs_{self.id[5:]}", "summary": summary}

    def message_item(self, result: Result | None) -> dict[str, Any]:
        parts = [self.text_part(result)] if result else []
        status = "completed" if result else "in_progress"
        return {"type": "message", "id": f"msg_{self.id[5:]}", "role": "assistant", "status": status, "content": parts}

    def text_part(self, result: Result | None) -> dict[str, Any]:
        notes = [{"type": "url_citation", **place} for place in self.places(result)] if result else []
        text = self.content(result) if result else ""
        return {"type": "output_text", "text": text, "annotations": notes, "logprobs": []}


def _citation_spans(sentence: str) -> dict[int, tuple[int, int]]:
    """Return where a sentence cites each number."""
    spans = [mark.span() for mark in CITATIONS.finditer(sentence)]
    return {int(mark[1]): mark.span() for span in spans for mark in _NUMBER.finditer(sentence, *span)}


def _cited(result: Result) -> list[tuple[int, Passage]]:
    """Return the passages of the evidence and of the sentence, with numbers."""
    numbers = _citation_spans(result.sentence)
    passages = enumerate(result.evidence, 1)
    return [(number, passage) for number, passage in passages if number in numbers or passage in result.consulted]


def _finish_reason(result: Result) -> Literal["stop", "length"]:
    return "length" if result.stopped_by else "stop"


def _usage(result: Result) -> schemas.CompletionUsage:
    usage = result.usage
    return schemas.CompletionUsage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
        prompt_tokens_details={"cached_tokens": usage.cached_tokens},
        completion_tokens_details={"reasoning_tokens": usage.reasoning_tokens},
    )


async def _ask(questions: QuestionService, chat: _Chat, request: Request) -> tuple[list[str], Result]:
    """Return the steps, which end with the tree, and the result; raise a failure."""
    steps: list[str] = []
    progress = streaming.ProgressText()

    def listen(event: Event) -> None:
        if step := progress.step(event):
            steps.append(step["text"])

    result = await streaming.ask_until_disconnect(request, questions, chat.prepared, (listen,))
    if result.failure:
        raise result.failure
    return [*steps, *_last_steps(result)], result


def _last_steps(result: Result) -> list[str]:
    return ["", *tree_lines(result.tree)] if result.tree else []


async def _updates(
    questions: QuestionService, chat: _Chat, request: Request
) -> AsyncGenerator[str | Result | Refusal | None, None]:
    """Yield lines for steps, then for the tree, and at last the result or a refusal."""
    progress = streaming.ProgressText()
    async for update in streaming.question_updates(questions, chat.prepared):
        match update:
            case ModelProgress():
                yield None
            case Event():
                if step := progress.step(update):
                    yield step["text"]
            case None:
                yield None
            case Result():
                if update.failure:
                    yield refusal_of(update.failure)
                    return
                for line in _last_steps(update):
                    yield line
                yield update
            case Refusal():
                note_refusal(request, update, questions.metrics)
                yield update


async def _stream_chat(
    questions: QuestionService, chat: _Chat, request: Request, *, usage: bool
) -> AsyncGenerator[bytes, None]:
    """Yield steps as reasoning as they happen, then the answer, citations and usage."""

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return chat.chunk([choice], **({"usage": None} if usage else {}))

    yield chunk({"role": "assistant", "content": ""})
    async for update in _updates(questions, chat, request):
        match update:
            case str():
                yield chunk({"reasoning_content": f"{update}\n"})
            case None:
                yield streaming.KEEP_ALIVE
            case Result():
                yield chunk({"content": chat.content(update)})
                last = {"annotations": chat.citations(update), "hoptree": chat.extension(update)}
                yield chunk(last, _finish_reason(update))
                if usage:
                    yield chat.chunk([], usage=_usage(update))
            case Refusal():
                yield b"data: %s\n\n" % to_json(error_body(update, openai=True))
    yield b"data: [DONE]\n\n"


async def _stream_response(questions: QuestionService, chat: _Chat, request: Request) -> AsyncGenerator[bytes, None]:
    """Yield the events of a response: the tree as reasoning, then the message."""
    number, steps = 0, list[str]()

    def event(kind: str, **fields: Any) -> bytes:
        nonlocal number
        number += 1
        return streaming.server_sent(
            f"response.{kind}", {"type": f"response.{kind}", "sequence_number": number - 1, **fields}
        )

    thought = {"item_id": chat.reasoning_item(())["id"], "output_index": 0, "summary_index": 0}
    message = {"item_id": chat.message_item(None)["id"], "output_index": 1, "content_index": 0}
    yield event("created", response=chat.response(None, ()))
    yield event("in_progress", response=chat.response(None, ()))
    yield event("output_item.added", output_index=0, item=chat.reasoning_item(()))
    yield event("reasoning_summary_part.added", **thought, part={"type": "summary_text", "text": ""})
    async for update in _updates(questions, chat, request):
        match update:
            case str():
                yield event("reasoning_summary_text.delta", **thought, delta=f"\n{update}" if steps else update)
                steps.append(update)
            case None:
                yield streaming.KEEP_ALIVE
            case Result():
                text, part = "\n".join(steps), chat.text_part(update)
                yield event("reasoning_summary_text.done", **thought, text=text)
                yield event("reasoning_summary_part.done", **thought, part={"type": "summary_text", "text": text})
                yield event("output_item.done", output_index=0, item=chat.reasoning_item(steps))
                yield event("output_item.added", output_index=1, item=chat.message_item(None))
                yield event("content_part.added", **message, part=chat.text_part(None))
                yield event("output_text.delta", **message, delta=part["text"], logprobs=[])
                yield event("output_text.done", **message, text=part["text"], logprobs=[])
                yield event("content_part.done", **message, part=part)
                yield event("output_item.done", output_index=1, item=chat.message_item(update))
                response = chat.response(update, steps)
                yield event(str(response["status"]), response=response)
            case Refusal():
                error = error_body(update, openai=True)["error"]
                failed = chat.response(None, ()) | {"status": "failed", "error": error}
                yield event("failed", response=failed)
