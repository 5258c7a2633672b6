"""Requests and replies of llama.cpp's server, and the choice of its KV slots."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from hoptree.core.errors import EndpointError, ModelError, RequestTooLong, UnusableReply
from hoptree.core.values import Token
from hoptree.models.model import Choice, Reply, Request, TokenUsage, read_choice, read_token


@dataclass(slots=True)
class Completion:
    """One streamed completion, put together."""

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
        # Streaming lets a call be stopped, progress also while a long prompt is read.
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
    """Return sampling parameters without the cut-offs that llama.cpp or a model's file add."""
    plain = {"temperature": temperature, "top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.0}
    if temperature == 0:
        return {**plain, "top_k": 1}
    if top_p == 1 and not top_k:
        return {**plain, "top_k": 0}
    # llama.cpp would cut off before applying the temperature.
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
            done.tokens.extend(map(read_token, (choice.get("logprobs") or {}).get("content") or ()))
        if usage := chunk.get("usage"):
            done.usage = _usage(usage)
    if not done.finish:
        raise UnusableReply("llama.cpp ended a completion without saying why.", "Try again.")
    return done


def _usage(usage: dict[str, Any]) -> TokenUsage:
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    reasoning = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
    return TokenUsage(usage.get("prompt_tokens", 0), cached, usage.get("completion_tokens", 0), reasoning)


def refusal_error(chunk: dict[str, Any]) -> ModelError:
    detail = chunk.get("error")
    if not isinstance(detail, dict):
        return UnusableReply(
            f"llama.cpp answered with something else than a completion: {str(chunk)[:200]}.", "Try again."
        )
    status = detail.get("code") if isinstance(detail.get("code"), int) else None
    if detail.get("type") == "exceed_context_size_error":
        return RequestTooLong(
            f"The prompt has {detail.get('n_prompt_tokens')} tokens and the model's context {detail.get('n_ctx')}.",
            "Raise it (local/NAME?n_ctx=8192), or read fewer passages (--set k=…).",
            status=status,
        )
    message = str(detail.get("message", detail)).rstrip(".")
    return EndpointError(f"llama.cpp refused the request: {message}.", status=status, retryable=(status or 0) >= 500)


def build_reply(completions: Sequence[Completion], prefix: str) -> Reply:
    # The samples share one prompt: it is counted once, as endpoints count it.
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
    finish: Literal["stop", "length", "other"] = "other"
    if done.finish in ("stop", "length"):
        finish = cast(Literal["stop", "length"], done.finish)
    return read_choice(text, reasoning=done.reasoning, finish=finish, tokens=done.tokens)


@dataclass(slots=True)
class Slot:
    """One KV slot of llama.cpp: the prompt it read last, the key of the opening it holds, and how far it is adapted."""

    number: int
    step: str = ""
    prompt: str = ""
    used: int = 0
    busy: bool = False
    opening: str = ""
    adapted: float | None = None


class SlotPool:
    """Chooses the slot of a call: one that its step used before, else the one idle longest.

    llama.cpp would choose by how much of the prompt matches; the few words that all prompts of a chat template share
    would be enough to give one step's slot to another.
    """

    def __init__(self, count: int) -> None:
        self._slots = [Slot(number) for number in range(count)]
        self._lock = threading.Lock()
        self._clock = 0

    def take(self, step: str, prompt: str) -> Slot:
        with self._lock:
            idle = [slot for slot in self._slots if not slot.busy]
            if same := [slot for slot in idle if slot.step == step]:
                slot = max(same, key=lambda slot: _common_prefix_length(slot.prompt, prompt))
            else:
                slot = min(idle, key=lambda slot: slot.used)
            self._clock += 1
            slot.step, slot.prompt, slot.used, slot.busy = step, prompt, self._clock, True
            return slot

    def give_back(self, slot: Slot) -> None:
        with self._lock:
            slot.busy = False


def _common_prefix_length(left: str, right: str) -> int:
    """Return how many characters two texts have in common at the start."""
    return next(
        (place for place, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )
