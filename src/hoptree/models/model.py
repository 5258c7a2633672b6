"""The Protocol of language models, requests and replies, and opening by name."""

from __future__ import annotations

import asyncio
import math
import os
import re
import threading
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, runtime_checkable

from hoptree.core.errors import ConfigError, ModelError, closest
from hoptree.core.lazy import lazy_re
from hoptree.core.values import Attended, Token

Capability = Literal[
    "logprobs", "entropy", "attention", "hidden_states", "prefix", "n_samples", "json_schema", "top_p", "top_k"
]
MAX_TOP_LOGPROBS = 20  # alternatives for a token; endpoints give no more
Signal = Literal["entropy", "attention", "hidden", "end"]
"""Internal signals of a model; their capabilities are entropy, attention and hidden_states.

With `end`, a model that has entropy returns the end of a reply as a last token without text.
"""


@dataclass(frozen=True, slots=True)
class Message:
    role: Literal["system", "user", "assistant"]
    content: str


FOLLOW_UP = "+again"  # suffix of a prompt's name when it asks again, after an unusable reply


@dataclass(frozen=True, slots=True)
class Request:
    """Everything the caller decides about a reply.

    `top_logprobs` is the number of alternatives per token (0: no log-probabilities). `json_schema` is JSON text, so
    that a request stays hashable. `prefix` is the beginning of the reply, to be continued.

    At a temperature above 0, `top_k` keeps that many of the likeliest tokens (0: all), and `top_p` keeps the fewest of
    these whose probabilities add up to it. A model without that capability draws from all tokens.

    `signals` requests internal signals; models without the capability ignore it. With `max_tokens=0` nothing is
    written, and the reply's tokens are those of the prefix with their signals. `attention_of` then names character
    spans of the prefix whose attention to all before them is returned.

    `opening` holds the first messages if the template fixes them; a model may cache their state. `template` names the
    prompt, for adapters that were trained on certain prompts.
    """

    messages: tuple[Message, ...]
    max_tokens: int = 64
    temperature: float = 0.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    n: int = 1
    top_logprobs: int = 0
    json_schema: str = ""
    prefix: str = ""
    signals: frozenset[Signal] = frozenset()
    attention_of: tuple[tuple[int, int], ...] = ()
    top_p: float = 1.0
    top_k: int = 0
    opening: tuple[Message, ...] = ()
    template: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise ConfigError(f"The temperature is {self.temperature}.", "Give 0 (greedy) or more.")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p is {self.top_p}.", "Give above 0 and at most 1 (all tokens).")
        if self.top_k < 0:
            raise ConfigError(f"top_k is {self.top_k}.", "Give 0 (all tokens) or more.")
        if self.n < 1:
            raise ConfigError(f"The request is for {self.n} replies.", "Give 1 or more.")
        if self.top_logprobs < 0:
            raise ConfigError(f"top_logprobs is {self.top_logprobs}.", "Give 0 (none) or more.")
        # With no token to write, a reply can only hold the signals of the prefix.
        has_prefix_output = self.prefix or self.signals or self.attention_of
        if self.max_tokens < (0 if has_prefix_output else 1):
            raise ConfigError(f"max_tokens is {self.max_tokens}.", "Give 1 or more.")


@dataclass(frozen=True, slots=True)
class TokenUsage:
    prompt: int = 0
    cached: int = 0
    completion: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """One sampled continuation: visible text, reasoning, and why it ended.

    `hidden` is the state of the last token after half of the layers (16 of 32: `hidden_states[16]` in transformers), if
    requested; a token that ended the reply is not the last one.
    """

    text: str
    reasoning: str = ""
    finish: Literal["stop", "length", "other"] = "stop"
    tokens: tuple[Token, ...] = ()
    hidden: tuple[float, ...] = ()
    attended: Attended | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    choices: tuple[Choice, ...]
    usage: TokenUsage = field(default_factory=TokenUsage)

    @property
    def text(self) -> str:
        return self.choices[0].text

    @property
    def finish(self) -> str:
        return self.choices[0].finish


class SignalNotGiven(ModelError):
    """A model lacks a requested signal, and now reports so: a new attempt can adapt."""


@runtime_checkable
class LearnsCapabilities(Protocol):
    """A model whose capabilities only show in its replies."""

    def drop_capability(self, capability: Capability) -> None:
        """Withdraw a capability."""


def trained_on(model: object) -> frozenset[str]:
    """Return the prompts a model was trained on, as NAME@DIGEST of their templates."""
    templates: frozenset[str] = getattr(model, "trained_on", frozenset())
    return templates


class SharedEngine(ABC):
    """Loaded weights shared by models with equal settings; closed with the last."""

    _open: ClassVar[dict[Any, Any]] = {}
    _open_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, settings: Any) -> None:
        self._settings = settings
        self._users = 0

    @classmethod
    def shared(cls, settings: Any) -> Self:
        with cls._open_lock:
            if settings not in cls._open:
                cls._open[settings] = cls(settings)
            engine: Self = cls._open[settings]
            engine._users += 1
            return engine

    async def release(self) -> None:
        with self._open_lock:
            self._users -= 1
            if self._users:
                return
            self._open.pop(self._settings, None)
        await asyncio.to_thread(self.close)

    @abstractmethod
    def close(self) -> None:
        """Free the weights; called once no model uses them."""


def first_line(error: Exception) -> str:
    """Return the first line of an error, or its class, without a full stop."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


class Progress(NamedTuple):
    """Progress of a call: prompt tokens read (some cached) of `total`, tokens written.

    All are 0 while the model is loaded. `rate` is the speed of reading that was measured last, in tokens a second.
    """

    read: int
    total: int
    cached: int = 0
    written: int = 0
    seconds: float = 0.0
    rate: float = 0.0


on_progress: ContextVar[Callable[[Progress], None] | None] = ContextVar("on_progress", default=None)
"""Callback for the progress of a call, if its model reports any; runs in the call's event loop."""


class Model(Protocol):
    """A language model.

    `identity` is everything besides the request that determines a reply (endpoint, weights); it is part of the cache
    key. Models with the same `endpoint` share a limit of at most `slots` concurrent requests. `generate` sends exactly
    one request: it never retries, caches or counts; failures are `ModelError`s.
    """

    name: str
    endpoint: str
    slots: int

    @property
    def identity(self) -> str: ...

    @property
    def capabilities(self) -> frozenset[Capability]: ...

    async def generate(self, request: Request, *, step: str) -> Reply: ...

    async def aclose(self) -> None: ...


_OPEN = lazy_re(r"<(think|thinking|thought|reasoning)>", re.IGNORECASE)
_CLOSE = lazy_re(r"</(think|thinking|thought|reasoning)>", re.IGNORECASE)
_OPENED = lazy_re(rf"{_OPEN.pattern}\s*\Z", re.IGNORECASE)


def opens_thought(prompt: str) -> bool:
    """Return whether a prompt ends with an open reasoning tag, as some templates do."""
    return _OPENED.search(prompt) is not None


def close_thought(prompt: str) -> str:
    """Close the reasoning that a prompt opens: the reply then begins visibly."""
    opened = _OPENED.search(prompt)
    return f"{prompt.rstrip()}\n\n</{opened[1]}>\n\n" if opened else prompt


def read_choice(
    raw: str,
    *,
    reasoning: str = "",
    finish: Literal["stop", "length", "other"] = "stop",
    tokens: Sequence[Token] = (),
    opened: bool = False,
) -> Choice:
    """Build a choice whose text and tokens are without reasoning.

    `reasoning` is what the server returned separately. Everything up to the last closing tag is reasoning, since some
    chat templates open the tag in the prompt (`opened`); so is everything after a tag that is never closed.
    """
    if not (reasoning or opened or "<" in raw):
        return Choice(raw.strip(), "", finish, tuple(tokens))
    start = 0
    for closing in _CLOSE.finditer(raw):
        start = closing.end()
    end = 0 if opened and not start else len(raw)
    if opening := _OPEN.search(raw, start, end):
        end = opening.start()
    text = raw[start:end].strip()
    thought = "\n".join(part for part in (reasoning, raw[:start], raw[end:]) if part)
    thought = _CLOSE.sub("", _OPEN.sub("", thought)).strip()
    return Choice(text, thought, finish, _visible_tokens(text, tokens) if thought else tuple(tokens))


def read_token(entry: dict[str, Any]) -> Token:
    """Read a token of the list under `logprobs` of an OpenAI-compatible endpoint."""
    rivals = tuple((str(rival["token"]), float(rival["logprob"])) for rival in entry.get("top_logprobs") or ())
    return Token(str(entry["token"]), float(entry["logprob"]), rivals)


def read_finish(reason: object) -> Literal["stop", "length", "other"]:
    """Read the finish reason of an OpenAI-compatible endpoint."""
    return "stop" if reason == "stop" else "length" if reason == "length" else "other"


_MAX_TOKENS = 10**9  # of one reply; more would be no number that can be shown


def read_usage(usage: dict[str, Any]) -> TokenUsage:
    """Read the token counts of a reply; booleans and negative numbers count as 0."""
    read, written = usage.get("prompt_tokens_details") or {}, usage.get("completion_tokens_details") or {}
    prompt, completion = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    cached, reasoning = _count(read.get("cached_tokens")), _count(written.get("reasoning_tokens"))
    return TokenUsage(prompt, min(cached, prompt), completion, min(reasoning, completion))


def _count(value: Any) -> int:
    number = 0 if isinstance(value, bool) else value if isinstance(value, float) else int(value or 0)
    return int(min(max(number, 0), _MAX_TOKENS))


_SPACES = lazy_re(r"\s*")
_MAX_PLACES_TRIED = 64


def _visible_tokens(visible: str, tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Return the last tokens that spell the visible text, without reasoning; or ()."""
    written = "".join(token.text for token in tokens)
    ends = [0, *accumulate(len(token.text) for token in tokens)]
    at = written.rfind(visible) if visible else -1
    for _ in range(_MAX_PLACES_TRIED):
        if at < 0:
            break
        start, stop = bisect_right(ends, at) - 1, at + len(visible)
        spaces = _SPACES.match(written, stop)
        end = bisect_right(ends, spaces.end() if spaces else stop) - 1
        if ends[end] >= stop and not written[ends[start] : at].strip():
            return tuple(tokens[start:end])
        at = written.rfind(visible, 0, stop - 1)
    return ()


DEFAULT_MODEL = "local/qwen2.5-coder-1.5b-instruct"
LOCAL_SERVERS = {
    "ollama": "http://localhost:11434/v1",
    "vllm": "http://localhost:8000/v1",
    "lmstudio": "http://localhost:1234/v1",
}
"""Default addresses of programs that serve models on this machine."""
_KINDS = ("openai", "local", "hf", "scripted", *LOCAL_SERVERS)
_ENDPOINT_SETTINGS: dict[str, type] = {"timeout": int}
_LOCAL_SETTINGS = {"n_ctx": int, "slots": int, "threads": int, "exact": bool, "states": bool, "adapter": str}
_HF_SETTINGS = {"dtype": str, "device": str, "max_batch_tokens": int, "adapter": str}


def open_model(spec: str, *, base_url: str = "") -> Model:
    """Open the model that `KIND/NAME` names; `base_url` is for endpoints.

    `ollama/NAME`, `vllm/NAME` and `lmstudio/NAME` are endpoints at their default addresses on this machine. Settings
    follow the name: `openai/NAME?timeout=600` (seconds for one reply),
    `local/NAME?n_ctx=8192&slots=2&threads=4&exact=1&states=0&adapter=FILE.gguf`,
    `hf/NAME?dtype=bf16&device=cuda&max_batch_tokens=60000&adapter=FOLDER`. The adapter may be `hoptree` (that of
    hoptree-weights, the default of the embedded model) or `none`.
    """
    kind, _, name = spec.partition("/")
    if not name or kind not in _KINDS:
        raise ConfigError(
            f"'{spec}' names no model.",
            f"{_hint(kind, name)}Use openai/NAME, ollama/NAME, vllm/NAME, lmstudio/NAME, local/NAME, local/FILE.gguf, "
            "hf/NAME, hf/FOLDER or scripted/FILE.",
        )
    # Imported here, so that a run loads only the library of the model it uses.
    if kind == "openai" or kind in LOCAL_SERVERS:
        from hoptree.models.openai import OpenAIModel

        model, _, query = name.partition("?")
        settings = _parse_settings(query, _ENDPOINT_SETTINGS, "an endpoint's model", "timeout: openai/NAME?timeout=600")
        return OpenAIModel(model, base_url=base_url or LOCAL_SERVERS.get(kind, ""), kind=kind, **settings)
    if base_url:
        raise ConfigError(f"{kind} models take no base URL.", "Use --model openai/NAME with --base-url.")
    if kind == "scripted":
        from hoptree.models.scripted import ScriptedModel

        return ScriptedModel(name)
    weights, _, query = name.partition("?")
    if kind == "local":
        from hoptree.models.local import LocalModel

        example = "n_ctx, slots, threads, exact, states and adapter: local/NAME?n_ctx=8192"
        return LocalModel(weights, **_parse_settings(query, _LOCAL_SETTINGS, "a local model", example))
    from hoptree.models.hf import HFModel

    example = "dtype, device, max_batch_tokens and adapter: hf/NAME?dtype=bf16&device=cuda"
    return HFModel(weights, **_parse_settings(query, _HF_SETTINGS, "an hf model", example))


def runs_here(spec: str, base_url: str = "") -> bool:
    """Return whether a model runs on this machine, where a reply may take minutes."""
    kind = spec.partition("/")[0]
    if kind in ("local", "hf") or (kind in LOCAL_SERVERS and not base_url):
        return True
    from hoptree.core.config import is_loopback_url

    url = base_url or (os.environ.get("OPENAI_BASE_URL", "") if kind == "openai" else "")
    return is_loopback_url(url)


def _hint(kind: str, name: str) -> str:
    """Suggest a similar kind, or a model for a name without a kind."""
    from hoptree.models.catalogue import NAMES

    close = closest(kind, _KINDS if name else NAMES)
    if not close:
        return ""
    return f"Did you mean '{close}/…'? " if name else f"Did you mean 'local/{close}'? "


def _parse_settings(query: str, types: dict[str, type], model: str, example: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        kind = types.get(name)
        if kind is None or not value or (kind is not str and not value.isdigit()):
            raise ConfigError(f"'{part}' is not a setting of {model}.", f"The settings are {example}")
        settings[name] = value == "1" if kind is bool else kind(value)
    return settings
