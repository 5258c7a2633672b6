"""Endpoints with OpenAI's chat completions: OpenAI, vLLM, Ollama and others."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from hoptree.core.config import is_loopback_url
from hoptree.core.errors import ConfigError, EndpointError, UnusableReply
from hoptree.core.http_body import describe_body, error_text, parse_json, read_body
from hoptree.core.http_client import MAX_BODY_BYTES, HttpClient, key_header, without_password
from hoptree.core.lazy import lazy_re
from hoptree.models.model import (
    Capability,
    Choice,
    Message,
    Reply,
    Request,
    TokenUsage,
    read_choice,
    read_finish,
    read_token,
    read_usage,
)

DEFAULT_URL = "https://api.openai.com/v1"
_TIMEOUT_S, _LOCAL_TIMEOUT_S = 120.0, 1800.0  # for a reply, unless the model's name has another number
_RENAMED = {"max_tokens": "max_completion_tokens"}
_OPTIONAL = ("temperature", "seed", "stop", "top_p")
_LOGPROBS = ("logprobs", "top_logprobs")
_FALLBACK_LOGPROBS = (5, 1)  # alternatives a token to request if an endpoint refuses more without naming its limit
_encode = json.JSONEncoder(separators=(",", ":")).encode
_HTML = lazy_re(r"\s*<(?:!doctype\s+html|html)\b", re.IGNORECASE)


class OpenAIModel:
    """A model at an OpenAI-compatible base URL.

    Parameters that an endpoint refuses (`max_tokens`, `temperature`, `seed`, `top_p`) are renamed or left out from then
    on, and fewer log-probabilities are requested if they are capped; every other failure becomes a typed error.
    """

    capabilities: frozenset[Capability] = frozenset({"logprobs", "n_samples", "json_schema", "top_p"})

    def __init__(
        self,
        name: str,
        *,
        base_url: str = "",
        timeout: float | None = None,
        slots: int = 100,
        kind: str = "openai",
    ) -> None:
        self._http = _open_client(base_url, timeout)
        url = self._http.url
        if url == DEFAULT_URL and not os.environ.get("OPENAI_API_KEY", "").strip():
            remedy = "Set OPENAI_API_KEY, or give --base-url for another endpoint, or use --model local/…."
            raise ConfigError(f"openai/{name} needs a key.", remedy)
        self.name = f"{kind}/{name}"
        self.identity = f"openai:{without_password(url)}:{name}"
        self.endpoint = url
        self.slots, self._model = slots, name
        self._refused: set[str] = set()
        self._max_logprobs: int | None = None

    def drop_capability(self, capability: Capability) -> None:
        self.capabilities = self.capabilities - {capability}

    async def generate(self, request: Request, *, step: str) -> Reply:
        while True:
            sent = self._body(request)
            content = _encode_body(sent, request.messages)
            headers = {"X-Hoptree-Step": step, "Content-Type": "application/json"}
            status, received, body = await self._http.send(
                "POST", "/chat/completions", headers=headers, content=content
            )
            if status == 200:
                return await read_body(self._read, body)
            if status in (400, 422) and (cap := _logprobs_cap(body, sent)):
                self._max_logprobs = cap
                continue
            if status in (400, 422) and (parameters := _refused_parameters(body, sent)):
                self._refused.update(parameters)
                continue
            raise self._failure(status, received, body)

    def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
            "messages": None,  # `_encode_body` puts them in
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "seed": request.seed,
        }
        if request.stop:
            body["stop"] = list(request.stop)
        if request.n > 1:
            body["n"] = request.n
        if request.top_p < 1:
            body["top_p"] = request.top_p
        if request.top_logprobs:
            cap = request.top_logprobs if self._max_logprobs is None else self._max_logprobs
            body |= {"logprobs": True, "top_logprobs": min(request.top_logprobs, cap)}
        if request.json_schema:
            schema = {"name": "reply", "schema": json.loads(request.json_schema), "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        for parameter in self._refused & body.keys():
            value = body.pop(parameter)
            if parameter in _RENAMED:
                body[_RENAMED[parameter]] = value
        return body

    def _read(self, body: bytes) -> Reply:
        data: Any = None
        try:
            data = parse_json(body)
            if "choices" not in data and (message := error_text(self._http.without_secrets(body))):
                cause = f"{self._http.shown} answered with an error: {message[:300]}."
                raise EndpointError(cause, "Check model and options.")
            choices = tuple(_read_choice(choice) for choice in data["choices"])
            if not choices:
                raise KeyError("choices")
            usage = _read_usage(data.get("usage") or {}, choices)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OverflowError) as error:
            kind = describe_body(body) if data is None else "JSON of another kind"
            kind = str(error) if isinstance(error, _NotACompletion) else kind
            cause = f"{self._http.shown} answered with {kind} instead of a chat completion."
            remedy = "Check that --base-url ends where /chat/completions begins (often /v1)."
            raise UnusableReply(cause, remedy) from error
        return Reply(choices, usage)

    def _failure(self, status: int, headers: Mapping[str, str], body: bytes) -> EndpointError:
        message = error_text(body)
        quoted = f": {message[:300]}" if message else ""
        if status == 429 or status >= 500 or status in (408, 409, 425):
            return self._http.failure(status, headers, body)
        if status in (401, 403):
            cause, remedy = f"refused the key (HTTP {status})", "Set OPENAI_API_KEY to a valid key."
        elif status == 404:
            cause = f"has no model '{self._model}' (HTTP 404{quoted})"
            remedy = "Check the model's name and that --base-url is complete (often …/v1)."
        else:
            cause = f"refused the request (HTTP {status}{quoted})"
            too_long = "context" in message
            remedy = "Shorten the question or the passages (--set k=…)." if too_long else "Check model and options."
        return EndpointError(f"{self._http.shown} {cause}.", remedy, status=status, exit_code=2)

    async def aclose(self) -> None:
        await self._http.aclose()


def _encode_body(body: Mapping[str, Any], messages: Sequence[Message]) -> bytes:
    """Return the JSON of a request; cache the encoding of all messages but the last."""
    encoded = ",".join([*map(_encode_again, messages[:-1]), *map(_encode_message, messages[-1:])])
    return _encode(body).replace('"messages":null', f'"messages":[{encoded}]', 1).encode()


def _encode_message(message: Message) -> str:
    return _encode({"role": message.role, "content": message.content})


_encode_again = lru_cache(maxsize=256)(_encode_message)


def _open_client(base_url: str, timeout: float | None = None) -> HttpClient:
    """Open an endpoint with its key; a local one, often slow, has a longer timeout."""
    url = (base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_URL).rstrip("/")
    headers = key_header("OPENAI_API_KEY")
    seconds = timeout or (_LOCAL_TIMEOUT_S if is_loopback_url(url) else _TIMEOUT_S)
    return HttpClient(url, headers=headers, timeout=seconds, url_source="--base-url", max_body=MAX_BODY_BYTES)


async def list_models(base_url: str = "", *, timeout: float = 10.0) -> list[str]:
    """Return the names of the models that an endpoint offers."""
    client = _open_client(base_url, timeout)
    try:
        status, headers, body = await client.send("GET", "/models")
        if status in (401, 403):
            cause = f"{client.shown} refused the key (HTTP {status})."
            raise EndpointError(cause, "Set OPENAI_API_KEY to a valid key.", exit_code=2)
        if status != 200:
            raise client.failure(status, headers, body)
        return [str(model["id"]) for model in json.loads(body)["data"]]
    except (ValueError, KeyError, TypeError) as error:
        cause = f"{client.shown} answered with {describe_body(body)} instead of a list of models."
        raise UnusableReply(cause, "Check that the base URL is complete (often …/v1).") from error
    finally:
        await client.aclose()


def _logprobs_cap(body: bytes, sent: Mapping[str, Any]) -> int:
    """Return how many alternatives to request after an error; 0 if fewer cannot help.

    It is the largest number in the error that is below the one sent, or a fallback; each attempt requests fewer.
    """
    message, requested = error_text(body), int(sent.get("top_logprobs", 0))
    if "logprob" not in message:
        return 0
    named = (int(number) for number in re.findall(r"(?<![\w.-])\d{1,3}(?![\w-])", message))
    return max(
        (number for number in named if 0 < number < requested),
        default=next((n for n in _FALLBACK_LOGPROBS if n < requested), 0),
    )


def _refused_parameters(body: bytes, sent: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the refused parameters that can be left out or renamed."""
    message = error_text(body)
    if "logprobs" in sent and "logprob" in message:
        return _LOGPROBS
    return tuple(name for name in (*_RENAMED, *_OPTIONAL) if f"'{name}'" in message and name in sent)[:1]


class _NotACompletion(ValueError):
    """A reply looks like a completion but is none; the message says what it is."""


def _read_choice(data: dict[str, Any]) -> Choice:
    message = data["message"]
    content = message.get("content")
    if isinstance(content, list):  # some servers send parts
        content = "".join(part.get("text", "") for part in content)
    if not isinstance(content, str | None):
        raise TypeError("content that is not text")
    if content and _HTML.match(content):
        raise _NotACompletion("a web page")  # from a proxy
    reasonings = (message.get(name) for name in ("reasoning_content", "reasoning"))
    reasoning = next((thought for thought in reasonings if isinstance(thought, str) and thought), "")
    finish = read_finish(data.get("finish_reason"))
    if not content and not reasoning and finish == "other":  # an empty reply of a model ends with "stop"
        raise _NotACompletion("an empty message")
    tokens = [read_token(entry) for entry in (data.get("logprobs") or {}).get("content") or []]
    return read_choice(content or "", reasoning=reasoning, finish=finish, tokens=tokens)


def _read_usage(usage: dict[str, Any], choices: tuple[Choice, ...]) -> TokenUsage:
    """Read the server's counts; estimate uncounted reasoning by its characters."""
    counted, thought = read_usage(usage), sum(len(choice.reasoning) for choice in choices)
    if counted.reasoning or not thought:
        return counted
    share = thought / (thought + sum(len(choice.text) for choice in choices))
    return replace(counted, reasoning=round(counted.completion * share))
