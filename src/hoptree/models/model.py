"""What a language model is to the rest of the house: one Protocol, a request and a reply."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

__all__ = ["Capability", "Choice", "Loads", "Message", "Model", "Reply", "Request", "Token", "TokenUsage"]

Capability = Literal["logprobs", "attention", "hidden_states", "prefix", "n_samples", "json_schema"]


@dataclass(frozen=True, slots=True)
class Message:
    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Request:
    """Everything the caller decides about a reply.

    `top_logprobs` asks for that many alternatives a token (0: no log-probabilities). `json_schema` is the schema
    as JSON text, so that a request stays hashable. `prefix` is the beginning of the reply, to be continued.
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


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token, its log-probability, and its likeliest rivals."""

    text: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class TokenUsage:
    prompt: int = 0
    cached: int = 0
    completion: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """One sampled continuation: what was said, what was only thought, and why it ended."""

    text: str
    reasoning: str = ""
    finish: Literal["stop", "length", "other"] = "stop"
    tokens: tuple[Token, ...] = ()


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


@runtime_checkable
class Loads(Protocol):
    """A model inside this process, which has to be loaded before its first call."""

    async def load(self) -> None:
        """Load it, unless it is: what that takes is no part of any reply."""


class Model(Protocol):
    """A language model behind some endpoint.

    `identity` is everything besides the request that determines a reply (endpoint, weights), and so part of the
    cache key. `endpoint` names what is shared by a concurrency limit, `slots` how many requests it takes at once at
    most. `generate` sends exactly one request: it never retries, caches or counts; failures are `ModelError`s.
    """

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> str: ...

    @property
    def endpoint(self) -> str: ...

    @property
    def slots(self) -> int: ...

    @property
    def capabilities(self) -> frozenset[Capability]: ...

    async def generate(self, request: Request, *, step: str) -> Reply: ...

    async def aclose(self) -> None: ...
