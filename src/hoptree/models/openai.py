"""Any endpoint that speaks OpenAI's chat completions: OpenAI, vLLM, Ollama, llama.cpp, LM Studio and others."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx

from hoptree.errors import ConfigError, EndpointError, ModelError, RateLimited, UnusableReply
from hoptree.models.model import Capability, Choice, Reply, Request, Token, TokenUsage
from hoptree.models.reasoning import read_choice

__all__ = ["OpenAIModel"]

DEFAULT_URL = "https://api.openai.com/v1"
MAX_BODY = 16 * 2**20
"""Bytes of a response that are read; a server that never ends its reply is cut off here."""

_RENAMED = {"max_tokens": "max_completion_tokens"}
_OPTIONAL = ("temperature", "seed", "stop")


class OpenAIModel:
    """A model at an OpenAI-compatible base URL, over one keep-alive client.

    It adapts to endpoints that refuse a parameter (`max_tokens`, `temperature`, `seed`) by leaving it out from then
    on; every other failure becomes a typed error.
    """

    capabilities: frozenset[Capability] = frozenset({"logprobs", "n_samples", "json_schema"})

    def __init__(
        self, name: str, *, base_url: str = "", api_key: str = "", timeout: float = 120.0, slots: int = 100
    ) -> None:
        self.url = (base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_URL).rstrip("/")
        key = (api_key or os.environ.get("OPENAI_API_KEY", "")).strip()
        if not key.isascii() or not key.isprintable():
            raise ConfigError("The key holds a character that no key has.", "Copy OPENAI_API_KEY again.")
        if not _is_url(self.url):
            raise ConfigError(
                f"'{self.url}' is no base URL.", "It begins with http:// or https:// and often ends in /v1."
            )
        if self.url == DEFAULT_URL and not key:
            raise ConfigError(
                f"openai/{name} needs a key.",
                "Set OPENAI_API_KEY, or give --base-url for another endpoint, or use --model local/….",
            )
        self.name = f"openai/{name}"
        self.identity = f"openai:{self.url}:{name}"
        self.endpoint = self.url
        self._shown = _without_password(self.url)
        self.slots = slots
        self._model = name
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._timeout = timeout
        self._client: httpx.AsyncClient | None = None
        self._refused: set[str] = set()

    async def generate(self, request: Request, *, step: str) -> Reply:
        while True:
            sent = self._body(request)
            status, headers, body = await self._post(sent, step)
            if status == 200:
                return self._read(body)
            if status == 400 and (parameter := _complained_of(body, sent)):
                self._refused.add(parameter)
                continue
            raise self._failure(status, headers, body)

    async def _post(self, body: dict[str, Any], step: str) -> tuple[int, httpx.Headers, bytes]:
        if self._client is None:
            # Without TLS there is no need to load certificates, which takes longer than a request.
            self._client = httpx.AsyncClient(
                headers=self._headers,
                timeout=httpx.Timeout(self._timeout, connect=10.0),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=self.slots),
                verify=self.url.startswith("https://"),
            )
        try:
            async with (
                asyncio.timeout(self._timeout),
                self._client.stream(
                    "POST", f"{self.url}/chat/completions", json=body, headers={"X-Hoptree-Step": step}
                ) as response,
            ):
                received = bytearray()
                async for chunk in response.aiter_bytes():
                    received += chunk
                    if len(received) > MAX_BODY:
                        raise UnusableReply(
                            f"{self._shown} sent a reply without end.", "Check the server's max_tokens."
                        )
                return response.status_code, response.headers, bytes(received)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise EndpointError(
                f"{self._shown} did not answer within {self._timeout:g} seconds.",
                "Check that the server is running and not overloaded.",
                retryable=True,
            ) from error
        except httpx.ConnectError as error:
            raise EndpointError(
                f"{self._shown} cannot be reached ({error}).",
                "Start the server, or correct --base-url.",
                retryable=True,
                exit_code=2,
            ) from error
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise EndpointError(
                f"The connection to {self._shown} broke off ({type(error).__name__}).", "Try again.", retryable=True
            ) from error
        except (httpx.InvalidURL, UnicodeError) as error:
            raise ConfigError(f"'{self._shown}' is no base URL ({error}).", "Correct --base-url.") from error

    def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": message.role, "content": message.content} for message in request.messages],
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "seed": request.seed,
        }
        if request.stop:
            body["stop"] = list(request.stop)
        if request.n > 1:
            body["n"] = request.n
        if request.top_logprobs:
            body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        if request.json_schema:
            schema = {"name": "reply", "schema": json.loads(request.json_schema), "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        for parameter in self._refused & body.keys():
            value = body.pop(parameter)
            if parameter in _RENAMED:
                body[_RENAMED[parameter]] = value
        return body

    def _read(self, body: bytes) -> Reply:
        try:
            data = json.loads(body)
            if "choices" not in data and (said := _error_text(body)):
                raise EndpointError(f"{self._shown} answered with an error: {said[:300]}.", "Check model and options.")
            choices = tuple(_read_choice(choice) for choice in data["choices"])
            if not choices:
                raise KeyError("choices")
            usage = _read_usage(data.get("usage") or {}, choices)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OverflowError) as error:
            raise UnusableReply(
                f"{self._shown} answered with {_what(body)} instead of a chat completion.",
                "Check that --base-url ends where /chat/completions begins (often /v1).",
            ) from error
        return Reply(choices, usage)

    def _failure(self, status: int, headers: httpx.Headers, body: bytes) -> ModelError:
        said = _error_text(body)
        quoted = f": {said[:300]}" if said else ""
        after = _retry_after(headers)
        if status in (401, 403):
            return EndpointError(
                f"{self._shown} refused the key (HTTP {status}).",
                "Set OPENAI_API_KEY to a valid key.",
                status=status,
                exit_code=2,
            )
        if status == 404:
            return EndpointError(
                f"{self._shown} has no model '{self._model}' (HTTP 404{quoted}).",
                "Check the model's name and that --base-url is complete (often …/v1).",
                status=status,
                exit_code=2,
            )
        if status == 429:
            paid_up = "quota" not in said and "billing" not in said
            return RateLimited(
                f"{self._shown} asks for fewer requests (HTTP 429{quoted}).",
                "Wait a little or lower --concurrency; finished calls are kept.",
                status=status,
                retryable=paid_up,
                retry_after=after,
            )
        if status >= 500 or status in (408, 409, 425):
            return EndpointError(
                f"{self._shown} failed (HTTP {status}{quoted}).",
                "Try again later; finished calls are kept.",
                status=status,
                retryable=True,
                retry_after=after,
            )
        return EndpointError(
            f"{self._shown} refused the request (HTTP {status}{quoted}).",
            "Shorten the question or the passages (--set k=…)." if "context" in said else "Check model and options.",
            status=status,
            exit_code=2,
        )

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None


def _complained_of(body: bytes, sent: Mapping[str, Any]) -> str:
    """The parameter of the request that a 400 complains of, if leaving it out or renaming it may help."""
    said = _error_text(body)
    return next((name for name in (*_RENAMED, *_OPTIONAL) if f"'{name}'" in said and name in sent), "")


def _read_choice(data: dict[str, Any]) -> Choice:
    message = data.get("message") or {}
    content = message.get("content")
    if isinstance(content, list):  # some servers send parts
        content = "".join(str(part.get("text", "")) for part in content)
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    finish: Literal["stop", "length", "other"] = (
        data["finish_reason"] if data.get("finish_reason") in ("stop", "length") else "other"
    )
    entries = (data.get("logprobs") or {}).get("content") or []
    tokens = tuple(
        Token(
            str(entry["token"]),
            float(entry["logprob"]),
            tuple((str(top["token"]), float(top["logprob"])) for top in entry.get("top_logprobs") or ()),
        )
        for entry in entries
    )
    return read_choice(str(content or ""), reasoning=str(reasoning), finish=finish, tokens=tokens)


def _read_usage(usage: dict[str, Any], choices: tuple[Choice, ...]) -> TokenUsage:
    """The server's counts; thought that it does not count apart is estimated by its share of the characters."""
    completion = int(usage.get("completion_tokens") or 0)
    reasoning = int((usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0)
    thought = sum(len(choice.reasoning) for choice in choices)
    if not reasoning and thought:
        reasoning = round(completion * thought / (thought + sum(len(choice.text) for choice in choices)))
    cached = int((usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0)
    return TokenUsage(int(usage.get("prompt_tokens") or 0), cached, completion, reasoning)


def _error_text(body: bytes) -> str:
    """What an error response says, in one line; nothing if it is a page and not a message."""
    try:
        data = json.loads(body)
        error = data.get("error", data.get("detail", data.get("message", "")))
        said = error.get("message", "") if isinstance(error, dict) else error
    except (ValueError, AttributeError, RecursionError):
        return ""
    return " ".join(str(said).split())


def _what(body: bytes) -> str:
    start = body.lstrip()[:200].lower()
    if not start:
        return "nothing"
    if start.startswith((b"<!doctype", b"<html", b"<")):
        return "a web page"
    return "half a JSON object" if start.startswith(b"{") else "something else"


def _retry_after(headers: httpx.Headers) -> float | None:
    try:
        if milliseconds := headers.get("retry-after-ms"):
            return float(milliseconds) / 1000
        value = headers.get("retry-after")
        if value is None:
            return None
        return (
            float(value)
            if value.replace(".", "", 1).isdigit()
            else parsedate_to_datetime(value).timestamp() - time.time()
        )
    except (ValueError, TypeError):
        return None


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port out of range, brackets that do not close
        return False


def _without_password(url: str) -> str:
    """The URL as it may be shown and written to a trace."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return scheme + separator + host.rpartition("@")[2] + slash + path
