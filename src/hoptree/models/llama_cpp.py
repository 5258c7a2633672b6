"""What llama.cpp's server is asked and what it answers: translation to and from its words, and nothing else."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hoptree.core.errors import EndpointError, ModelError, RequestTooLong, UnusableReply
from hoptree.core.values import Token
from hoptree.models.model import Choice, Reply, Request, TokenUsage, read_choice


@dataclass(slots=True)
class Completion:
    """What the pieces of one streamed completion add up to."""

    text: str = ""
    reasoning: str = ""
    finish: str = ""
    tokens: list[Token] = field(default_factory=list)
    usage: TokenUsage = field(default_factory=TokenUsage)


def request_body(request: Request, seed: int) -> dict[str, Any]:
    messages = [{"role": message.role, "content": message.content} for message in request.messages]
    if request.prefix:
        messages.append({"role": "assistant", "content": request.prefix})
    body: dict[str, Any] = {
        "messages": messages,
        "max_tokens": request.max_tokens,
        "seed": seed,
        # Streaming is what lets a call be stopped, and progress what lets it be stopped while a long prompt is read.
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
        **sampling(request.temperature, request.top_p, request.top_k),
    }
    if request.stop:
        body["stop"] = list(request.stop)
    if request.top_logprobs:
        body.update(logprobs=True, top_logprobs=request.top_logprobs)
    if request.json_schema:
        try:
            schema = json.loads(request.json_schema)
        except ValueError as error:
            raise EndpointError("The request's JSON schema is not JSON.", "Correct the schema.") from error
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}
    return body


def sampling(temperature: float, top_p: float = 1.0, top_k: int = 0) -> dict[str, Any]:
    """What the request says and nothing besides: llama.cpp, or a model's file, would cut the distribution off."""
    plain = {"temperature": temperature, "top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.0}
    if temperature == 0:
        return {**plain, "top_k": 1}
    if top_p == 1 and not top_k:
        return {**plain, "top_k": 0}
    # In this order, as elsewhere: llama.cpp would cut off before the temperature counts.
    return {**plain, "top_p": top_p, "top_k": top_k, "samplers": ["temperature", "top_k", "top_p"]}


def assemble(chunks: Sequence[dict[str, Any]]) -> Completion:
    done = Completion()
    for chunk in chunks:
        if "choices" not in chunk:
            raise refusal_error(chunk)
        for choice in chunk["choices"]:
            delta = choice.get("delta") or {}
            done.text += delta.get("content") or ""
            done.reasoning += delta.get("reasoning_content") or ""
            done.finish = choice.get("finish_reason") or done.finish
            done.tokens.extend(_token(item) for item in (choice.get("logprobs") or {}).get("content") or ())
        if usage := chunk.get("usage"):
            done.usage = _usage(usage)
    if not done.finish:
        raise UnusableReply("llama.cpp ended a completion without saying why.", "Try again.")
    return done


def _token(item: dict[str, Any]) -> Token:
    rivals = tuple((rival["token"], float(rival["logprob"])) for rival in item.get("top_logprobs") or ())
    return Token(item["token"], float(item["logprob"]), rivals)


def _usage(usage: dict[str, Any]) -> TokenUsage:
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    reasoning = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
    return TokenUsage(usage.get("prompt_tokens", 0), cached, usage.get("completion_tokens", 0), reasoning)


def refusal_error(chunk: dict[str, Any]) -> ModelError:
    told = chunk.get("error")
    if not isinstance(told, dict):
        return UnusableReply(
            f"llama.cpp answered with something else than a completion: {str(chunk)[:200]}.", "Try again."
        )
    status = told.get("code") if isinstance(told.get("code"), int) else None
    if told.get("type") == "exceed_context_size_error":
        return RequestTooLong(
            f"The prompt has {told.get('n_prompt_tokens')} tokens and the model's context {told.get('n_ctx')}.",
            "Raise it (local/NAME?n_ctx=8192), or read fewer passages (--set k=…).",
            status=status,
        )
    message = str(told.get("message", told)).rstrip(".")
    return EndpointError(f"llama.cpp refused the request: {message}.", status=status, retryable=(status or 0) >= 500)


def build_reply(completions: Sequence[Completion], prefix: str) -> Reply:
    # The samples share one prompt: it is counted once, as an endpoint that samples by itself counts it.
    first = completions[0].usage
    usage = TokenUsage(
        first.prompt,
        first.cached,
        sum(done.usage.completion for done in completions),
        sum(done.usage.reasoning for done in completions),
    )
    return Reply(tuple(_choice(done, prefix) for done in completions), usage)


def _choice(done: Completion, prefix: str) -> Choice:
    # llama.cpp repeats the beginning it was given; the reply holds the continuation, as its tokens do.
    text = done.text.removeprefix(prefix)
    return read_choice(text, reasoning=done.reasoning, finish=_finish(done.finish), tokens=done.tokens)


def _finish(reason: str) -> Literal["stop", "length", "other"]:
    if reason == "stop":
        return "stop"
    return "length" if reason == "length" else "other"


@dataclass(slots=True)
class Slot:
    """One sequence of llama.cpp's memory, and the prompt it read last."""

    number: int
    step: str = ""
    prompt: str = ""
    used: int = 0
    busy: bool = False


class SlotPool:
    """Which lane a call takes: one that its step used before, else the one that was idle longest.

    llama.cpp would choose by itself, by how much of the prompt matches; but then the few words with which every prompt
    of a chat template begins are enough to give one step's lane away to another while others lie empty.
    """

    def __init__(self, count: int) -> None:
        self._lanes = [Slot(number) for number in range(count)]
        self._lock = threading.Lock()
        self._clock = 0

    def take(self, step: str, prompt: str) -> Slot:
        with self._lock:
            idle = [lane for lane in self._lanes if not lane.busy]
            if same := [lane for lane in idle if lane.step == step]:
                lane = max(same, key=lambda lane: _shared(lane.prompt, prompt))
            else:
                lane = min(idle, key=lambda lane: lane.used)
            self._clock += 1
            lane.step, lane.prompt, lane.used, lane.busy = step, prompt, self._clock, True
            return lane

    def give_back(self, lane: Slot) -> None:
        with self._lock:
            lane.busy = False


def _shared(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
